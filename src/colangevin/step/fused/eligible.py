"""The one place that decides which parameters take a fused step, and says why others do not."""

import functools
import importlib.util

import torch

from colangevin.constraints.forms import ElementwiseForm, OrthogonalForm, SimplexForm, SphereForm, SquareForm
from colangevin.dynamics import Adam, Dynamics, Muon, Overdamped, Underdamped
from colangevin.step.entry import Entry
from colangevin.step.fused.layout import dimensions, in_order, is_dense
from colangevin.step.native.radii import one_a_copy

__all__ = ["Family", "family", "refusal", "triton_runs_on"]

#: what parameters have to share to be moved together; the first item says by which mover
Family = tuple[object, ...]

_FORMS = (ElementwiseForm, SquareForm, SphereForm, SimplexForm, OrthogonalForm)
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
    found = _family_or_refusal(entry, dynamics)
    return None if isinstance(found, str) else found


def refusal(entry: Entry, dynamics: Dynamics) -> str:
    """Why a parameter takes no fused step, and what would give it one.

    Args:
        entry: a parameter with its gradient that takes the plain path.
        dynamics: of its group.

    Returns:
        A sentence.
    """
    found = _family_or_refusal(entry, dynamics)
    assert isinstance(found, str)
    return found


def _family_or_refusal(entry: Entry, dynamics: Dynamics) -> Family | str:
    """The family, or a sentence that says why there is none."""
    weight, grad, form = entry.parameter, entry.grad, entry.form
    if not triton_runs_on(weight.device):
        return "Fused steps need CUDA and Triton. Install triton."
    if not isinstance(form, _FORMS):
        return f"{entry.constraint!r} has no fused step. Step its parameters outside of the graph."
    if weight.dtype not in _DTYPES or grad.dtype not in _DTYPES or grad.device != weight.device:
        dtypes = f"Its dtype is {weight.dtype} and that of its gradient {grad.dtype}."
        return f"{dtypes} Use float32, bfloat16 or float16."
    if weight.is_neg() or grad.is_neg():
        return "Torch negates it or its gradient when it is read. Take resolve_neg() of it."
    if isinstance(dynamics, Muon) and len(entry.shape) > 1:
        return _with_muon(entry, dynamics)
    if isinstance(dynamics, Muon):
        dynamics = dynamics.adam
    if isinstance(dynamics, Adam):
        return _with_adam(entry, dynamics)
    return _with_langevin(entry, dynamics)


def _with_langevin(entry: Entry, dynamics: Overdamped | Underdamped) -> Family | str:
    """The family of a parameter that takes a step of Langevin dynamics."""
    form, noisy = entry.form, dynamics.noisy
    if isinstance(dynamics, Underdamped) and not _regular(dynamics):
        text = dynamics.splitting.text
        return f"splitting={text!r} has no fused step. Use each of A, B and O once, or 'BAOAB'."
    refused = _wrong_layout(entry, noisy=noisy)
    if refused:
        return refused
    letters = None if isinstance(dynamics, Overdamped) else dynamics.splitting
    if letters is None and "momentum" in entry.state:
        return "It has a momentum, which a step without one carries on. Build a new optimizer."
    if noisy and entry.window is not None and not entry.window.in_one_piece(entry.numel):
        return "It is a part of a weight in several pieces, and has noise. Cut the weight along dimension 0."
    common = (letters, *_common(entry))
    # Noise is a large part of the cost of the first two families: parameters without it are launched apart.
    if isinstance(form, ElementwiseForm | SquareForm):
        numbered = noisy and not in_order(dimensions(entry))
        return ("lines", type(form), noisy, _own_radii(entry), numbered, *common)
    if isinstance(form, SphereForm | SimplexForm):
        spheres = _spheres(entry)
        if spheres == "wide spheres" and letters is not None and letters.text.count("O") > 1:
            return f"splitting={letters.text!r} has no fused step for long rows. Use a splitting with one O."
        return (spheres, type(form), _slack(form), noisy, *common)
    return ("frames", *common)


