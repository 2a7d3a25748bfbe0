"""The file beside samples on disk: which run they belong to, what is in them and how they are taken."""

import json
from pathlib import Path
from typing import Any

from colangevin.errors import SamplesError
from colangevin.sampling.layout import Layout, difference

__all__ = ["NAME", "content_of", "understand", "unreadable"]

NAME = "samples.json"
#: of the files; raised when older ones can no longer be read
FORMAT = 1


def content_of(run: str, settings: dict[str, Any], layout: Layout) -> bytes:
    """A description as it stands in the file.

    Args:
        run: which no other has.
        settings: ``every``, ``burn_in``, ``limit`` and ``replicas``.
        layout: of every sample.

    Returns:
        JSON.
    """
    description = {"format": FORMAT, "run": run, "settings": settings, "tensors": layout}
    return json.dumps(description, indent=1).encode() + b"\n"


def understand(path: Path, content: bytes, layout: Layout) -> tuple[str, dict[str, Any]]:
    """The run and the settings that a description names.

    Args:
        path: of the file, for errors.
        content: of it.
        layout: that the samples must have.

    Returns:
        The run and the settings.

    Raises:
        SamplesError: when it is damaged, of another format or of another model.
    """
    try:
        description = json.loads(content)
        form, run = description["format"], description["run"]
        settings = _checked(description["settings"])
        found = {name: [dtype, list(shape)] for name, (dtype, shape) in description["tensors"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SamplesError(unreadable(path, error)) from error
    if form != FORMAT:
        raise SamplesError(
            f"{path}: has format {form}; this version reads format {FORMAT}. Use the version that wrote it."
        )
    if found != layout:
        raise SamplesError(f"{path}: the samples are of another model: {difference(found, layout)}.")
    return run, settings


def unreadable(path: Path, error: Exception) -> str:
    """Words for a description that is damaged.

    Args:
        path: of the file.
        error: on reading it.

    Returns:
        What it is, and what to do.
    """
    return (
        f"{path}: cannot be read as the description of samples ({error!r}). The samples beside it are "
        "intact: put the description back from a copy, or read them by safetensors.torch.load_file."
    )


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with the values that they can have; ValueError otherwise."""
    for name, least in (("every", 1), ("burn_in", 0), ("limit", 1), ("replicas", 0)):
        value = settings[name]
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not (whole or (name == "limit" and value is None)):
            raise ValueError(f"{name}={value!r}")
    return settings
