"""Without a CUDA device Triton's interpreter runs the kernels; ask for it before Triton is imported."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def start_of_the_generator() -> None:
    """What a test draws, seeds that it does not give included, is the same in every run and in any order."""
    torch.manual_seed(0)
