"""Samples on disk: a folder with one safetensors file, a shard, for each sample.

A shard is written whole or not at all: a kill leaves at most a hidden file ending in ``.part``.
``samples.json`` names the run and the tensors. The metadata of every shard repeats the run, so that a shard
from another folder is recognised.

Reading changes nothing. The one process that writes holds the lock on ``.lock``. It removes the files that a
kill has left.
"""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from colangevin.errors import SamplesError
from colangevin.extras import extra
from colangevin.files import HALF, write_whole
from colangevin.locks import Lock
from colangevin.sampling.description import NAME, content_of, understand, unreadable
from colangevin.sampling.layout import Layout, difference
from colangevin.sampling.memory import Weights

__all__ = ["Shards"]

_SHARD = re.compile(r"sample-([0-9]{12,})\.safetensors")
_PURPOSE = "Storing samples on disk"


class Shards:
    """The folder of one run.

    Args:
        folder: for the samples; made if it does not exist.
        layout: dtype and shape of every tensor of a sample, by name.
        settings: plain values to write into ``samples.json``.

    Raises:
        SamplesError: when the folder has samples already or cannot be made, or when another process collects
            into it.
    """

    def __init__(self, folder: Path, layout: Layout, settings: dict[str, Any]) -> None:
        extra("safetensors.torch", _PURPOSE)
        self._point_to(folder, layout)
        self._check_empty()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SamplesError(
                f"{folder}: cannot be made ({error.strerror or error}). Choose another folder."
            ) from error
        # check again: since the first check another process may have collected into the folder and ended
        self._take_lock(self._check_empty)
        self.run = os.urandom(8).hex()
        self.remember(settings)

    @classmethod
    def open(cls, folder: Path, layout: Layout) -> tuple["Shards", dict[str, Any]]:
        """The samples and the settings of a folder. The header of every shard is checked.

        Args:
            folder: with samples.
            layout: the one that the samples must have.

        Returns:
            The samples and the settings.

        Raises:
            SamplesError: naming the file that is truncated, foreign or not of this model.
        """
        extra("safetensors.torch", _PURPOSE)
        shards = cls.__new__(cls)
        shards._point_to(folder, layout)
        # A process that thins samples out writes the description before it deletes shards. So if the
        # description is the same before and after the listing, no thinning began in between, and the listing
        # has every shard that the description speaks of.
        while shards._content != (content := shards._read_description()):
            shards._content = content
            shards.run, settings = understand(shards.description, content, layout)
            # While another process writes, a listing may show a new shard and miss an earlier one. A second
            # listing has every shard up to the last of the first listing.
            last = max(shards._paths(), default=folder)
            found = [shards._examine(path) for path in shards._paths() if path <= last]
            shards.calls = sorted(call for call in found if call is not None)
        shards._on_disk = set(shards.calls)
        return shards, settings

    def _point_to(self, folder: Path, layout: Layout) -> None:
        try:
            str(folder).encode()
        except UnicodeEncodeError:
            raise SamplesError(
                f"folder={str(folder)!r}: safetensors reads no files whose path is not UTF-8. Choose another "
                "name, or rename the folder."
            ) from None
        self.folder = folder
        self.layout = layout
        self.description = folder / NAME
        #: calls of the samples in use, in order; ``_on_disk`` may have more, whose files are to be deleted
        self.calls: list[int] = []
        self._on_disk: set[int] = set()
        self._content: bytes | None = None  # of the description
        self._lock = Lock(folder / ".lock")

    # ---- reading ---------------------------------------------------------------------------------

    def _paths(self) -> list[Path]:
        return list(self.folder.glob("*.safetensors"))

    def _read_description(self) -> bytes:
        try:
            return self.description.read_bytes()
        except FileNotFoundError:
            raise SamplesError(
                f"{self.folder}: has no {NAME}, so no samples were collected into it. Give the folder "
                "that Samples(model, folder=...) was given."
            ) from None
        except OSError as error:
            raise SamplesError(unreadable(self.description, error)) from error

    def _examine(self, path: Path) -> int | None:
        """The call that a shard belongs to, from its header; None if the file is gone. Truncation raises."""
        safetensors = extra("safetensors", _PURPOSE)
        number = _SHARD.fullmatch(path.name)
        try:
            if not path.is_file():  # opening a pipe would block
                raise OSError("not a file")
            with safetensors.safe_open(path, framework="pt") as file:
                metadata = file.metadata() or {}
                parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
                found = {name: [part.get_dtype(), part.get_shape()] for name, part in parts.items()}
        except (OSError, RuntimeError, safetensors.SafetensorError) as error:
            if not os.path.lexists(path):  # thinned out by another process
                return None
            todo = "Remove it; the other samples are intact." if number else "Move it elsewhere."
            raise SamplesError(f"{path}: is not a whole safetensors file ({error}). {todo}") from error
        call = int(number[1]) if number else -1
        if metadata.get("run") != self.run or metadata.get("call") != str(call) or path != self._path(call):
            raise SamplesError(
                f"{path}: does not belong to the samples of this folder (run {metadata.get('run')}, not "
                f"{self.run}). Move it elsewhere."
            )
        if found != self.layout:
            raise SamplesError(f"{path}: {difference(found, self.layout)}. Move it elsewhere.")
        return call

    def read(self, call: int) -> Weights:
        """The sample of a call.

        Args:
            call: the one that took the sample.

        Returns:
            The tensors by name.

        Raises:
            SamplesError: naming the file, when it was truncated or removed since the folder was loaded.
        """
        library = extra("safetensors.torch", _PURPOSE)
        path = self._path(call)
        try:
            weights: Weights = library.load_file(path)
        except (OSError, RuntimeError, extra("safetensors", _PURPOSE).SafetensorError) as error:
            if not os.path.lexists(path):
                raise SamplesError(
                    f"{path}: is gone since the folder was loaded. Another process that collects into it has "
                    "thinned the samples out, or somebody has removed the file. Load the folder anew; the "
                    "other samples are intact."
                ) from error
            raise SamplesError(
                f"{path}: is not a whole safetensors file ({error}). Remove it and load the folder anew; the "
                "other samples are intact."
            ) from error
        return weights

    # ---- writing ---------------------------------------------------------------------------------

    def claim(self) -> None:
        """Become the one process that writes here, and remove the files that a kill has left.

        Raises:
            SamplesError: when another process collects into the folder, or has done so since it was loaded.
        """
        if not self._lock.held:
            self._take_lock(self._check_unchanged)

    def _check_unchanged(self) -> None:
        there = self._read_description(), {path.name for path in self._paths()}
        if there != (self._content, {self._path(call).name for call in self._on_disk}):
            raise SamplesError(
                f"{self.folder}: has changed since it was loaded: something else has collected into it or "
                "removed samples. Load it anew by Samples.load(folder, model)."
            )

    def _take_lock(self, check: Callable[[], None]) -> None:
        """Lock the folder, run a check, and sweep. If the check raises, release the lock."""
        try:
            ours = self._lock.take()
        except OSError as error:
            raise SamplesError(_unwritten(self._lock.path, error)) from error
        if not ours:
            raise SamplesError(
                f"{self.folder}: another process collects into it. Wait until it has ended and load the "
                "samples anew to go on with them, or choose another folder. To read them meanwhile, call "
                "Samples.load(folder, model)."
            )
        try:
            check()
            self._sweep()
        except BaseException:
            self._lock.release()
            raise

    def _check_empty(self) -> None:
        if self.description.exists() or self._paths():
            raise SamplesError(
                f"{self.folder}: has samples already. Go on with them by Samples.load(folder, model), or "
                "choose another folder."
            )

    def _sweep(self) -> None:
        """Remove the files that a kill has left. Needs the lock."""
        for left in self.folder.glob(f".sample*{HALF}"):
            with suppress(OSError):  # a leftover that stays does no harm
                left.unlink()
        for call in self._on_disk - set(self.calls):
            self._delete(call)

    def remember(self, settings: dict[str, Any]) -> None:
        """Write settings into ``samples.json``.

        Args:
            settings: plain values.

        Raises:
            SamplesError: when the disk does not take the file.
        """
        content = content_of(self.run, settings, self.layout)
        if content == self._content:
            return
        try:
            write_whole(self.description, content)
        except OSError as error:
            raise SamplesError(_unwritten(self.description, error)) from error
        self._content = content

    def add(self, call: int, weights: Weights) -> None:
        """Write a sample; it is on the disk when this returns.

        Args:
            call: the one that took the sample; later than the calls of the samples there are.
            weights: the sample.

        Raises:
            SamplesError: when the disk does not take the sample. The samples that are there stay.
        """
        # copy: safetensors refuses tensors that share memory
        tensors = {name: tensor.to("cpu", copy=True).contiguous() for name, tensor in weights.items()}
        metadata = {"run": self.run, "call": str(call)}
        path = self._path(call)
        # not save_file: it writes to a temporary name of its own, which a kill would leave behind
        content = extra("safetensors.torch", _PURPOSE).save(tensors, metadata)
        try:
            write_whole(path, content)
        except OSError as error:
            raise SamplesError(_unwritten(path, error)) from error
        self.calls.append(call)
        self._on_disk.add(call)

    def remove(self, call: int) -> None:
        """Delete a sample.

        Args:
            call: the one that took the sample.
        """
        self._delete(call)
        self.calls.remove(call)

    def _delete(self, call: int) -> None:
        path = self._path(call)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise SamplesError(
                f"{path}: could not be removed ({error.strerror or error}). Make the folder writable, then "
                "go on."
            ) from error
        self._on_disk.discard(call)

    def state_dict(self) -> dict[str, Any]:
        """The calls that took the samples. The samples themselves are on disk."""
        return {"taken": list(self.calls)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Delete samples that a state dict does not list: the resumed run takes them again."""
        taken = set(state_dict["taken"])
        # latest first: a kill in between then leaves no gap
        for call in [call for call in reversed(self.calls) if call not in taken]:
            self.remove(call)

    def _path(self, call: int) -> Path:
        return self.folder / f"sample-{call:012d}.safetensors"


def _unwritten(path: Path, error: Exception) -> str:
    return (
        f"{path}: could not be written ({getattr(error, 'strerror', None) or error}). The samples that were "
        "stored before are intact. Make room, then go on."
    )
