"""Text as bytes: a corpus that is laid out in a folder, or any files of text."""

import hashlib
import lzma
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from colangevin.experiments.data.sources import DataError, Source
from colangevin.files import HALF, write_whole
from colangevin.locks import alone

__all__ = ["load"]

_TRAIN, _PACKED, _HELD_OUT = "train.bin", "train.bin.xz", "val.bin"
_SOURCES = {"linux-c": Source("linux-c", "C sources of Linux", "https://www.kernel.org")}
# Of files that are not split, this share is held out, in bytes.
_SHARE = 50


def load(name: str) -> tuple[Tensor, Tensor]:
    """A text to train on and one that is held out.

    ``"python"`` is the source of Python's own standard library, which is always there. Another name is a
    folder, ``$COLANGEVIN_DATA/name`` or, without the variable, one in the user's cache. It has ``train.bin``
    and ``val.bin``, or any files of text.

    Args:
        name: of the corpus.

    Returns:
        Bytes to train on and bytes held out, uint8.

    Raises:
        DataError: when there is no such text; it says what to do.
    """
    if name == "python":
        library = Path(sysconfig.get_path("stdlib"))
        return _of_files(library, sorted(library.glob("*.py")))
    folder = _SOURCES[name].folder
    held_out = folder / _HELD_OUT
    try:
        if held_out.is_file() and any((folder / each).is_file() for each in (_TRAIN, _PACKED)):
            return _tensor(_unpacked(folder)), _tensor(held_out.read_bytes())
        found = sorted(path for path in folder.rglob("*") if _is_text(path, folder))
        if found:
            return _of_files(folder, found)
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error}). Make its files readable.") from error
    raise DataError(
        f"{_SOURCES[name].title} are not on this machine, and nothing is downloaded: any text will do. Put "
        f"files of text into\n    {folder}\nor a text to train on as {_TRAIN} (or packed, {_PACKED}) and one "
        f"to be held out as {_HELD_OUT}, or set COLANGEVIN_DATA to a folder that has them in {name}/. Then "
        "run the command again."
    )


def _unpacked(folder: Path) -> bytes:
    """The training text; it is unpacked once, by one process while others wait."""
    path, packed = folder / _TRAIN, folder / _PACKED
    if not path.is_file():
        with alone(folder / ".lock") as only:
            if only:
                for left in folder.glob(f".{_TRAIN}.*{HALF}"):
                    left.unlink(missing_ok=True)
            if not path.is_file():
                try:
                    content = lzma.decompress(packed.read_bytes())
                except (lzma.LZMAError, EOFError) as error:
                    raise DataError(
                        f"{packed}: is not a whole file packed by xz ({error}). Put the text in its place, "
                        f"packed again, or unpacked as {_TRAIN}."
                    ) from error
                write_whole(path, content)
                return content
    return path.read_bytes()


def _is_text(path: Path, folder: Path) -> bool:
    """Whether a file of a folder is one of the texts: neither hidden nor a half of a corpus that is split."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return not hidden and path.name not in (_TRAIN, _PACKED, _HELD_OUT) and path.is_file()


def _of_files(folder: Path, paths: Sequence[Path]) -> tuple[Tensor, Tensor]:
    """Files in the order of their names' MD5, joined by a zero byte; the first are held out.

    The order has nothing to do with what is in the files, and is the same on every machine.

    Args:
        folder: of the files.
        paths: theirs.

    Returns:
        Bytes to train on and bytes held out.

    Raises:
        DataError: when nothing is left to train on.
    """
    keys = {path: hashlib.md5(path.relative_to(folder).as_posix().encode()).hexdigest() for path in paths}
    texts = [path.read_bytes() for path in sorted(paths, key=keys.__getitem__)]
    enough = sum(map(len, texts)) / _SHARE
    first = size = 0
    while size < enough:
        size += len(texts[first])
        first += 1
    if first == len(texts):
        raise DataError(
            f"{folder}: has {len(texts)} file{'s' * (len(texts) > 1)} of text, none of which is left to "
            "train on when some are held out. Put more files of text there, or cut the text into several."
        )
    return _tensor(b"\0".join(texts[first:])), _tensor(b"\0".join(texts[:first]))


def _tensor(text: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(text, np.uint8).copy())
