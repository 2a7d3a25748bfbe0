"""The engine under every optimizer here: gather, check, step, write."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from colangevin.constraints import Circle, Constraint, Free
from colangevin.errors import ConstraintError, SplittingError, label
from colangevin.integrators.underdamped import Underdamped
from colangevin.optim import checkpoint
from colangevin.optim.bucket import Bucket, Dynamics, Entry
from colangevin.optim.checks import check_parameter, number
from colangevin.optim.guards import check_edits, check_gradients, warn_at_rest

__all__ = ["ConstrainedOptimizer", "Params"]

Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]
Closure = Callable[[], Any]


class ConstrainedOptimizer(Optimizer):
    """Constrained Langevin dynamics as a ``torch.optim.Optimizer``.

    Subclasses say what the options of a group mean, in :meth:`_dynamics`; everything else is here. The state
    of a parameter is its ``step`` count, its ``momentum`` (underdamped only) and its ``position`` (only where
    the weight alone does not determine it), the last two in the coordinates of the constraint.
    """

    def __init__(self, params: Params, defaults: dict[str, Any], seed: int | None) -> None:
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ConstraintError(f"seed={seed!r}: must be a whole number or None.")
        self._written: dict[Tensor, tuple[int, int]] = {}
        options = {"constraint": Free(), "replicas": 0, "seed": seed, "maximize": False}
        super().__init__(params, {**defaults, **options})
        if any(group["temperature"] != 0 for group in self.param_groups):
            self._draw_seed()

    # ---- what subclasses say ---------------------------------------------------------------------

    def _dynamics(self, group: dict[str, Any], where: str) -> Dynamics:
        """The dynamics that a group's options stand for; raises when one of them is out of range."""
        raise NotImplementedError

    # ---- groups ----------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group; nothing is added when it does not fit.

        Args:
            param_group: as in torch, with ``constraint`` and, for stacked copies, ``replicas`` besides.

        Raises:
            ConstraintError: for an option out of range or a parameter its constraint cannot hold.
        """
        super().add_param_group(param_group)
        try:
            self._check_group(len(self.param_groups) - 1)
        except Exception:
            self.param_groups.pop()
            raise

    def _check_group(self, position: int) -> None:
        group, where = self.param_groups[position], f"param_groups[{position}]"
        constraint = group["constraint"]
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"constraint={constraint!r} in {where}: must be a constraint such as "
                "colangevin.Circle(0.05), not " + type(constraint).__name__ + "."
            )
        if isinstance(group["replicas"], bool) or not isinstance(group["replicas"], int):
            raise ConstraintError(f"replicas={group['replicas']!r} in {where}: must be a whole number.")
        self._dynamics(group, where)
        for parameter, name in zip(group["params"], self._names(position), strict=True):
            check_parameter(parameter, constraint, name, group["replicas"], where)
            if isinstance(constraint, Circle) and number(group, "temperature", where=where) == 0:
                warn_at_rest(constraint, parameter, name)

    def _names(self, position: int) -> list[str]:
        """Names of a group's parameters, or their places when torch was given none."""
        group = self.param_groups[position]
        names = group.get("param_names")
        if names is not None:
            return list(names)
        return [f"param_groups[{position}].params[{i}]" for i in range(len(group["params"]))]

    # ---- the step --------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        """Take one step; raises before anything changes, or not at all.

        Args:
            closure: re-evaluates the model and returns the loss, with gradients enabled. It is called once,
                and again before every kick of a splitting that follows a drift.

        Returns:
            The closure's loss at the start of the step, or None.

        Raises:
            SplittingError: when a splitting needs a closure and there is none.
            NonFiniteError: when a gradient holds NaN or Inf.
            ConvergenceError: when an ``Implicit`` constraint finds no point to go to.
        """
        dynamics = [self._dynamics(group, f"param_groups[{i}]") for i, group in enumerate(self.param_groups)]
        segments = max((each.segments for each in dynamics), default=1)
        if segments > 1 and closure is None:
            self._refuse_without_closure(dynamics)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        before = self._snapshot() if segments > 1 else None
        try:
            self._segment(dynamics, 0)
            for segment in range(1, segments):
                with torch.enable_grad():
                    closure()  # type: ignore[misc]
                self._segment(dynamics, segment)
        except Exception:
            if before is not None:
                self._restore(before)
            raise
        return loss

    def _refuse_without_closure(self, dynamics: list[Dynamics]) -> None:
        for position, each in enumerate(dynamics):
            if isinstance(each, Underdamped) and each.segments > 1:
                raise SplittingError(
                    f"splitting={each.splitting.text!r} in param_groups[{position}]: a B after an A needs "
                    "the gradient at the new position. Pass a closure to step(), or use a string whose "
                    "every B precedes every A ('OBA', 'BOA') or that begins and ends with B ('BAOAB')."
                )

    def _segment(self, dynamics: list[Dynamics], segment: int) -> None:
        """Run one segment of every group's splitting: check all, then compute, then write."""
        buckets = self._gather(dynamics, segment)
        check_gradients(buckets)
        check_edits(buckets)
        if any(bucket.noise_shapes(segment) for bucket in buckets):
            self._draw_seed()
        # what can fail is computed before anything is written, so that a failure changes nothing
        fallible = [bucket for bucket in buckets if bucket.constraint.fallible]
        results = [bucket.compute(segment) for bucket in fallible]
        for bucket, (q, p) in zip(fallible, results, strict=True):
            self._write(bucket, q, p, segment)
        for bucket in buckets:
            if not bucket.constraint.fallible:
                self._write(bucket, *bucket.compute(segment), segment)

    def _gather(self, dynamics: list[Dynamics], segment: int) -> list[Bucket]:
        """Sort the parameters that have a gradient into buckets."""
        buckets: dict[object, Bucket] = {}
        index = -1
        for position, group in enumerate(self.param_groups):
            for parameter, name in zip(group["params"], self._names(position), strict=True):
                index += 1
                grad = parameter.grad
                if grad is None or parameter.numel() == 0 or segment >= dynamics[position].segments:
                    continue
                if grad.is_sparse:
                    raise ConstraintError(
                        f"{label(name, parameter.shape)}: sparse gradients are not supported; build the "
                        "embedding with sparse=False."
                    )
                constraint = group["constraint"]
                shape = tuple(parameter.shape[1:] if group["replicas"] else parameter.shape)
                key: object = index
                if constraint.stacks:
                    key = (constraint, dynamics[position], shape, parameter.dtype, parameter.device)
                bucket = buckets.setdefault(key, Bucket(constraint.on(shape), dynamics[position], shape))
                untouched = self._written.get(parameter) == _fingerprint(parameter)
                state = self.state[parameter]
                bucket.entries.append(Entry(parameter, grad, name, index, group, state, untouched))
        return list(buckets.values())

    def _write(self, bucket: Bucket, q: Tensor, p: Tensor | None, segment: int) -> None:
        """Store a bucket's result, and remember what the weights looked like."""
        bucket.write(q, p, last=segment == bucket.dynamics.segments - 1)
        for entry in bucket.entries:
            self._written[entry.parameter] = _fingerprint(entry.parameter)

    def _draw_seed(self) -> None:
        """Give every group that has no seed one and the same, from torch's generator."""
        groups = [group for group in self.param_groups if group["seed"] is None]
        if groups:
            seed = int(torch.randint(2**63 - 1, ()).item())
            for group in groups:
                group["seed"] = seed

    # ---- undoing a step that needs several gradients ---------------------------------------------

    def _snapshot(self) -> list[tuple[Tensor, Tensor, dict[str, Any]]]:
        parameters = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        return [(p, p.clone(), _cloned(self.state.get(p, {}))) for p in parameters]

    def _restore(self, before: list[tuple[Tensor, Tensor, dict[str, Any]]]) -> None:
        for parameter, weight, state in before:
            parameter.copy_(weight)
            self.state[parameter] = state

    # ---- checkpoints -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state as tensors and plain values, constraints as descriptions of themselves."""
        return checkpoint.pack(super().state_dict())

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict; nothing changes when it does not belong to this optimizer.

        Args:
            state_dict: what :meth:`state_dict` returned for an optimizer built in the same way.

        Raises:
            ConstraintError: when a constraint or a shape differs, naming the parameter and both.
        """
        names = [self._names(position) for position in range(len(self.param_groups))]
        checkpoint.check_groups(state_dict, self.param_groups, names)
        constraints = [group["constraint"] for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, constraint in zip(self.param_groups, constraints, strict=True):
            group["constraint"] = constraint
        checkpoint.restore_precision(state_dict, self.param_groups, self.state)
        self._written.clear()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a pickle or a deep copy."""
        super().__setstate__(state)
        self._written = {}


def _fingerprint(parameter: Tensor) -> tuple[int, int]:
    """Changes whenever torch knows that the parameter was written or replaced."""
    return parameter._version, parameter.data_ptr()


def _cloned(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value.clone() if isinstance(value, Tensor) else value for key, value in state.items()}
