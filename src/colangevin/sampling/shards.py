"""Samples on disk: a folder with a safetensors file for each, written whole or not at all.

``samples.json`` says which run the shards belong to and what is in them; the metadata of every shard repeats
the run, so that a shard from elsewhere is noticed. A kill leaves at most a hidden file ending in ``.part``.
"""

import json
import secrets
from pathlib import Path
from typing import Any

import torch

from colangevin.errors import SamplesError
from colangevin.extras import extra
from colangevin.files import HALF, write_whole
from colangevin.sampling.memory import Weights

__all__ = ["Layout", "Shards", "layout_of"]

#: of the files; raised when older ones can no longer be read
FORMAT = 1
#: words of the format for dtype and shape of each tensor, by name
Layout = dict[str, list[Any]]

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_DESCRIPTION = "samples.json"
_PURPOSE = "Storing samples on disk"


class Shards:
    """The folder of one run.

    Args:
        folder: made when it is not there.
        layout: dtype and shape of every tensor of a sample, by name.
        settings: plain values to remember beside the samples.

    Raises:
        SamplesError: when the folder has samples already, or cannot be made.
    """

    def __init__(self, folder: Path, layout: Layout, settings: dict[str, Any]) -> None:
        extra("safetensors.torch", _PURPOSE)
        if (folder / _DESCRIPTION).exists() or any(folder.glob("*.safetensors")):
            raise SamplesError(
                f"{folder}: has samples already. Go on with them by Samples.load(folder, model), or choose "
                "another folder."
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SamplesError(
                f"{folder}: cannot be made ({error.strerror or error}). Choose another folder."
            ) from error
        self.folder = folder
        self.layout = layout
        self.run = secrets.token_hex(8)
        self.calls: list[int] = []
        self.remember(settings)

    @classmethod
    def open(cls, folder: Path, layout: Layout) -> tuple["Shards", dict[str, Any]]:
        """The samples of a folder, every shard looked at, and what was remembered beside them.

        Args:
            folder: with samples.
            layout: that they must have.

        Returns:
            The samples and the settings.

        Raises:
            SamplesError: naming the file that is truncated, foreign or not of this model.
        """
        extra("safetensors.torch", _PURPOSE)
        path = folder / _DESCRIPTION
        try:
            description = json.loads(path.read_text())
            form, run = description["format"], description["run"]
            found, settings = description["tensors"], description["settings"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SamplesError(f"{path}: cannot be read as the description of samples ({error!r}).") from None
        if form != FORMAT:
            raise SamplesError(f"{path}: has format {form}; this version reads format {FORMAT}.")
        if found != layout:
            raise SamplesError(f"{path}: the samples are of another model: {_difference(found, layout)}.")
        shards = cls.__new__(cls)
        shards.folder, shards.layout, shards.run = folder, layout, run
        shards.calls = sorted(shards._examine(each) for each in folder.glob("*.safetensors"))
        for left in folder.glob(f".*{HALF}"):
            left.unlink(missing_ok=True)
        return shards, settings

    def _examine(self, path: Path) -> int:
        """The call that a shard belongs to, after a look at its header and its length."""
        safetensors = extra("safetensors", _PURPOSE)
        try:
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                found = {name: [part.get_dtype(), part.get_shape()] for name, part in parts.items()}
        except (OSError, safetensors.SafetensorError) as error:
            raise SamplesError(
                f"{path}: is not a whole safetensors file ({error}). Remove it; the other samples are intact."
            ) from error
        if metadata.get("run") != self.run or path != self._path(int(metadata.get("call", -1))):
            raise SamplesError(
                f"{path}: does not belong to the samples of this folder (run {metadata.get('run')}, not "
                f"{self.run}). Move it elsewhere."
            )
        if found != self.layout:
            raise SamplesError(f"{path}: {_difference(found, self.layout)}. Move it elsewhere.")
        return int(metadata["call"])

    def remember(self, settings: dict[str, Any]) -> None:
        """Write what is to be remembered beside the samples.

        Args:
            settings: plain values.

        Raises:
            SamplesError: when the disk does not take it.
        """
        description = {"format": FORMAT, "run": self.run, "settings": settings, "tensors": self.layout}
        path = self.folder / _DESCRIPTION
        try:
            write_whole(path, json.dumps(description, indent=1).encode() + b"\n")
        except OSError as error:
            raise SamplesError(_unwritten(path, error)) from error

    def add(self, call: int, weights: Weights) -> None:
        """Write a sample; it is on the disk when this returns.

        Args:
            call: that took it.
            weights: the sample.

        Raises:
            SamplesError: when the disk does not take it; what is there already stays.
        """
        tensors = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
        metadata = {"run": self.run, "call": str(call)}
        path = self._path(call)
        library = extra("safetensors.torch", _PURPOSE)
        try:
            # save_file would write to a name of its own first, which a kill leaves behind
            write_whole(path, library.save(tensors, metadata))
        except OSError as error:
            raise SamplesError(_unwritten(path, error)) from error
        if not self.calls or call > self.calls[-1]:
            self.calls.append(call)

    def read(self, call: int) -> Weights:
        """The sample of a call.

        Args:
            call: that took it.

        Returns:
            Its tensors.

        Raises:
            SamplesError: naming the file, when it has been truncated or removed since.
        """
        library = extra("safetensors.torch", _PURPOSE)
        path = self._path(call)
        try:
            weights: Weights = library.load_file(path)
        except (OSError, extra("safetensors", _PURPOSE).SafetensorError) as error:
            raise SamplesError(
                f"{path}: is not a whole safetensors file ({error}). Remove it and load the folder anew; the "
                "other samples are intact."
            ) from error
        return weights

    def remove(self, call: int) -> None:
        """Delete a sample."""
        self._path(call).unlink(missing_ok=True)
        self.calls.remove(call)

    def state_dict(self) -> dict[str, Any]:
        """When the samples were taken: they themselves are on disk."""
        return {"taken": list(self.calls)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Forget samples that a state dict does not know: the resumed run takes them again."""
        for call in [call for call in self.calls if call not in set(state_dict["taken"])]:
            self.remove(call)

    def _path(self, call: int) -> Path:
        return self.folder / f"sample-{call:012d}.safetensors"


def layout_of(weights: Weights) -> Layout:
    """Dtype and shape of every tensor, in the words of safetensors.

    Args:
        weights: a sample.

    Returns:
        The layout.

    Raises:
        SamplesError: for a dtype that the format does not have.
    """
    for name, tensor in weights.items():
        if tensor.dtype not in _DTYPES:
            raise SamplesError(f"tensor '{name}': {tensor.dtype} cannot be stored as safetensors.")
    return {name: [_DTYPES[tensor.dtype], list(tensor.shape)] for name, tensor in weights.items()}


def _difference(found: Layout, expected: Layout) -> str:
    """The first tensor in which two layouts differ, in words."""
    name = next(name for name in {**expected, **found} if found.get(name) != expected.get(name))
    there, here = (
        "missing" if each is None else f"{each[0]} {tuple(each[1])}"
        for each in (found.get(name), expected.get(name))
    )
    return f"tensor '{name}' is {there} there and {here} in the model"


def _unwritten(path: Path, error: Exception) -> str:
    return (
        f"{path}: could not be written ({getattr(error, 'strerror', None) or error}). The samples that were "
        "stored before are intact. Make room, then go on."
    )
