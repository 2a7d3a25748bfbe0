"""CIFAR-10 (Krizhevsky 2009): found on this machine in one of three layouts or downloaded, and checked."""

import io
import lzma
import pickle
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from colangevin.experiments.data.sources import (
    DataError,
    Progress,
    downloading,
    fetch,
    keep,
    official,
    own_folder,
    read,
)

__all__ = ["load", "unpack"]

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
ARCHIVE = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"

#: SHA-256 of the binary layout's files; the other layouts are brought to this one and checked as well
SUMS = {
    "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}
SIDE = 32
#: of a record: a label, then the red, green and blue plane, each row by row
RECORD = 1 + 3 * SIDE * SIDE

Array = NDArray[Any]


def load(progress: Progress | None = None) -> tuple[Tensor, Tensor]:
    """All 60,000 images and labels, the official training set first.

    Looked at are ``$COLANGEVIN_DATA/cifar-10`` (without the variable, a folder in the user's cache) and the
    folders in it, for the official binary layout, the official Python layout and the packed form that
    :func:`unpack` reads. What is nowhere is downloaded.

    Args:
        progress: told how a download goes.

    Returns:
        Pixels as bytes of shape (60000, 3, 32, 32), classes 0 to 9 of shape (60000,).
    """
    paths, convert = _locate(progress)
    pieces = []
    for name, path in paths.items():
        content = official(read(path), SUMS[name], path, "CIFAR-10", convert)
        pieces.append(np.frombuffer(content, np.uint8).reshape(-1, RECORD))
    records = torch.from_numpy(np.concatenate(pieces))
    return records[:, 1:].reshape(-1, 3, SIDE, SIDE).contiguous(), records[:, 0].long()


def _locate(progress: Progress | None) -> tuple[dict[str, Path], Callable[[bytes], bytes]]:
    """The file of every batch, and what brings one to the binary layout."""
    own = own_folder("cifar-10")
    folders = [own, *sorted(path for path in own.glob("*") if path.is_dir())]
    for suffix, convert in ((".bin", bytes), ("", _from_python), (".medxz", unpack)):
        for folder in folders:
            paths = {name: folder / f"{name}{suffix}" for name in SUMS}
            if all(path.is_file() for path in paths.values()):
                return paths, convert
    paths = {name: own / "cifar-10-batches-bin" / f"{name}.bin" for name in SUMS}
    _download(paths, progress)
    return paths, bytes


def _download(paths: dict[str, Path], progress: Progress | None) -> None:
    """Fetch the archive and lay its batches out; no batch is kept unless all of them came."""
    folder = next(iter(paths.values())).parent
    try:
        with downloading(folder, [path.name for path in paths.values()]):
            if all(path.is_file() for path in paths.values()):  # another process has been here
                return
            packed = official(fetch(URL, progress), ARCHIVE, URL, "CIFAR-10's archive")
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                for name, path in paths.items():
                    member = archive.extractfile(f"cifar-10-batches-bin/{name}.bin")
                    assert member is not None  # the sum was right
                    keep(path, member.read())
    except OSError as error:
        own = folder.parent
        raise DataError(
            f"CIFAR-10 is not on this machine and could not be downloaded from {URL} ({error}).\n"
            "Put the official files there, in the binary layout\n"
            f"    {folder}/data_batch_1.bin … data_batch_5.bin, test_batch.bin\n"
            "or in the Python layout\n"
            f"    {own}/cifar-10-batches-py/data_batch_1 … data_batch_5, test_batch\n"
            "or set COLANGEVIN_DATA to a folder that has them in cifar-10/. Then run the command again."
        ) from error


class _Plain(pickle.Unpickler):
    """Reads what the official Python layout holds, dictionaries and arrays, and calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        known = {"_reconstruct": np.empty(0).__reduce__()[0], "ndarray": np.ndarray, "dtype": np.dtype}
        if module.split(".")[0] == "numpy" and name in known:
            return known[name]
        if (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _from_python(content: bytes) -> bytes:
    """A file of the Python layout in the binary one."""
    batch = _Plain(io.BytesIO(content), encoding="bytes").load()
    labels = np.array(batch[b"labels"], np.uint8)
    records: Array = np.concatenate([labels[:, None], batch[b"data"]], axis=1)
    return records.tobytes()


def unpack(content: bytes) -> bytes:
    """A packed batch in the binary layout: all labels, then what a prediction of each pixel missed, under xz.

    A pixel is predicted from its neighbours W, N and NW by the median of W, N and W + N - NW, in planes of
    G, R - G and B - G that are shifted by 128 and, as everything, taken modulo 256.

    Args:
        content: of a ``.medxz`` file.

    Returns:
        The records.
    """
    raw = np.frombuffer(lzma.decompress(content), np.uint8)
    count = len(raw) // RECORD
    labels = raw[:count]
    # rows and columns first: the loops below walk along them
    missed = raw[count:].reshape(3, count, SIDE, SIDE).transpose(2, 3, 0, 1).astype(np.int16)
    planes = np.zeros((SIDE + 1, SIDE + 1, 3, count), np.int16)  # with a row and a column before the first
    for i in range(1, SIDE + 1):
        for j in range(1, SIDE + 1):
            W, N, NW = planes[i, j - 1], planes[i - 1, j], planes[i - 1, j - 1]
            if i == 1:
                predicted = W
            elif j == 1:
                predicted = N
            else:
                low, high = np.minimum(W, N), np.maximum(W, N)
                predicted = np.clip(W + N - NW, low, high)
            planes[i, j] = (missed[i - 1, j - 1] + predicted) & 255
    G, RG, BG = ((planes[1:, 1:] + 128) & 255).astype(np.uint8).transpose(2, 3, 0, 1)
    pixels = np.stack([RG + G, G, BG + G], axis=1).reshape(count, -1)
    records: Array = np.concatenate([labels[:, None], pixels], axis=1)
    return records.tobytes()
