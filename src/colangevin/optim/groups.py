"""Parameter groups that print as a table of what is held and what is free."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor

from colangevin.constraints import Constraint, Free
from colangevin.errors import ConstraintError
from colangevin.optim.folding import fold, glob, pattern
from colangevin.optim.given_names import GivenNames
from colangevin.optim.plain_table import lines_of, wrapped

__all__ = ["Groups", "members"]

# So many lines of free matrices are named below the table; of more, their number.
_NOTED = 6


class Groups(list[dict[str, Any]]):
    """A list of parameter groups, as any optimizer takes it, whose `repr` is a table.

    The table has a line a parameter: its name, its shape, its constraint and its number of weights. What is
    free comes last. Three or more parameters whose names differ in numbers only share a line, and so do
    parameters that a constraint holds together. Below the table stand the matrices that are free and the
    share of weights that are held. Of replicas, shapes and numbers are those of one.
    """

    def names_apart(self) -> "Groups":
        """The same groups with names beside the parameters, as `ZeroRedundancyOptimizer` takes them.

        A parameter and its name are a pair in these groups. `torch.distributed.optim.ZeroRedundancyOptimizer`
        takes no pairs; it takes `{"params": parameters, "param_names": names}`.

        Returns:
            New groups of the same parameters and options.

        Raises:
            ConstraintError: for parameters that a constraint holds together, which it would give to several
                ranks.
        """
        apart = Groups()
        for group in self:
            _refuse_together(group)
            named = [(name, parameter) for name, parameter in members(group) if name is not None]
            parameters = [parameter for _, parameter in named]
            apart.append({**group, "params": parameters, "param_names": GivenNames(named)})
        return apart

    def __repr__(self) -> str:
        try:
            held, free = _sorted_out(self)
        except TypeError:  # something else has been put into the list
            return super().__repr__()
        copies = {group.get("replicas", 0) for group in self}
        return "\n".join(_table(held, free, copies.pop() if len(copies) == 1 else 0))


def _refuse_together(group: Mapping[str, Any]) -> None:
    constraint = group.get("constraint", Free())
    if constraint.shapes is not None:
        names = ", ".join(str(name) for name, _ in members(group))
        raise ConstraintError(
            f"{names}: {constraint!r} holds these parameters together, and ZeroRedundancyOptimizer gives "
            "each to a rank of its own choice. Leave them to an optimizer without it."
        )


def members(group: Mapping[str, Any]) -> list[tuple[str | None, Tensor]]:
    """The parameters of a group with their names, None for those that have none.

    Args:
        group: as a user writes it, or as an optimizer has it in `param_groups`.

    Returns:
        Names and parameters.

    Raises:
        TypeError: when it is no group, or holds something else than parameters.
    """
    if not isinstance(group, Mapping) or "params" not in group:
        raise TypeError(f"a group must be a dict with the key 'params', not {type(group).__name__}.")
    params, names = group["params"], group.get("param_names")
    listed = [params] if isinstance(params, Tensor) else params
    if not isinstance(listed, list | tuple):  # an iterator could be walked through only once
        raise TypeError(f"the params of a group must be a list, not {type(params).__name__}.")
    if names is not None:
        listed = list(zip(names, listed, strict=True))
    found = [each if isinstance(each, tuple) else (None, each) for each in listed]
    for each in found:
        if not (len(each) == 2 and isinstance(each[1], Tensor)):
            raise TypeError(f"the params of a group must be parameters or named ones, not {each!r}.")
    return found


@dataclass(frozen=True)
class _Line:
    """What stands in a line before lines are folded."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    constraint: Constraint

    @property
    def shape(self) -> str:
        return ", ".join(map(str, self.shapes))

    @property
    def weights(self) -> int:
        return sum(map(math.prod, self.shapes))

    @property
    def matrix(self) -> bool:
        return max(map(len, self.shapes)) > 1

    @property
    def words(self) -> str:
        """What holds the parameter."""
        if not isinstance(self.constraint, Free):
            return repr(self.constraint)
        return "free matrix" if self.matrix else "free"


def _sorted_out(groups: list[dict[str, Any]]) -> tuple[list[_Line], list[_Line]]:
    """The lines of parameters that are held, and of those that are free."""
    held: list[_Line] = []
    free: list[_Line] = []
    for number, group in enumerate(groups):
        named = [
            (f"param_groups[{number}].params[{place}]" if name is None else name, parameter)
            for place, (name, parameter) in enumerate(members(group))
        ]
        constraint, copied = group.get("constraint", Free()), bool(group.get("replicas"))
        for together in [named] if named and constraint.shapes is not None else [[each] for each in named]:
            shapes = tuple(tuple(each.shape[copied:]) for _, each in together)
            line = _Line(", ".join(name for name, _ in together), shapes, constraint)
            (free if isinstance(constraint, Free) else held).append(line)
    return held, free


def _table(held: list[_Line], free: list[_Line], replicas: int) -> list[str]:
    if not (held or free):
        return ["no parameters"]
    rows = [["parameter", "shape", "constraint", "weights"]]
    rows += [
        _row(lines) for lines in (*_folded(held), *_folded(sorted(free, key=lambda line: not line.matrix)))
    ]
    total, kept = (sum(line.weights for line in lines) for lines in ((*held, *free), held))
    each = f" in each of {replicas} replicas" if replicas else ""
    share = f" ({100 * kept / total:.1f} %)" if total else ""
    return [
        *lines_of(rows, right="<<<>"),
        *(_note(held, free) if held else []),
        f"held: {kept:,} of {total:,} weights{each}{share}",
    ]


def _folded(lines: list[_Line]) -> list[list[_Line]]:
    kinds = [(line.shape, line.words) for line in lines]
    return [[lines[i] for i in positions] for positions in fold([line.name for line in lines], kinds)]


def _row(lines: list[_Line]) -> list[str]:
    name = pattern([line.name for line in lines])
    called = f"{name} x{len(lines)}" if len(lines) > 1 else name
    weights = sum(line.weights for line in lines)
    return [called, lines[0].shape, lines[0].words, f"{weights:,}"]


def _note(held: list[_Line], free: list[_Line]) -> list[str]:
    """Names the free matrices: a rule for a class of modules fits their `weight` and no other matrix."""
    matrices = _folded([line for line in free if line.matrix])
    if not matrices:
        return []
    everything = [line.name for line in (*held, *free)]
    named = [f"{_key(lines, everything)} {lines[0].shape}" for lines in matrices[:_NOTED]]
    more = f" and {len(matrices) - _NOTED} more" if len(matrices) > _NOTED else ""
    return wrapped(f"free matrices: {', '.join(named)}{more}. Rules can name them as quoted.")


def _key(lines: list[_Line], everything: list[str]) -> str:
    """A glob that fits these lines and no others, in quotes; if there is none, what the table calls them."""
    names = [line.name for line in lines]
    key = glob(names)
    fits = sum(fnmatchcase(name, key) for name in everything)
    return f'"{key}"' if fits == len(names) else pattern(names)
