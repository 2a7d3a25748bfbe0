"""Plan: which parameters move together, and on which path."""

from collections.abc import Sequence

import torch

from colangevin.constraints.dtypes import check_dtype
from colangevin.dynamics import Dynamics
from colangevin.errors import ConstraintError
from colangevin.step.entry import Entry
from colangevin.step.fused.eligible import Family, family
from colangevin.step.fused.families import fused_mover
from colangevin.step.mover import Mover
from colangevin.step.native.eligible import native
from colangevin.step.native.native import Native
from colangevin.step.plain import Plain

__all__ = ["Plan"]

# Elements of a matrix beyond which a batched product on the CPU gains nothing over one a matrix.
_WORTH_STACKING = 1 << 14

#: dtype of a gradient, its strides unless it is contiguous, and whether torch negates it when it is read
Layout = tuple[torch.dtype, bool | tuple[int, ...], bool] | None


class Plan:
    """The parameters of a segment of a step, each with the mover that takes it.

    Args:
        entries: every parameter of the optimizer.
        dynamics: of every group.
        segment: of the step; groups whose splitting has ended sit it out.

    Raises:
        ConstraintError: for a sparse gradient, or one of a weight whose dtype no step is taken in; for a
            state that other steps have left, and that Adam's cannot go on from.
    """

    def __init__(self, entries: list[Entry], dynamics: list[Dynamics], segment: int) -> None:
        self.entries = entries
        self.dynamics = dynamics
        self.segment = segment
        self._layouts = _layouts(entries)
        self._forms = _forms(dynamics)
        self.noisy = any(each.noisy for each in dynamics)
        self.active = [
            entry
            for entry, layout in zip(entries, self._layouts, strict=True)
            if layout is not None and entry.moves and segment < dynamics[entry.group_index].segments
        ]
        for entry in self.active:
            _check_gradient(entry)
            _check_moments(entry, dynamics[entry.group_index])
        self.movers = self.paths(self.active, dynamics)
        #: those that look at gradients during a step, and those that do before it
        self.watching = [mover for mover in self.movers if mover.watches]
        self.hosted = [mover for mover in self.movers if not mover.watches]

    def paths(self, entries: list[Entry], dynamics: Sequence[Dynamics]) -> list[Mover]:
        """A mover for every parameter that moves."""
        return _movers(entries, dynamics)

    def fits(self, entries: list[Entry], dynamics: list[Dynamics], segment: int) -> bool:
        """Whether a new plan would be the same. Rates may differ; what decides the paths may not."""
        if entries is not self.entries or segment != self.segment or _layouts(entries) != self._layouts:
            return False
        return dynamics is self.dynamics or _forms(dynamics) == self._forms

    def edited(self) -> list[Entry]:
        """Parameters that others wrote since the last step, as far as one can tell."""
        return [entry for mover in self.movers for entry in mover.edited()]


def _movers(entries: list[Entry], dynamics: Sequence[Dynamics]) -> list[Mover]:
    """A mover for every parameter. Plain ones come first, since only they can fail."""
    first = _first_alike(dynamics)
    plain: dict[object, list[Entry]] = {}
    fused: dict[Family, list[Entry]] = {}
    natively: dict[object, list[Entry]] = {}
    for entry in entries:
        mine = dynamics[entry.group_index]
        kind = family(entry, mine)
        if kind is not None:
            fused.setdefault(kind, []).append(entry)
        elif native(entry, mine):
            natively.setdefault(None, []).append(entry)
        else:
            plain.setdefault(_stacked_with(entry, first), []).append(entry)
    return [
        *(Plain(members) for members in plain.values()),
        *(fused_mover(kind, members) for kind, members in fused.items()),
        *(Native(members) for members in natively.values()),
    ]


def _stacked_with(entry: Entry, first: Sequence[int]) -> object:
    """What parameters share that one batched call moves; a parameter alone has its own number."""
    device = entry.parameter.device
    small = device.type != "cpu" or entry.size <= _WORTH_STACKING
    part_alone = entry.window is not None and entry.split is None
    if not (entry.manifold.stacks and small) or part_alone:
        return entry.index
    # parts that move together have to be stacked alike on all processes, so they share the way in which their
    # weights are cut, from which the shape of a part follows
    form = entry.constraint, entry.shape, entry.split, entry.parameter.dtype, device
    return first[entry.group_index], *form


def _check_gradient(entry: Entry) -> None:
    """Raise unless a step can be taken along a parameter's gradient."""
    check_dtype(entry.parameter, entry.label)
    if entry.grad.layout is not torch.strided:
        raise ConstraintError(
            f"{entry.label}: sparse gradients are not supported; build the embedding with sparse=False."
        )


def _check_moments(entry: Entry, dynamics: Dynamics) -> None:
    """Raise where Adam would correct an average of squares for steps that it has not seen."""
    lacking = "second_moment" in dynamics.kept(entry.manifold) and "second_moment" not in entry.state
    if lacking and entry.step:
        raise ConstraintError(
            f"{entry.label}: it has taken {entry.step} steps of another kind, which leave its state without "
            "an average of squares, and Adam's steps need one. Set its group's method back, or build a new "
            "optimizer: the weights stay, averages start from zero."
        )


def _layouts(entries: list[Entry]) -> list[Layout]:
    """How gradients lie in memory."""
    return [
        None
        if (grad := entry.grad) is None
        else (grad.dtype, grad.is_contiguous() or grad.stride(), grad.is_neg())
        for entry in entries
    ]


def _first_alike(dynamics: Sequence[Dynamics]) -> list[int]:
    """For every group the first that shares its dynamics."""
    return [next(k for k, other in enumerate(dynamics) if other is each) for each in dynamics]


def _forms(dynamics: Sequence[Dynamics]) -> list[object]:
    """Which groups move alike, and in which form."""
    forms = [
        (type(each), each.noisy, each.varies, getattr(each, "splitting", None), getattr(each, "kind", None))
        for each in dynamics
    ]
    return [*_first_alike(dynamics), *forms]
