"""The one place that decides which parameters take a fused step."""

import functools
import importlib.util
import math

import torch

from colangevin.constraints.forms import ElementwiseForm, OrthogonalForm, SphereForm
from colangevin.constraints.radius import Radius
from colangevin.dynamics import Dynamics, Langevin, Muon, Overdamped, Underdamped
from colangevin.step.entry import Entry

__all__ = ["Family", "family", "triton_runs_on"]

#: what parameters have to share to be moved together; the first item says by which mover
Family = tuple[object, ...]

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_WIDEST_ROW = 16384  # entries that the registers of one program hold


def family(entry: Entry, dynamics: Dynamics) -> Family | None:
    """Which parameters this one moves together with on the device; None when it takes the plain path.

    Args:
        entry: a parameter with its gradient.
        dynamics: of its group.

    Returns:
        A key that parameters moved together share, or None.
    """
    weight, grad, form = entry.parameter, entry.grad, entry.form
    if isinstance(dynamics, Muon) and len(entry.shape) > 1:
        return _with_muon(entry, dynamics)
    if form is None or not triton_runs_on(weight.device) or not isinstance(dynamics, Langevin):
        return None
    if not _regular(dynamics):
        return None
    if weight.dtype not in _DTYPES or grad.dtype not in _DTYPES or grad.device != weight.device:
        return None
    if not weight.is_contiguous():
        # The kernels walk through memory. In channels_last that is another order of the elements: noise would
        # fall on other ones, and the state of a sphere with slack is not in that order.
        dense = weight.dim() == 4 and weight.is_contiguous(memory_format=torch.channels_last)
        if not dense or dynamics.noisy or isinstance(form, SphereForm):
            return None
    if grad.stride() != weight.stride() and not (grad.is_contiguous() and weight.is_contiguous()):
        return None
    if isinstance(dynamics, Overdamped) and "momentum" in entry.state:
        return None
    if dynamics.noisy and entry.window is not None and not entry.window.in_one_piece(entry.numel):
        return None  # the kernels count on from the first element of a part
    letters = None if isinstance(dynamics, Overdamped) else dynamics.splitting
    common = (letters, weight.device, weight.dtype, grad.dtype, bool(entry.group["maximize"]))
    # Noise is a large part of the cost of the first two families: parameters without it are launched apart.
    if isinstance(form, ElementwiseForm) and (form.radius is None or _one_a_copy(form.radius, entry)):
        return (ElementwiseForm, dynamics.noisy, *common)
    if isinstance(form, SphereForm) and entry.configuration_shape[1] <= _WIDEST_ROW:
        return (SphereForm, form.slack, dynamics.noisy, *common)
    if isinstance(form, OrthogonalForm):
        return (OrthogonalForm, *common)
    return None


def _with_muon(entry: Entry, dynamics: Muon) -> Family | None:
    """The family of a matrix that takes a step of Muon: those of one shape are orthogonalised together."""
    weight, grad, form = entry.parameter, entry.grad, entry.form
    whole = entry.window is None and entry.split is None and not entry.sharded
    if not (whole and triton_runs_on(weight.device) and weight.is_contiguous() and grad.is_contiguous()):
        return None
    if weight.dtype not in _DTYPES or grad.dtype not in _DTYPES or grad.device != weight.device:
        return None
    common = (dynamics.kind, weight.device, weight.dtype, entry.dtype, grad.dtype)
    rest = (*common, bool(entry.group["maximize"]))
    if isinstance(form, ElementwiseForm) and form.radius is None:
        return ("muon", ElementwiseForm, entry.shape, *rest)
    if isinstance(form, SphereForm) and not form.slack:
        return ("muon", entry.configuration_shape, entry.shape, *rest)
    return ("muon on frames", *rest) if isinstance(form, OrthogonalForm) else None


def triton_runs_on(device: torch.device) -> bool:
    """Whether Triton is installed and compiles for a device."""
    return device.type == "cuda" and _installed()


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def _one_a_copy(radius: Radius, entry: Entry) -> bool:
    """Whether all weights of a copy have the same radius."""
    shape = radius.shape
    one_each = math.prod(shape) == entry.copies and shape[:1] == (entry.copies,)
    return radius.uniform or (one_each and len(shape) == 1 + len(entry.shape))


def _regular(dynamics: Overdamped | Underdamped) -> bool:
    """Whether a step takes one gradient, and each of its letters has the same share wherever it stands."""
    if isinstance(dynamics, Overdamped):
        return True
    return dynamics.segments == 1 and len(set(dynamics.splitting.segments[0])) == 3
