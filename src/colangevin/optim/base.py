"""The engine under every optimizer here: gather, check, step, write."""

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from colangevin.constraints import Free, solves
from colangevin.dynamics import Dynamics, Underdamped
from colangevin.dynamics.rates import largest
from colangevin.dynamics.underdamped import longest
from colangevin.errors import SplittingError
from colangevin.independence import independent
from colangevin.optim import checkpoint
from colangevin.optim.checks import (
    check_noise,
    check_shared,
    check_unit,
    number,
    warn_at_rest,
)
from colangevin.optim.fitting import fitted
from colangevin.optim.given_names import taken_names
from colangevin.optim.options import SHARED, check_foreign, identical, may_change, own_options
from colangevin.optim.ranks import check_first_step
from colangevin.optim.regradient import gradient_again
from colangevin.optim.roster import Roster
from colangevin.optim.seeds import drawn_seed
from colangevin.optim.undo import Undo
from colangevin.optim.units import Unit, units
from colangevin.optim.watched import wrapped_if_watched
from colangevin.sharded import is_sharded
from colangevin.step.gradients import check_gradients
from colangevin.step.hosted import remember
from colangevin.step.plan import Plan
from colangevin.surroundings import full_precision, lasting, untraced

__all__ = ["ConstrainedOptimizer", "Params"]

Params = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[dict[str, Any]]
Closure = Callable[[], Any]


