"""Memory as the kernels are told of it: addresses and types."""

import torch
import triton.language as tl
from torch import Tensor

__all__ = ["TYPES", "address"]

#: what Triton calls the dtypes of weights and gradients
TYPES = {torch.float32: tl.float32, torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}


def address(tensor: Tensor | None, element: int) -> int:
    """Where an element of a dense tensor lies; 0 when there is no tensor."""
    return 0 if tensor is None else tensor.data_ptr() + element * tensor.element_size()
