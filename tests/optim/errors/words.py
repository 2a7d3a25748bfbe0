"""Matching an error message, and small optimizers that raise it.

Every error says which argument or parameter, which value or shape, which rule, and what to do next.
"""

import re
from typing import Any

import torch
from torch import nn

import colangevin as cl


def words(*parts: str) -> str:
    """A regular expression for parts that have to occur in this order."""
    return "(?s)" + ".*".join(re.escape(part) for part in parts)


def colud(weight: nn.Parameter, constraint: object, **options: Any) -> cl.CoLud:
    """An optimizer of one parameter named 'w'."""
    return cl.CoLud([{"params": [("w", weight)], "constraint": constraint}], 0.1, friction=1.0, **options)


def parameter(*values: Any, dtype: torch.dtype = torch.float32) -> nn.Parameter:
    return nn.Parameter(torch.tensor(values, dtype=dtype))
