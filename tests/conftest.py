"""Without a CUDA device Triton's interpreter runs the kernels; ask for it before Triton is imported."""

import contextlib
import os
import warnings
from collections.abc import Iterator

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def start_of_the_generator() -> None:
    """What a test draws, seeds that it does not give included, is the same in every run and in any order."""
    if torch.cuda.is_initialized():
        torch.manual_seed(0)
    else:
        # torch.manual_seed would keep a traceback for every device that may begin later
        torch.default_generator.manual_seed(0)


@pytest.fixture
def waiting_is_an_error() -> contextlib.AbstractContextManager[None]:
    """Within it, whatever makes the host wait for a CUDA device fails."""
    return _waiting_is_an_error()


@contextlib.contextmanager
def _waiting_is_an_error() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its own mode a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