class ConstrainedOptimizer(Optimizer):
    """Constrained Langevin dynamics as a `torch.optim.Optimizer`.

    Subclasses say what the options of a group mean, in `_dynamics`; everything else is here. The state of a
    parameter is its `step` count and, in the coordinates of the constraint, its moments (a `momentum`, Adam's
    `second_moment`) and its `position`, where the weight alone does not determine it.
    """

    #: options of a group that its dynamics depends on
    _options: ClassVar[tuple[str, ...]]
    #: moments that every step leaves in the state
    _leaves: ClassVar[tuple[str, ...]] = ()
    #: whether other ranks of a distributed job have nothing to do with this optimizer
    _independent: bool = False
    #: whether weights and seeds have been compared over the ranks
    _compared: bool = False
    #: names of parameters that are not the group's names in order, since a wrapper has kept some parameters
    _given_names: dict[Tensor, str]
    #: the state dict that is being loaded
    _loading: dict[str, Any] | None
    _roster: Roster
    _plan: Plan | None
    _planned: type[Plan] = Plan
    _known_options: list[Any]
    _known_dynamics: list[Dynamics]
    #: how many gradients a step needs
    _segments: int
    #: what torch puts around `step`
    profile_hook_step = staticmethod(wrapped_if_watched)

    def __init__(self, params: Params, defaults: dict[str, Any], seed: int | None) -> None:
        self._loading = None
        self._independent = independent()
        self._given_names = {}
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

        The group is copied, tensors among its options too, so that a dict may serve several optimizers and no
        two groups share a learning rate: to change an option later, change it in `param_groups`.

        Args:
            param_group: as in torch, with `constraint` and, for stacked copies, `replicas` besides.

        Raises:
            ConstraintError: for an option out of range or a parameter its constraint cannot hold.
        """
        if isinstance(param_group, dict):
            if isinstance(param_group.get("params"), Iterator):  # which could be walked through only once
                param_group["params"] = list(param_group["params"])
            param_group = dict(param_group)
        super().add_param_group(param_group)
        added = self.param_groups[-1]
        added.setdefault("noise_by", "name" if "param_names" in added else "index")
        own_options(added)
        self._plan, self._known_options = None, []
        try:
            self._given_names |= taken_names(added)
            self._check_group(len(self.param_groups) - 1)
        except BaseException:
            self.param_groups.pop()
            raise
        if any(map(is_sharded, self._parameters())):
            from colangevin.sharding.states import begin_states  # imports the modules of DTensors

            begin_states(self)

    def _check_group(self, index: int) -> None:
        group, where = self.param_groups[index], f"param_groups[{index}]"
        self._check_options(group, where)
        group["constraint"] = fitted(group, self._names(index), where)
        for unit in self._units(index):
            check_unit(unit, group["constraint"], where)
            if not largest(group["temperature"]):
                warn_at_rest(group["constraint"], unit.weight, unit.name, unit.replicas)

    def _check_options(self, group: dict[str, Any], where: str) -> None:
        """Raise unless every option of a group is one: for a group to be added or to be loaded."""
        check_shared(group, where)
        number(group, "weight_decay", where=where)
        self._checked_dynamics(group, where)
        check_foreign(group, self._options, type(self).__name__, where)

    def _checked_dynamics(self, group: dict[str, Any], where: str) -> Dynamics:
        dynamics = self._dynamics(group, where)
        check_noise(group, dynamics, where)
        return dynamics

    def _names(self, index: int) -> list[str]:
        """Names of a group's parameters, or their places when torch was given none."""
        group = self.param_groups[index]
        if (names := group.get("param_names")) is not None:
            # not strict: a group in a wrapper may have the names of more parameters than it holds
            pairs = zip(group["params"], names, strict=False)
            return [self._given_names.get(parameter, name) for parameter, name in pairs]
        return [f"param_groups[{index}].params[{i}]" for i in range(len(group["params"]))]

    def _units(self, index: int) -> Iterator[Unit]:
        """What a group's constraint holds one by one: parameters, or all of them together."""
        group = self.param_groups[index]
        members = zip(self._names(index), group["params"], strict=True)
        return units(group["constraint"], members, group["replicas"], f"param_groups[{index}]")

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
            ConvergenceError: when an `Implicit` constraint finds no point to go to.
        """
        known = None if torch.compiler.is_compiling() else self._unchanged()
        dynamics = self._all_dynamics() if known is None else known
        segments = self._segments
        if segments > 1 and closure is None:
            self._without_closure(dynamics)
            return None
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if segments == 1 or closure is None:
            self._segment(dynamics, 0)
            return loss
        before = self._undo()
        try:
            self._segment(dynamics, 0)
            for segment in range(1, segments):
                gradient_again(closure, self._parameters(), longest(dynamics))
                self._segment(dynamics, segment)
        except BaseException:
            before.restore()
            raise
        return loss

    def _unchanged(self) -> list[Dynamics] | None:
        """The dynamics of the last step, if no option has been replaced since."""
        known = [group[name] for group in self.param_groups for name in (*self._options, "weight_decay")]
        return self._known_dynamics if _same(known, self._known_options) else None

    @untraced
    def _all_dynamics(self) -> list[Dynamics]:
        """The dynamics of every group, one object for groups alike; unchanged options are trusted."""
        if (known_dynamics := self._unchanged()) is not None:
            return known_dynamics
        known = [group[name] for group in self.param_groups for name in (*self._options, "weight_decay")]
        options = [[group[name] for name in self._options] for group in self.param_groups]
        dynamics: list[Dynamics] = []
        for index, (group, values) in enumerate(zip(self.param_groups, options, strict=True)):
            where = f"param_groups[{index}]"
            number(group, "weight_decay", where=where)
            twins = (k for k in range(index) if identical(options[k], values))
            twin = next(twins, None)
            dynamics.append(self._checked_dynamics(group, where) if twin is None else dynamics[twin])
        # what lies in a tensor may change without its being replaced
        self._known_options = [] if any(map(may_change, known)) else known
        self._known_dynamics = dynamics
        self._segments = max([1, *(each.segments for each in dynamics)])
        return dynamics

    @full_precision
    @lasting
    def _without_closure(self, dynamics: list[Dynamics]) -> None:
        """A step of length 0 makes the state, for checkpoints that load into it; any other is refused."""
        for index, each in enumerate(dynamics):
            if isinstance(each, Underdamped) and each.segments > 1 and largest(each.rates.drift):
                raise SplittingError(
                    f"splitting={each.splitting.text!r} in param_groups[{index}]: a B after an A needs "
                    "the gradient at the new position. Pass a closure to step(), or use a string whose "
                    "every B precedes every A ('OBA', 'BOA') or that begins and ends with B ('BAOAB')."
                )
        active = self._plan_for(dynamics, 0).active
        for entry in active:
            entry.settle(dynamics[entry.group_index].kept(entry.manifold))
            entry.begin_count()
            entry.state["step"].add_(1)
            if not entry.sharded:
                self.state[entry.parameter] = entry.state
        remember(active)
        if self._roster.sharded is not None:
            self._roster.sharded.give(self.state, dynamics, dynamics[0].segments - 1)

    @untraced
    @full_precision
    @lasting
    def _segment(self, dynamics: list[Dynamics], segment: int) -> None:
        """Run one segment of every group's splitting: check all, then compute, then write."""
        if not self._compared:
            check_first_step(self)
        with solves.counting(self) if self in solves.watchers else nullcontext():
            plan = self._prepared(dynamics, segment)
            for mover in plan.movers:
                mover.advance()
        for mover in plan.movers:
            mover.finish()
        if self._roster.sharded is not None:
            self._roster.sharded.give(self.state, dynamics, segment)

    def _prepared(self, dynamics: list[Dynamics], segment: int) -> Plan:
        """A plan with everything done that may fail. Of sharded parameters it fails on all ranks or none."""
        try:
            plan = self._ready(dynamics, segment)
        except Exception as error:
            if self._roster.sharded is not None:
                self._roster.sharded.fail(error)
            raise
        if self._roster.sharded is not None:
            self._roster.sharded.agree()
        return plan

    def _ready(self, dynamics: list[Dynamics], segment: int) -> Plan:
        """A plan whose movers are prepared: gradients and edited weights checked, state made."""
        plan = self._plan_for(dynamics, segment)
        for mover in plan.watching:
            mover.check()
        doubtful = [entry for mover in plan.hosted for entry in mover.doubtful(dynamics, segment)]
        doubtful += [entry for mover in plan.watching for entry in mover.entries if entry.sharded]
        if doubtful:
            check_gradients(doubtful, dynamics)
        for entry in plan.edited():
            entry.check()
        if plan.noisy:
            self._draw_seed()
        for mover in plan.movers:
            mover.prepare(dynamics, segment)
        if self._roster.apart:
            for entry in plan.active:
                if not entry.sharded:
                    self.state[entry.parameter] = entry.state
        return plan

    def _plan_for(self, dynamics: list[Dynamics], segment: int) -> Plan:
        """The plan of a segment: that of the last step, if it still fits."""
        entries = self._roster.entries(self.param_groups, self._names, dynamics, self.state)
        if self._roster.sharded is not None:
            self._roster.sharded.take(self.state, dynamics, segment)
        if self._plan is None or not self._plan.fits(entries, dynamics, segment):
            self._plan = self._planned(entries, dynamics, segment)
        return self._plan

    def _forget(self) -> None:
        """Drop everything derived from groups and state."""
        self._roster = Roster()
        self._plan = None
        self._known_options = []

    def _draw_seed(self) -> None:
        """Give every group that has no seed one and the same."""
        groups = [group for group in self.param_groups if group["seed"] is None]
        if groups:
            seed = drawn_seed(independent=self._independent)
            for group in groups:
                group["seed"] = seed

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self.param_groups for parameter in group["params"]]

    @lasting
    def _undo(self) -> Undo:
        return Undo(self._parameters(), self.state)

    # ---- checkpoints -----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state as tensors and plain values, constraints as descriptions of themselves."""
        handle = self.register_state_dict_post_hook(checkpoint.pack, prepend=True)
        try:
            return super().state_dict()
        finally:
            handle.remove()

    @lasting
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state dict; nothing changes when it does not belong to this optimizer.

        Args:
            state_dict: what `state_dict` returned for an optimizer built in the same way.

        Raises:
            ConstraintError: when a constraint or a shape differs, naming the parameter and both; when
                something in it is missing, of another kind, out of range or not finite.
        """
        checkpoint.check_form(state_dict)
        # registered last, so that it sees what the hooks of others make of the state dict
        handle = self.register_load_state_dict_pre_hook(lambda _, hooked: self._check_loaded(hooked))
        try:
            super().load_state_dict(state_dict)
        finally:
            handle.remove()
            self._loading = None

    def _check_loaded(self, state_dict: dict[str, Any]) -> None:
        """Raise unless a state dict may be loaded, and keep it for `__setstate__`."""
        checkpoint.check_form(state_dict)
        names = [self._names(index) for index in range(len(self.param_groups))]
        options = (*SHARED, *self._options)
        groups = checkpoint.check_groups(state_dict, self.param_groups, names, options)
        for index, group in enumerate(groups):
            self._check_options(group, f"param_groups[{index}] of the state dict")
        checkpoint.check_states(state_dict, self.param_groups, names, self._leaves)
        self._loading = state_dict

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle or a deep copy holds."""
        kept = ("_independent", "_compared", "_given_names")
        return {**super().__getstate__(), **{name: getattr(self, name) for name in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from a pickle, a deep copy or a state dict."""
        loaded = self.__dict__.get("_loading")
        constraints = checkpoint.constraints_of(loaded, self.param_groups) if loaded else []
        super().__setstate__(state)
        self.__dict__.setdefault("_given_names", {})  # which a pickle of 0.2.0 does not have
        for group in self.param_groups:
            group.setdefault("noise_by", checkpoint.NOISE_BEFORE)
            own_options(group)
        for group, constraint in zip(self.param_groups, constraints, strict=bool(loaded)):
            group["constraint"] = constraint
        if loaded is not None:
            checkpoint.restore_precision(loaded, self.param_groups, self._all_dynamics(), self.state)
        self._loading = None
        self._forget()


def _same(one: list[Any], other: list[Any]) -> bool:
    """Whether two lists hold the same objects; lists that hold None or nothing do not count."""
    return bool(one) and len(one) == len(other) and None not in one and all(map(operator.is_, one, other))
