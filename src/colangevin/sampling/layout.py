"""The layout of a sample: dtype and shape of every tensor, with safetensors' names of dtypes."""

from typing import Any

import torch

from colangevin.errors import SamplesError
from colangevin.sampling.memory import Weights

__all__ = ["Layout", "difference", "layout_of"]

#: [dtype, shape] of each tensor by name, the dtype as safetensors calls it
Layout = dict[str, list[Any]]

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def layout_of(weights: Weights) -> Layout:
    """The layout of a sample.

    Args:
        weights: a sample.

    Returns:
        The layout.

    Raises:
        SamplesError: for a dtype or a name that safetensors cannot store.
    """
    for name, tensor in weights.items():
        if name == "__metadata__":
            raise SamplesError(f"tensor '{name}': safetensors keeps this name to itself. Rename the tensor.")
        if tensor.dtype not in _DTYPES:
            raise SamplesError(f"tensor '{name}': {tensor.dtype} cannot be stored as safetensors.")
    return {name: [_DTYPES[tensor.dtype], list(tensor.shape)] for name, tensor in weights.items()}


def difference(found: Layout, expected: Layout) -> str:
    """The first tensor in which two layouts differ, in words."""
    name = next(name for name in {**expected, **found} if found.get(name) != expected.get(name))
    there, here = (
        "missing" if each is None else f"{each[0]} {tuple(each[1])}"
        for each in (found.get(name), expected.get(name))
    )
    return f"tensor '{name}' is {there} there and {here} in the model"
