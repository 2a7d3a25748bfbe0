"""Who moves with whom: fused on the device where that is possible, else in plain torch."""

import math

import torch
from torch import Tensor

from colangevin.errors import ConstraintError
from colangevin.kernels import Family, family, mover
from colangevin.optim.bucket import Bucket, Dynamics
from colangevin.optim.checks import check_dtype
from colangevin.optim.entry import Entry
from colangevin.optim.sweep import Sweep, swept_by

__all__ = ["Layout", "Plan", "gradient_layouts"]

# Elements of a matrix beyond which a batched product on the CPU gains nothing over one a matrix.
_WORTH_STACKING = 1 << 14

#: dtype of a gradient, and its strides unless it is contiguous; None when there is none
Layout = tuple[torch.dtype, bool | tuple[int, ...]] | None


def gradient_layouts(grads: list[Tensor | None]) -> list[Layout]:
    """How gradients lie in memory."""
    return [None if grad is None else (grad.dtype, grad.is_contiguous() or grad.stride()) for grad in grads]


class Plan:
    """The parameters of a step, in buckets for plain torch and in fused sets.

    Args:
        entries: every parameter of the optimizer.
        layouts: of their gradients.
        dynamics: of every group.
        segment: of the step; groups whose splitting has ended sit it out.

    Raises:
        ConstraintError: for a sparse gradient, or one of a weight whose dtype no step is taken in.
    """

    def __init__(
        self, entries: list[Entry], layouts: list[Layout], dynamics: list[Dynamics], segment: int
    ) -> None:
        self.entries = entries
        self.layouts = layouts
        self.dynamics = dynamics
        self.forms = _forms(dynamics)
        self.segment = segment
        self.noisy = any(each.noisy for each in dynamics)
        self.active = [
            entry
            for entry, layout in zip(entries, layouts, strict=True)
            if layout is not None and entry.numel and segment < dynamics[entry.position].segments
        ]
        for entry in self.active:
            check_dtype(entry.parameter, entry.label)
            if entry.grad.layout is not torch.strided:
                raise ConstraintError(
                    f"{entry.label}: sparse gradients are not supported; build the embedding with "
                    "sparse=False."
                )
        first = _first_alike(dynamics)
        buckets: dict[object, Bucket] = {}
        sweeping: dict[object, Sweep] = {}
        families: dict[Family, list[Entry]] = {}
        for entry in self.active:
            kind = family(entry, dynamics[entry.position])
            if kind is not None:
                families.setdefault(kind, []).append(entry)
                continue
            constraint, dtype = entry.constraint, entry.parameter.dtype
            alone = None if entry.varies or dynamics[entry.position].varies else swept_by(entry)
            if alone is not None:
                sweep = sweeping.setdefault((entry.position, dtype), Sweep(alone, entry.position))
                sweep.entries.append(entry)
                continue
            together: object = entry.index
            small = entry.parameter.device.type != "cpu" or math.prod(entry.shape) <= _WORTH_STACKING
            if constraint.stacks and small:
                together = (first[entry.position], constraint, entry.shape, dtype, entry.parameter.device)
            buckets.setdefault(together, Bucket(constraint, entry.position)).entries.append(entry)
        self.buckets = list(buckets.values())
        self.sweeps = list(sweeping.values())
        self.plain: list[Bucket | Sweep] = [*self.buckets, *self.sweeps]
        self.fused = [mover(kind, members) for kind, members in families.items()]

    def fits(
        self, entries: list[Entry], layouts: list[Layout], dynamics: list[Dynamics], segment: int
    ) -> bool:
        """Whether the plan would come out the same: numbers may change, who moves with whom may not."""
        if entries is not self.entries or layouts != self.layouts or segment != self.segment:
            return False
        return dynamics is self.dynamics or _forms(dynamics) == self.forms

    def edited(self) -> list[Entry]:
        """Parameters that somebody else wrote since the last step, as far as one can tell."""
        plain = [entry for each in self.plain for entry in each.entries if not entry.look()]
        return plain + [entry for fused in self.fused for entry in fused.touched()]

    def check_edits(self) -> None:
        """Raise :class:`InfeasibleError` when a weight was moved off its manifold since the last step."""
        for entry in self.edited():
            entry.constraint.check(entry.parameter, replicas=bool(entry.replicas), name=entry.name)


def _first_alike(dynamics: list[Dynamics]) -> list[int]:
    """For every group the first that shares its dynamics."""
    return [next(k for k, other in enumerate(dynamics) if other is each) for each in dynamics]


def _forms(dynamics: list[Dynamics]) -> list[object]:
    """Which groups move alike, and in which form."""
    forms = [(type(each), each.noisy, each.varies, getattr(each, "splitting", None)) for each in dynamics]
    return [*_first_alike(dynamics), *forms]
