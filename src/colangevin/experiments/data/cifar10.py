"""CIFAR-10 (Krizhevsky 2009): found on this machine in one of three layouts or downloaded, and checked."""

import io
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from colangevin.experiments.data.download import Progress
from colangevin.experiments.data.image_layouts import RECORD, SIDE, from_python, unpack
from colangevin.experiments.data.sources import Source, keep

__all__ = ["load"]

SOURCE = Source("cifar-10", "CIFAR-10", "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz")
#: SHA-256 of what is there
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


def load(progress: Progress | None = None) -> tuple[Tensor, Tensor]:
    """All 60,000 images and labels, the official training set first.

    Looked at are ``$COLANGEVIN_DATA/cifar-10`` (without the variable, a folder in the user's cache) and the
    folders in it, for the official binary layout, the official Python layout and the packed form that
    :func:`~colangevin.experiments.data.image_layouts.unpack` reads. What is nowhere is downloaded.

    Args:
        progress: told how a download goes.

    Returns:
        Pixels as bytes of shape (60000, 3, 32, 32), classes 0 to 9 of shape (60000,).
    """
    paths, convert = _locate(progress)
    pieces = []
    for name, path in paths.items():
        content = SOURCE.read(path, SUMS[name], convert)
        pieces.append(np.frombuffer(content, np.uint8).reshape(-1, RECORD))
    records = torch.from_numpy(np.concatenate(pieces))
    return records[:, 1:].reshape(-1, 3, SIDE, SIDE).contiguous(), records[:, 0].long()


def _locate(progress: Progress | None) -> tuple[dict[str, Path], Callable[[bytes], bytes]]:
    """The file of every batch, and what brings one to the binary layout."""
    own = SOURCE.folder
    folders = [own, *sorted(path for path in own.glob("*") if path.is_dir())]
    for suffix, convert in ((".bin", bytes), ("", from_python), (".medxz", unpack)):
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
    layout = (
        "Put the official files there, in the binary layout\n"
        f"    {folder}/data_batch_1.bin … data_batch_5.bin, test_batch.bin\n"
        "or in the Python layout\n"
        f"    {folder.parent}/cifar-10-batches-py/data_batch_1 … data_batch_5, test_batch"
    )
    with SOURCE.downloading(folder, [path.name for path in paths.values()], layout):
        if all(path.is_file() for path in paths.values()):  # another process has downloaded them meanwhile
            return
        packed = replace(SOURCE, title="CIFAR-10's archive").fetch(SOURCE.url, ARCHIVE, progress)
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            for name, path in paths.items():
                member = archive.extractfile(f"cifar-10-batches-bin/{name}.bin")
                assert member is not None  # the sum was right
                keep(path, member.read())
