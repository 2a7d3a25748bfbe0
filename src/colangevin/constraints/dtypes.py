"""Dtypes of weights: which a step takes, and the precision that their configurations are kept in."""

import torch
from torch import Tensor

from colangevin.errors import ConstraintError

__all__ = ["START_TOLERANCE", "check_dtype", "state_dtype"]

# Largest relative violation of an equality that counts as "on the manifold up to storage" when a run
# starts: weights that came through a checkpoint of the next lower precision pass, anything worse does not.
START_TOLERANCE = {
    torch.float64: 1e-5,
    torch.float32: 1e-3,
    torch.float16: 2e-2,
    torch.bfloat16: 1e-1,
}


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """The precision that configurations and momenta of a weight are kept and computed in."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def check_dtype(weight: Tensor, what: str) -> None:
    """Raise unless a weight's dtype is one that steps are taken in.

    Args:
        weight: the weight.
        what: name and shape, for an error.

    Raises:
        ConstraintError: naming the dtype.
    """
    if weight.is_complex():
        raise ConstraintError(
            f"{what}: complex parameters are not supported. Hold the real view instead, "
            "torch.view_as_real(parameter), or leave it to another optimizer."
        )
    if weight.dtype not in START_TOLERANCE:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in START_TOLERANCE)
        raise ConstraintError(f"{what}: dtype {weight.dtype} is not supported; use {names}.")
