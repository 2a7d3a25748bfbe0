"""CUDA graphs that are being recorded: a step that waits for the device cannot be a part of one."""

from collections.abc import Sequence

import torch

from colangevin.dynamics import Dynamics
from colangevin.errors import ConstraintError
from colangevin.step.entry import Entry
from colangevin.step.fused.eligible import refusal

__all__ = ["check_recordable"]


def check_recordable(entries: Sequence[Entry], dynamics: Sequence[Dynamics]) -> None:
    """Raise if a CUDA graph is being recorded.

    Args:
        entries: parameters that move by plain torch, which waits for their device.
        dynamics: of every group of the optimizer.

    Raises:
        ConstraintError: naming the first parameter, why it has no fused step and what to do.
    """
    first = entries[0]
    if _recording(first.parameter.device):
        why = refusal(first, dynamics[first.group_index])
        raise ConstraintError(
            f"{first.label}: a CUDA graph is being recorded, and the step of this parameter waits for the "
            f"device. {why}"
        )


def _recording(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()
