"""Fused steps for CUDA, and the one place that decides who takes them."""

import functools
import importlib.util
from typing import TYPE_CHECKING

import torch

from colangevin.constraints import Circle, Free, Orthogonal, Sphere
from colangevin.integrators.overdamped import Overdamped
from colangevin.integrators.underdamped import Underdamped
from colangevin.optim.entry import Entry

if TYPE_CHECKING:
    from colangevin.kernels.fused import Fused

__all__ = ["Family", "family", "mover"]

#: what parameters have to share to be moved together
Family = tuple[object, ...]

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_WIDEST_ROW = 16384  # entries that the registers of one program hold
_INTERPRETED = False  # tests let Triton's interpreter take CPU tensors


@functools.cache
def _triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def family(entry: Entry, dynamics: Overdamped | Underdamped) -> Family | None:
    """Which parameters this one moves together with on the device; None when it takes the plain path.

    Args:
        entry: a parameter with its gradient.
        dynamics: of its group.

    Returns:
        A key that parameters moved together share, or None.
    """
    weight, grad, constraint = entry.parameter, entry.grad, entry.constraint
    if not (weight.is_cuda or _INTERPRETED) or not _triton() or not _regular(dynamics):
        return None
    if weight.dtype not in _DTYPES or grad.dtype not in _DTYPES or grad.device != weight.device:
        return None
    if not weight.is_contiguous():
        # a dense weight in another order is walked through in memory; its noise would come in that order
        dense = weight.dim() == 4 and weight.is_contiguous(memory_format=torch.channels_last)
        if not dense or dynamics.noisy or isinstance(constraint, Sphere):
            return None
    if grad.stride() != weight.stride() and not (grad.is_contiguous() and weight.is_contiguous()):
        return None
    if isinstance(dynamics, Overdamped) and "momentum" in entry.state:
        return None
    letters = None if isinstance(dynamics, Overdamped) else dynamics.splitting
    common = (letters, weight.device, weight.dtype, grad.dtype, bool(entry.group["maximize"]))
    # noise is a good part of a step that treats weights one by one, so that who has none stays apart
    if isinstance(constraint, Free) or (isinstance(constraint, Circle) and _one_radius(constraint, entry)):
        return ("elementwise", dynamics.noisy, *common)
    if isinstance(constraint, Sphere) and entry.configuration_shape[1] <= _WIDEST_ROW:
        return ("sphere", constraint.slack, dynamics.noisy, *common)
    if isinstance(constraint, Orthogonal):
        return ("orthogonal", *common)
    return None


def _one_radius(circle: Circle, entry: Entry) -> bool:
    """Whether all weights of a copy have the same radius."""
    r = circle.radius
    return isinstance(r, float) or (
        r.shape[0] == r.numel() == entry.copies and r.dim() == 1 + len(entry.shape)
    )


def mover(kind: Family, entries: list[Entry]) -> "Fused":
    """The launches for parameters of one family."""
    from colangevin.kernels import movers  # here, because it needs Triton

    families: dict[object, type[movers.ElementwiseMover | movers.SphereMover | movers.OrthogonalMover]] = {
        "elementwise": movers.ElementwiseMover,
        "sphere": movers.SphereMover,
        "orthogonal": movers.OrthogonalMover,
    }
    return families[kind[0]](entries)


def _regular(dynamics: Overdamped | Underdamped) -> bool:
    """One gradient, and the same share for every A, every B and every O."""
    if isinstance(dynamics, Overdamped):
        return True
    return dynamics.segments == 1 and len(set(dynamics.splitting.segments[0])) == 3
