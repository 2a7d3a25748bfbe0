"""The entries of an optimizer, one for each parameter, kept from step to step while nothing changes."""

import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from colangevin.errors import ConstraintError
from colangevin.noise import word
from colangevin.optim.checks import check_parameter, check_shared
from colangevin.optim.names import stripped
from colangevin.step.entry import Entry

__all__ = ["Roster"]

#: options of a group that its entries depend on
_OPTIONS = ("constraint", "replicas", "first_replica", "noise_by")


class Roster:
    """Makes the entries of an optimizer, and makes them again when parameters or groups have changed.

    The entries are made again when a group changes, when a parameter is replaced, and when a parameter gets
    another shape, memory layout, dtype or device, as by ``parameter.data = ...`` or ``module.double()``.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._parameters: list[Tensor] = []
        self._groups: list[tuple[object, ...]] = []
        self._forms: list[tuple[object, ...]] = []

    def entries(self, groups: Sequence[dict[str, Any]], names: Callable[[int], Sequence[str]]) -> list[Entry]:
        """One entry for each parameter, in the order of the groups. The same list while nothing changes.

        Args:
            groups: of the optimizer.
            names: of the parameters of a group, by its number.

        Returns:
            The entries.

        Raises:
            TypeError: for a constraint that is not a :class:`~colangevin.Constraint`.
            ConstraintError: for a parameter that its constraint cannot hold, or whose state was made under
                another constraint. The entries stay as they were.
        """
        known = [
            (id(group), len(group["params"]), type(group["weight_decay"]), *map(group.get, _OPTIONS))
            for group in groups
        ]
        parameters = [parameter for group in groups for parameter in group["params"]]
        # shape, strides, dtype and device of each parameter
        forms: list[tuple[object, ...]] = [
            (each.shape, each.stride() if each.layout is torch.strided else None, each.dtype, each.device)
            for each in parameters
        ]
        same = known == self._groups and forms == self._forms
        if same and all(map(operator.is_, self._parameters, parameters)):
            return self._entries
        before = {id(entry.parameter): entry for entry in self._entries}
        forms_before = {id(e.parameter): form for e, form in zip(self._entries, self._forms, strict=True)}
        for number, group in enumerate(groups):
            check_shared(group, f"param_groups[{number}]")
        words = _words(groups, names)
        entries: list[Entry] = []
        for number, group in enumerate(groups):
            where = f"param_groups[{number}]"
            for parameter, name in zip(group["params"], names(number), strict=True):
                if id(parameter) in before:
                    _check_constraint(before[id(parameter)], group["constraint"])
                if forms_before.get(id(parameter)) != forms[len(entries)]:
                    check_parameter(parameter, group["constraint"], name, group["replicas"], where)
                index = len(entries)
                entries.append(Entry(parameter, name, index, words[index], number, group))
        self._entries, self._parameters = entries, parameters
        self._groups, self._forms = known, forms
        return entries


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


def _check_constraint(entry: Entry, constraint: object) -> None:
    """Raise when a group's constraint is not the one that a parameter's state was made under."""
    if entry.state and entry.constraint != constraint:
        raise ConstraintError(
            f"{entry.label}: its group now says {constraint!r}, but its state was made under "
            f"{entry.constraint!r}, in other coordinates. Set the group's constraint back, or build a new "
            "optimizer for the new one: the weights stay, momenta start from zero."
        )
