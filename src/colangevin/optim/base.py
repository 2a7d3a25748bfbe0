"""The engine under every optimizer here: gather, check, step, write."""

import operator
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from colangevin.constraints import Circle, Constraint, Free
from colangevin.errors import ConstraintError, SplittingError
from colangevin.integrators.rates import largest
from colangevin.integrators.underdamped import Underdamped
from colangevin.optim import checkpoint
from colangevin.optim.bucket import Dynamics
from colangevin.optim.checks import check_parameter, number
from colangevin.optim.entry import Entry
from colangevin.optim.guards import check_gradients, warn_at_rest
from colangevin.optim.plan import Plan, gradient_layouts
from colangevin.optim.sweep import Numbers, Operands, Sweep
from colangevin.optim.untraced import untraced

__all__ = ["ConstrainedOptimizer", "Params"]

Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]
Closure = Callable[[], Any]


class ConstrainedOptimizer(Optimizer):
    """Constrained Langevin dynamics as a ``torch.optim.Optimizer``.

    Subclasses say what the options of a group mean, in :meth:`_dynamics`; everything else is here. The state
    of a parameter is its ``step`` count, its ``momentum`` (underdamped only) and its ``position`` (only where
    the weight alone does not determine it), the last two in the coordinates of the constraint.
    """

    #: options of a group that its dynamics depends on
    _options: ClassVar[tuple[str, ...]]
    _entries: list[Entry] | None
    _parameters: list[Tensor]
    _states: list[dict[str, Any] | None]
    _known_groups: list[tuple[Any, ...]]
    _plan: Plan | None
    _known_options: list[Any]
    _known_dynamics: list[Dynamics]

    def __init__(self, params: Params, defaults: dict[str, Any], seed: int | None) -> None:
        self._forget()
        options = {"constraint": Free(), "replicas": 0, "first_replica": 0, "seed": seed, "maximize": False}
        super().__init__(params, {**options, **defaults})
        if any(largest(group["temperature"]) for group in self.param_groups):
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
        self._forget()
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
        for option in ("replicas", "first_replica"):
            value = group[option]
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ConstraintError(f"{option}={value!r} in {where}: must be a whole number, at least 0.")
        seed = group["seed"]
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ConstraintError(f"seed={seed!r} in {where}: must be a whole number or None.")
        number(group, "weight_decay", where=where)
        self._dynamics(group, where)
        for parameter, name in zip(group["params"], self._names(position), strict=True):
            check_parameter(parameter, constraint, name, group["replicas"], where)
            if isinstance(constraint, Circle) and not largest(group["temperature"]):
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
        dynamics = self._all_dynamics()
        segments = max([1, *(each.segments for each in dynamics)])
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

    @untraced
    def _all_dynamics(self) -> list[Dynamics]:
        """The dynamics of every group, one object for groups alike; unchanged options are trusted."""
        names = (*self._options, "weight_decay")
        known = [group[name] for group in self.param_groups for name in names]
        if _same(known, self._known_options):
            return self._known_dynamics
        options = [[group[name] for name in self._options] for group in self.param_groups]
        dynamics: list[Dynamics] = []
        for position, (group, values) in enumerate(zip(self.param_groups, options, strict=True)):
            where = f"param_groups[{position}]"
            number(group, "weight_decay", where=where)
            twins = (k for k in range(position) if _identical(options[k], values))
            twin = next(twins, None)
            dynamics.append(self._dynamics(group, where) if twin is None else dynamics[twin])
        # what lies in a tensor may change without its being replaced
        self._known_options = [] if any(isinstance(value, Tensor) for value in known) else known
        self._known_dynamics = dynamics
        return dynamics

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
        for sweep, numbers, blocks in self._all_but_sweeps(dynamics, segment, torch.compiler.is_compiling()):
            for operands in blocks:
                sweep.move(numbers, operands)
        self._complete_sweeps(dynamics, segment)

    @untraced
    def _all_but_sweeps(
        self, dynamics: list[Dynamics], segment: int, compiling: bool
    ) -> list[tuple[Sweep, Numbers, Iterable[Operands]]]:
        """Everything of a segment but the sweeps, which are left to do: torch.compile traces those."""
        plan = self._plan_for(dynamics, segment)
        active = plan.active
        for fused in plan.fused:
            fused.raise_if_flagged()
        hosted = {each.position: dynamics[each.position].on_host() for each in plan.plain}
        check_gradients(plan.plain, hosted)
        plan.check_edits()
        if plan.noisy:
            self._draw_seed()
        # what can fail is computed before anything is written, so that a failure changes nothing
        fallible = [bucket for bucket in plan.buckets if bucket.constraint.fallible]
        results = [bucket.compute(hosted[bucket.position], segment) for bucket in fallible]
        for bucket, (q, p) in zip(fallible, results, strict=True):
            bucket.write(q, p, last=segment == dynamics[bucket.position].segments - 1)
        for bucket in plan.buckets:
            if not bucket.constraint.fallible:
                last = segment == dynamics[bucket.position].segments - 1
                bucket.advance(hosted[bucket.position], segment, last=last)
        for fused in plan.fused:
            fused.advance(dynamics)
        if None in self._states:
            for entry in active:
                self.state[entry.parameter] = entry.state
        return [
            (sweep, *sweep.prepare(hosted[sweep.position], segment, whole=compiling)) for sweep in plan.sweeps
        ]

    @untraced
    def _complete_sweeps(self, dynamics: list[Dynamics], segment: int) -> None:
        assert self._plan is not None
        for sweep in self._plan.sweeps:
            sweep.complete(last=segment == dynamics[sweep.position].segments - 1)

    def _roster(self) -> list[Entry]:
        """Every parameter, as long as the groups stay as they are."""
        groups: list[tuple[Any, ...]] = [
            (len(g["params"]), g["constraint"], g["replicas"], g["first_replica"], type(g["weight_decay"]))
            for g in self.param_groups
        ]
        if self._entries is None or groups != self._known_groups:
            entries: list[Entry] = []
            for position, group in enumerate(self.param_groups):
                for parameter, name in zip(group["params"], self._names(position), strict=True):
                    entries.append(Entry(parameter, name, len(entries), position, group))
            self._entries, self._known_groups, self._plan = entries, groups, None
            self._parameters, self._states = [entry.parameter for entry in entries], []
        return self._entries

    def _plan_for(self, dynamics: list[Dynamics], segment: int) -> Plan:
        """Who moves with whom: as in the last step, when that still fits."""
        entries = self._roster()
        grads = [parameter.grad for parameter in self._parameters]
        layouts = gradient_layouts(grads)
        for entry, grad in zip(entries, grads, strict=True):
            entry.grad = grad
        states = list(map(self.state.get, self._parameters))
        if not _same(states, self._states):
            for entry, state in zip(entries, states, strict=True):
                entry.state = {} if state is None else state
        self._states = states
        plan = self._plan
        if plan is None or not plan.fits(layouts, dynamics, segment):
            plan = self._plan = Plan(entries, layouts, dynamics, segment)
        return plan

    def _forget(self) -> None:
        """Drop everything derived from groups and state."""
        self._entries = None
        self._plan = None
        self._known_options = []

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
            if state:
                self.state[parameter] = state
            else:
                self.state.pop(parameter, None)

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
        checkpoint.check_groups(state_dict, self.param_groups, names, self.defaults)
        constraints = [group["constraint"] for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, constraint in zip(self.param_groups, constraints, strict=True):
            group["constraint"] = constraint
        checkpoint.restore_precision(state_dict, self.param_groups, self.state)
        self._forget()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a pickle or a deep copy."""
        super().__setstate__(state)
        self._forget()


def _same(one: list[Any], other: list[Any]) -> bool:
    """Whether two lists hold the same objects; lists that hold None or nothing do not count."""
    return bool(one) and len(one) == len(other) and None not in one and all(map(operator.is_, one, other))


def _identical(one: list[Any], other: list[Any]) -> bool:
    """Whether options are the same, without reading numbers that lie on a device."""
    return all(
        a is b or not (isinstance(a, Tensor) or isinstance(b, Tensor) or a != b)
        for a, b in zip(one, other, strict=True)
    )


def _cloned(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value.clone() if isinstance(value, Tensor) else value for key, value in state.items()}
