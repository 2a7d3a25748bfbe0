"""What a result depends on besides the code: the machine, and the versions of the libraries."""

import platform
import subprocess
from importlib import metadata
from pathlib import Path

import torch

import colangevin

__all__ = ["machine", "version"]


def version(distribution: str) -> str:
    """The installed version of a distribution, empty where it is not installed."""
    if distribution == "colangevin":  # which need not be installed
        return colangevin.__version__
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def machine(device: torch.device, bandwidth: float, commit: str | None) -> dict[str, object]:
    """What to remember of this machine.

    Args:
        device: that is measured.
        bandwidth: of a copy, in bytes a second.
        commit: of the code; asked of git when None.

    Returns:
        Plain values by name.
    """
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return {
        "device": name,
        "copy_gb_per_s": round(bandwidth / 1e9, 1),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "commit": commit or _commit(),
    }


def _processor() -> str:
    """The model name of the CPU."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str:
    """The commit that is checked out, marked when files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(
            command,
            cwd=Path(__file__).parent,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
