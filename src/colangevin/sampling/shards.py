"""Samples on disk: a folder with a safetensors file for each, written whole or not at all.

``samples.json`` says which run the shards belong to and what is in them; the metadata of every shard repeats
the run, so that a shard from elsewhere is noticed. A kill leaves at most a hidden file ending in ``.part``.

Reading changes nothing. Whoever writes holds the lock on ``.lock`` and sweeps up what a kill has left.
"""

import os
import re
import secrets
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
        folder: made when it is not there.
        layout: dtype and shape of every tensor of a sample, by name.
        settings: plain values to remember beside the samples.

    Raises:
        SamplesError: when the folder has samples already or cannot be made, or another process collects into
            it.
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
        self._take_lock(self._check_empty)  # again: another process may have begun and ended in between
        self.run = secrets.token_hex(8)
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
        shards = cls.__new__(cls)
        shards._point_to(folder, layout)
        # Whoever thins writes the description first. So between two equal readings of it, every shard is seen
        # that it speaks of.
        while shards._content != (content := shards._read_description()):
            shards._content = content
            shards.run, settings = understand(shards.description, content, layout)
            # A list of a folder may show a file that comes meanwhile and not the one that came before it. A
            # second list shows everything up to the last of the first.
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
        #: the samples in use, in order; some files may be there besides that are to be given up
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
        """The call that a shard belongs to, after a look at its header and its length; None if it is gone."""
        safetensors = extra("safetensors", _PURPOSE)
        number = _SHARD.fullmatch(path.name)
        try:
            if not path.is_file():  # to open a pipe would never end
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
        """Become the one process that writes here, and sweep up what a kill has left.

        Raises:
            SamplesError: when another process collects into the folder, or has since it was loaded.
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
        """Lock the folder, unless something about it is wrong then, and sweep up."""
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
        """Remove what kills have left; nobody else may be writing."""
        for left in self.folder.glob(f".sample*{HALF}"):
            with suppress(OSError):  # what cannot be removed does no harm
                left.unlink()
        for call in self._on_disk - set(self.calls):
            self._delete(call)

    def remember(self, settings: dict[str, Any]) -> None:
        """Write what is to be remembered beside the samples.

        Args:
            settings: plain values.

        Raises:
            SamplesError: when the disk does not take it.
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
            call: that took it, after those of the other samples.
            weights: the sample.

        Raises:
            SamplesError: when the disk does not take it; what is there already stays.
        """
        # copied, since safetensors refuses tensors that share memory
        tensors = {name: tensor.to("cpu", copy=True).contiguous() for name, tensor in weights.items()}
        metadata = {"run": self.run, "call": str(call)}
        path = self._path(call)
        # save_file would write to a name of its own first, which a kill leaves behind
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
            call: that took it.
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
        """When the samples were taken: they themselves are on disk."""
        return {"taken": list(self.calls)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Forget samples that a state dict does not know: the resumed run takes them again."""
        taken = set(state_dict["taken"])
        # the latest first: a kill on the way leaves no gap
        for call in [call for call in reversed(self.calls) if call not in taken]:
            self.remove(call)

    def _path(self, call: int) -> Path:
        return self.folder / f"sample-{call:012d}.safetensors"


def _unwritten(path: Path, error: Exception) -> str:
    return (
        f"{path}: could not be written ({getattr(error, 'strerror', None) or error}). The samples that were "
        "stored before are intact. Make room, then go on."
    )
