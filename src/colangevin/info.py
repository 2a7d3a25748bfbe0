"""``colangevin info``: which fast paths are in use, and why the others are not."""

import platform

import torch

import colangevin
from colangevin.native.library import library, why_not
from colangevin.step.fused.eligible import triton_runs_on

__all__ = ["info"]


def info() -> str:
    """Describe what steps run on here.

    Returns:
        Lines of text: versions, then each fast path with its details or with the reason why it is not in use.
        A parameter that no fast path takes is moved in plain torch, on every device.
    """
    versions = f"colangevin {colangevin.__version__}, torch {torch.__version__}"
    machine = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    return f"{versions}, {machine}\nCPU, native library: {_native()}\nCUDA, Triton kernels: {_triton()}"


def _native() -> str:
    reason = why_not()  # asked for first: a broken library is a line here, not a warning as well
    found = None if reason else library()
    if found is None:
        return f"not in use: {reason}"
    count = torch.get_num_threads()
    threads = (
        f"{count} of torch's OpenMP threads" if found.pool else "one thread: torch has no OpenMP to share"
    )
    return f"in use: {found.variant} instructions, {threads}, {found.path}"


def _triton() -> str:
    if not torch.cuda.is_available():
        return "not in use: torch finds no CUDA device"
    if not triton_runs_on(torch.device("cuda")):
        return "not in use: triton is not installed. Run: pip install triton"
    count = torch.cuda.device_count()
    return f"in use: {torch.cuda.get_device_name(0)}" + (f" and {count - 1} more" if count > 1 else "")
