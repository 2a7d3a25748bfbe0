"""Zip files of arrays and of checkpoints, read only when they are whole and no larger than they may be."""

import io
import lzma
import math
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

__all__ = ["MOST_BYTES", "Arrays", "check_stored", "read_arrays", "write_arrays"]

#: most bytes of arrays that are read of one job; the largest job of the paper's experiments has 13 million
MOST_BYTES = 2**30

# Bytes unpacked at a time: a checksum that is wrong is found without all of a checkpoint in memory.
_PIECE = 2**20
_NUMBERS = "biuf"
_FAULTS = (
    BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    OverflowError,
)
_HEADERS: dict[Any, Callable[[io.BytesIO], Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

Arrays = dict[str, np.ndarray[Any, Any]]


def write_arrays(arrays: Arrays) -> bytes:
    """An npz file, compressed by LZMA: a seventh smaller than what ``np.savez_compressed`` makes of curves.

    Args:
        arrays: by name.

    Returns:
        Its bytes.
    """
    buffer = io.BytesIO()
    with ZipFile(buffer, "w", ZIP_LZMA) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)  # type: ignore[no-untyped-call]
    return buffer.getvalue()


def read_arrays(path: Path) -> Arrays:
    """The arrays of an npz file, if all of it is whole.

    Args:
        path: of the file.

    Returns:
        Arrays of numbers by name.

    Raises:
        ValueError: when it is damaged, holds anything but arrays of numbers, or would take more memory than
            :data:`MOST_BYTES`.
    """
    with _opened(path) as (archive, members):
        claimed = sum(member.file_size for member in members)
        if claimed > MOST_BYTES:
            raise ValueError(f"it claims {claimed:,} bytes of arrays; at most {MOST_BYTES:,} are read")
        return {
            member.filename.removesuffix(".npy"): _array(b"".join(_pieces(archive, member)), member.filename)
            for member in members
        }


def check_stored(path: Path) -> None:
    """Refuse a checkpoint that is not whole.

    ``torch.load`` compares no checksums. ``torch.save`` compresses nothing, so a compressed file is refused
    too: it could unpack to any size.

    Args:
        path: of the file.

    Raises:
        ValueError: when it is refused.
    """
    with _opened(path) as (archive, members):
        packed = [member for member in members if member.compress_type != ZIP_STORED]
        if packed or sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("it is compressed, which no checkpoint is")
        for member in members:
            for _ in _pieces(archive, member):
                pass


@contextmanager
def _opened(path: Path) -> Iterator[tuple[ZipFile, list[ZipInfo]]]:
    """A zip file with its members, whose every fault is a ValueError."""
    if not path.is_file():  # opening a pipe would wait for ever
        raise ValueError("there is no such file")
    try:
        with ZipFile(path) as archive:
            members = archive.infolist()
            if len({member.filename for member in members}) < len(members):
                raise ValueError("two of its members have the same name")
            yield archive, members
    except _FAULTS as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _pieces(archive: ZipFile, member: ZipInfo) -> Iterator[bytes]:
    """The contents of a member, piece by piece. An error follows the last where the checksum is wrong."""
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED, ZIP_LZMA):
        raise ValueError(f"its member {member.filename!r} is compressed in an unknown way")
    length = 0
    with archive.open(member) as file:
        # zipfile compares the checksum when it has read the last piece
        while piece := file.read(_PIECE):
            length += len(piece)
            yield piece
    if length != member.file_size:
        raise ValueError(f"its member {member.filename!r} is cut short")


def _array(content: bytes, name: str) -> np.ndarray[Any, Any]:
    """An npy file as an array, without pickles; its size is compared before memory is taken."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)  # type: ignore[no-untyped-call]
    if version not in _HEADERS:
        raise ValueError(f"its member {name!r} has version {version} of the npy format")
    shape, by_columns, dtype = _HEADERS[version](file)
    if dtype.kind not in _NUMBERS:
        raise ValueError(f"its member {name!r} has elements of type {dtype}, not numbers")
    held, claimed = len(content) - file.tell(), math.prod(shape) * dtype.itemsize
    if held != claimed:
        raise ValueError(f"its member {name!r} has {held:,} bytes of an array of {claimed:,}")
    order: Literal["F", "C"] = "F" if by_columns else "C"
    return np.ndarray(shape, dtype, content, file.tell(), order=order).copy()
