"""The one place that decides which parameters the native library moves."""

import torch
from torch import Tensor

from colangevin.constraints.forms import (
    BlocksForm,
    ElementwiseForm,
    Form,
    OrthogonalForm,
    SimplexForm,
    SphereForm,
    SquareForm,
)
from colangevin.dynamics import Adam, Dynamics, Langevin, Muon, Underdamped
from colangevin.native.library import library
from colangevin.native.tables import MOST_LETTERS, TYPES
from colangevin.step.entry import Entry
from colangevin.step.native.radii import one_a_copy

__all__ = ["native", "natively"]

_STATE = (torch.float32, torch.float64)
_BY_ADAM = (ElementwiseForm, SphereForm, SimplexForm, SquareForm)


def natively(entry: Entry, dynamics: Dynamics) -> Dynamics:
    """The step that the library would take: Adam's of a vector among Muon's matrices."""
    return dynamics.adam if isinstance(dynamics, Muon) and len(entry.manifold.shape) < 2 else dynamics


def native(entry: Entry, dynamics: Dynamics) -> bool:
    """Whether the native library moves a parameter.

    Args:
        entry: a parameter with its gradient.
        dynamics: of its group.

    Returns:
        Whether it does; else the parameter takes the plain path.
    """
    weight, grad, dynamics = entry.parameter, entry.grad, natively(entry, dynamics)
    if entry.form is None or weight.device.type != "cpu":
        return False
    by_adam = isinstance(dynamics, Adam) and isinstance(entry.form, _BY_ADAM) and entry.dtype in _STATE
    if not (by_adam or isinstance(dynamics, Langevin)):
        return False
    if weight.dtype not in TYPES or grad.dtype not in TYPES or grad.device != weight.device:
        return False
    if grad.is_neg() or weight.is_neg():
        return False
    if isinstance(dynamics, Underdamped) and max(map(len, dynamics.splitting.segments)) > MOST_LETTERS:
        return False
    in_order = _in_order(weight, grad) or _in_one_order(entry, dynamics)
    return in_order and _moves(entry.form, entry)


def _moves(form: Form, entry: Entry) -> bool:
    """Whether the library is there and has this form."""
    if isinstance(form, SphereForm) and not form.slices.in_order:
        return False
    # the two orthonormal matrices of one entry have no tangent
    lone = isinstance(form, OrthogonalForm | BlocksForm) and entry.configuration_shape[-2:] == (1, 1)
    return library() is not None and not lone


def _in_order(weight: Tensor, grad: Tensor) -> bool:
    """Whether elements lie in memory in the order in which their noise comes."""
    return weight.is_contiguous() and grad.is_contiguous()


def _in_one_order(entry: Entry, dynamics: Dynamics) -> bool:
    """Whether weight and gradient lie in one other order, and no element has to know its number."""
    weight, grad, form = entry.parameter, entry.grad, entry.form
    if dynamics.noisy or not isinstance(form, ElementwiseForm) or grad.stride() != weight.stride():
        return False
    dense = weight.dim() == 4 and weight.is_contiguous(memory_format=torch.channels_last)
    return dense and not entry.replicas and (form.radius is None or one_a_copy(form.radius, entry))
