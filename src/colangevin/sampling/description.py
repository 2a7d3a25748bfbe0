"""``samples.json``, beside samples on disk: their run, their tensors, and the settings they are taken by."""

import json
from pathlib import Path
from typing import Any

from colangevin.errors import SamplesError
from colangevin.sampling.layout import Layout, difference

__all__ = ["NAME", "content_of", "understand", "unreadable"]

NAME = "samples.json"
#: number of the file format; a new number means that older files can no longer be read
FORMAT = 1


def content_of(run: str, settings: dict[str, Any], layout: Layout) -> bytes:
    """The content of the file.

    Args:
        run: an identifier that no other run has.
        settings: ``every``, ``burn_in``, ``limit`` and ``replicas``.
        layout: of every sample.

    Returns:
        JSON.
    """
    description = {"format": FORMAT, "run": run, "settings": settings, "tensors": layout}
    return json.dumps(description, indent=1).encode() + b"\n"


def understand(path: Path, content: bytes, layout: Layout) -> tuple[str, dict[str, Any]]:
    """The run and the settings in the content of the file.

    Args:
        path: of the file, for errors.
        content: of the file.
        layout: the one that the samples must have.

    Returns:
        The run and the settings.

    Raises:
        SamplesError: when the content is damaged, of another format or of another model.
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
    """An error message for a damaged file.

    Args:
        path: of the file.
        error: raised by reading the file.

    Returns:
        What is wrong, and what to do.
    """
    return (
        f"{path}: cannot be read as the description of samples ({error!r}). The samples beside it are "
        "intact: put the description back from a copy, or read them by safetensors.torch.load_file."
    )


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings; ValueError for a value out of range."""
    for name, least in (("every", 1), ("burn_in", 0), ("limit", 1), ("replicas", 0)):
        value = settings[name]
        whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not (whole or (name == "limit" and value is None)):
            raise ValueError(f"{name}={value!r}")
    return settings
