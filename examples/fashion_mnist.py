"""Fashion-MNIST (Xiao, Rasul and Vollgraf 2017) as tensors, from this machine or from the network."""

import gzip
import os
import shutil
import urllib.request
from pathlib import Path

import torch
from torch import Tensor

__all__ = ["read"]

URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
CACHE = Path(os.environ.get("COLANGEVIN_DATA") or Path.home() / ".cache" / "colangevin") / "fashion-mnist"
SYSTEM = Path("/usr/share/datasets/fashion-mnist")  # where Debian's dataset-fashion-mnist puts it


def read() -> tuple[Tensor, Tensor]:
    """All 70,000 images, the official training set before the test set.

    Returns:
        Pixels between 0 and 1 of shape (70000, 784), and classes 0 to 9 of shape (70000,). An OSError when
        the files are neither here nor to be downloaded.
    """
    # an IDX file has 16 bytes of header before images and 8 before labels
    images = [_bytes(f"{part}-images-idx3-ubyte.gz")[16:].view(-1, 784) for part in ("train", "t10k")]
    labels = [_bytes(f"{part}-labels-idx1-ubyte.gz")[8:] for part in ("train", "t10k")]
    return torch.cat(images).float() / 255, torch.cat(labels).long()


def _bytes(name: str) -> Tensor:
    """The contents of one file, downloaded into the cache where it is not."""
    path = next((folder / name for folder in (CACHE, SYSTEM) if (folder / name).is_file()), CACHE / name)
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".part")
        with urllib.request.urlopen(URL + name, timeout=30) as answer, half.open("wb") as file:
            shutil.copyfileobj(answer, file)
        half.replace(path)
    return torch.frombuffer(bytearray(gzip.decompress(path.read_bytes())), dtype=torch.uint8)