def _with_adam(entry: Entry, dynamics: Adam) -> Family | str:
    """The family of a parameter that takes a step of Adam."""
    form = entry.form
    refused = _wrong_layout(entry, noisy=False)
    if refused:
        return refused
    common = (Adam, entry.dtype, *_common(entry))
    if isinstance(form, ElementwiseForm | SquareForm):
        return ("lines, Adam", type(form), _own_radii(entry), *common)
    if isinstance(form, SphereForm | SimplexForm):
        return (f"{_spheres(entry)}, Adam", type(form), _slack(form), *common)
    return f"Adam has no fused step under {entry.constraint!r}. Step it outside of the graph."


def _common(entry: Entry) -> Family:
    weight = entry.parameter
    return weight.device, weight.dtype, entry.grad.dtype, bool(entry.group["maximize"])


def _spheres(entry: Entry) -> str:
    """Whether a program can hold a row, or many work on it together."""
    return "spheres" if entry.configuration_shape[1] <= _WIDEST_ROW else "wide spheres"


def _slack(form: SphereForm | SimplexForm) -> bool:
    return isinstance(form, SphereForm) and form.slack


def _own_radii(entry: Entry) -> bool:
    """Whether elements of one copy have radii of their own."""
    radius = entry.form.radius if isinstance(entry.form, ElementwiseForm) else None
    return radius is not None and not one_a_copy(radius, entry)


def _wrong_layout(entry: Entry, *, noisy: bool) -> str | None:
    """What is wrong with how a weight and its gradient lie in memory."""
    weight, grad = entry.parameter, entry.grad
    if grad.stride() != weight.stride() and not (grad.is_contiguous() and weight.is_contiguous()):
        return (
            f"Its gradient has strides {grad.stride()} and it {weight.stride()}. Give both one memory format."
        )
    if isinstance(entry.form, SimplexForm) and entry.configuration_shape[1] > _WIDEST_ROW:
        return (
            f"{entry.constraint!r} has fused steps for rows of up to {_WIDEST_ROW} entries. Cut the weight."
        )
    if not is_dense(entry):
        return f"Its strides {weight.stride()} leave gaps in memory. Make it contiguous."
    if isinstance(entry.form, OrthogonalForm) and not weight.is_contiguous():
        # The kernels walk through memory, which in channels_last is another order of the elements: noise
        # would fall on other ones.
        channels_last = weight.dim() == 4 and weight.is_contiguous(memory_format=torch.channels_last)
        if noisy or not channels_last:
            return (
                f"{entry.constraint!r} takes a fused step in channels_last without noise alone, and "
                "otherwise in the order of a contiguous weight. Make it contiguous."
            )
    return None


def _with_muon(entry: Entry, dynamics: Muon) -> Family | str:
    """The family of a matrix that takes a step of Muon: those of one shape are orthogonalised together."""
    weight, grad, form = entry.parameter, entry.grad, entry.form
    if entry.window is not None or entry.split is not None or entry.sharded:
        return "It is a part of a weight, or sharded. Step it outside of the graph."
    if not (weight.is_contiguous() and grad.is_contiguous()):
        strides = f"Its strides are {weight.stride()}, those of its gradient {grad.stride()}."
        return f"{strides} Make both contiguous."
    kind = dynamics.kind, entry.dtype, *_common(entry)
    if isinstance(form, ElementwiseForm) and form.radius is None:
        return ("muon", ElementwiseForm, entry.shape, *kind)
    if isinstance(form, SphereForm) and not form.slack and not form.slices.transposed:
        return ("muon", entry.configuration_shape, entry.shape, *kind)
    if isinstance(form, OrthogonalForm):
        return ("muon on frames", *kind)
    return f"Muon has no fused step under {entry.constraint!r}. Step it outside of the graph."


def triton_runs_on(device: torch.device) -> bool:
    """Whether Triton is installed and compiles for a device."""
    return device.type == "cuda" and _installed()


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("triton") is not None


def _regular(dynamics: Underdamped) -> bool:
    """Whether a step takes one gradient, and each of its letters has the same share wherever it stands."""
    return dynamics.segments == 1 and len(set(dynamics.splitting.segments[0])) == 3
