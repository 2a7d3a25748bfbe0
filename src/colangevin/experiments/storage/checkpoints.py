"""Checkpoints of trainings under way, as files of torch that are read only when they are whole."""

import io
from pathlib import Path
from typing import Any

import torch

from colangevin.experiments.storage.archives import check_stored
from colangevin.experiments.storage.disk import DamagedError, whole, write_atomically

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Store a training under way, in place of an earlier moment of it."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    write_atomically(path, buffer.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any] | None:
    """The training under way, if there is one.

    Args:
        path: of the file.

    Returns:
        What was stored; None when nothing was.

    Raises:
        DamagedError: when it is not whole.
    """
    if not path.is_file():
        return None
    whole(check_stored, path)
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # whole, but no checkpoint: torch then raises almost anything
        raise DamagedError(path, error) from error
    return state
