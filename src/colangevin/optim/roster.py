"""The entries of an optimizer, one for each unit of parameters, kept while nothing changes."""

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from colangevin.dynamics import Dynamics
from colangevin.errors import ConstraintError
from colangevin.noise import word
from colangevin.optim.checks import check_shared, check_unit
from colangevin.optim.names import stripped
from colangevin.optim.units import units
from colangevin.sharded import is_sharded
from colangevin.step.entry import Entry
from colangevin.step.joint_entry import JointEntry

if TYPE_CHECKING:
    from colangevin.sharding.parameter import ShardedParameter
    from colangevin.sharding.sharded_step import ShardedStep

__all__ = ["Roster"]

#: options of a group that its entries depend on
_OPTIONS = ("constraint", "replicas", "first_replica", "noise_by")


class Roster:
    """Makes the entries of an optimizer, and makes them again when parameters or groups have changed.

    The entries are made again when a group changes, when a parameter is replaced, and when a parameter gets
    another shape, memory layout, dtype or device, as by ``parameter.data = ...`` or ``module.double()``.
    """

    def __init__(self) -> None:
        #: of plain parameters
        self.plain: list[Entry] = []
        #: the sharded parameters; None where there are none
        self.sharded: ShardedStep | None = None
        #: whether an entry has a state that the optimizer gets only when the step is taken
        self.apart = False
        #: of plain parameters that a constraint holds together
        self._joint: list[JointEntry] = []
        self._entries: list[Entry] = []
        self._parameters: list[Tensor] = []
        self._groups: list[tuple[object, ...]] = []
        self._forms: list[tuple[object, ...]] = []

    def entries(
        self,
        groups: Sequence[dict[str, Any]],
        names: Callable[[int], Sequence[str]],
        dynamics: Sequence[Dynamics],
        states: Mapping[Tensor, dict[str, Any]],
    ) -> list[Entry]:
        """What moves in this process. The same list while nothing changes.

        That is one entry for each plain parameter or, where a constraint holds several together, for all of
        these, and what the sharded step moves here of sharded ones.

        Args:
            groups: of the optimizer.
            names: of the parameters of a group, by its number.
            dynamics: of every group.
            states: of the optimizer. Plain parameters get theirs, and the gradients that they have now.

        Returns:
            The entries.

        Raises:
            TypeError: for a constraint that is not a :class:`~colangevin.Constraint`.
            ConstraintError: for a parameter that its constraint cannot hold, or whose state was made under
                another constraint. The entries stay as they were.
        """
        known = [
            (
                id(group),
                len(group["params"]),
                type(group["weight_decay"]),
                *map(group.get, _OPTIONS),
                moves.matrices,
            )
            for group, moves in zip(groups, dynamics, strict=True)
        ]
        parameters = [parameter for group in groups for parameter in group["params"]]
        # how each parameter lies in memory, and of a DTensor the part that this process has
        forms: list[tuple[object, ...]] = [
            (
                each.shape,
                each.stride() if each.layout is torch.strided else None,
                each.dtype,
                each.device,
                each.is_neg(),
                id(getattr(each, "_local_tensor", None)),
            )
            for each in parameters
        ]
        same = known == self._groups and forms == self._forms
        if not (same and all(map(operator.is_, self._parameters, parameters))):
            self._begin(groups, names, dynamics, parameters, forms)
            self._groups = known
        self._bind(states)
        return self._entries

    def _begin(
        self,
        groups: Sequence[dict[str, Any]],
        names: Callable[[int], Sequence[str]],
        dynamics: Sequence[Dynamics],
        parameters: list[Tensor],
        forms: list[tuple[object, ...]],
    ) -> None:
        """Make the entries; they stay as they were when that raises."""
        before: dict[int, Entry | ShardedParameter] = {id(entry.parameter): entry for entry in self.plain}
        before |= {id(each.parameter): each for each in (self.sharded.parameters if self.sharded else [])}
        forms_before = {id(each): form for each, form in zip(self._parameters, self._forms, strict=True)}
        for number, group in enumerate(groups):
            check_shared(group, f"param_groups[{number}]")
        words = _words(groups, names)
        plain: list[Entry] = []
        sharded: list[ShardedParameter] = []
        index = 0
        for number, group in enumerate(groups):
            where, constraint = f"param_groups[{number}]", group["constraint"]
            members = zip(group["params"], names(number), strict=True)
            named = ((name, parameter) for parameter, name in members)
            for unit in units(constraint, named, group["replicas"], where):
                for parameter in unit.parameters:
                    if id(parameter) in before:
                        _check_constraint(before[id(parameter)], constraint)
                end = index + len(unit.parameters)
                if [forms_before.get(id(each)) for each in unit.parameters] != forms[index:end]:
                    check_unit(unit, constraint, where)
                place = unit.name, index, words[index], number, group
                index = end
                if is_sharded(unit.first):
                    sharded.append(_sharded(unit.first, *place, dynamics[number]))
                    continue
                dtype = dynamics[number].precision(constraint.on(unit.weight.shape), unit.first.dtype)
                if unit.together:
                    plain.append(JointEntry(unit.named, *place, dtype=dtype))
                else:
                    plain.append(Entry(unit.first, *place, dtype=dtype))
        self.sharded = _step_of(sharded) if sharded else None
        self.plain = plain
        self._joint = [entry for entry in plain if isinstance(entry, JointEntry)]
        self._entries = [*plain, *(self.sharded.entries if self.sharded else [])]
        self._parameters, self._forms = parameters, forms

    def _bind(self, states: Mapping[Tensor, dict[str, Any]]) -> None:
        """Give plain parameters the gradients that they have now, and the optimizer's states."""
        apart = False
        for entry in self.plain:
            entry.grad = entry.parameter.grad
            state = states.get(entry.parameter)
            if state is not entry.state:
                entry.bind(state)
                apart |= state is not entry.state
        for joint in self._joint:
            joint.take_gradient()
        self.apart = apart


# The modules of DTensors are imported where there is one: they take as long to import as all of this library.


def _sharded(parameter: Tensor, *place: Any) -> "ShardedParameter":
    from colangevin.sharding.parameter import ShardedParameter

    return ShardedParameter(parameter, *place)  # type: ignore[arg-type]


def _step_of(sharded: "list[ShardedParameter]") -> "ShardedStep":
    from colangevin.sharding.sharded_step import ShardedStep

    return ShardedStep(sharded)


def _words(groups: Sequence[dict[str, Any]], names: Callable[[int], Sequence[str]]) -> list[int]:
    """The words of the noise of all parameters: made from their names, or their numbers."""
    words: list[int] = []
    before: Counter[str] = Counter()
    for number, group in enumerate(groups):
        if group["noise_by"] == "index":
            words += range(len(words), len(words) + len(group["params"]))
            continue
        for name in map(stripped, names(number)):
            words.append(word(name, before[name]))
            before[name] += 1
    return words


def _check_constraint(before: "Entry | ShardedParameter", constraint: object) -> None:
    """Raise when a group's constraint is not the one that a parameter's state was made under."""
    began = before.state if isinstance(before, Entry) else True
    if began and before.constraint != constraint:
        raise ConstraintError(
            f"{before.label}: its group now says {constraint!r}, but its state was made under "
            f"{before.constraint!r}, in other coordinates. Set the group's constraint back, or build a new "
            "optimizer for the new one: the weights stay, momenta start from zero."
        )
