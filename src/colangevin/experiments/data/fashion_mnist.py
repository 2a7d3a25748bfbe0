"""Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): found on this machine or downloaded, and checked."""

import gzip
from pathlib import Path

import torch
from torch import Tensor

from colangevin.experiments.data.download import Progress
from colangevin.experiments.data.sources import Source, keep

__all__ = ["load", "locate", "split"]

SYSTEM = Path("/usr/share/datasets/fashion-mnist")
SOURCE = Source(
    "fashion-mnist", "Fashion-MNIST", "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
)

#: SHA-256 of the unpacked files; the packed ones differ between distributions
SUMS = {
    "train-images-idx3-ubyte.gz": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte.gz": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte.gz": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte.gz": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def locate(progress: Progress | None = None) -> Path:
    """The folder with the four files; they are downloaded when no folder has them.

    Looked at are ``$COLANGEVIN_DATA/fashion-mnist`` (without the variable, a folder in the user's cache) and
    the system's ``/usr/share/datasets/fashion-mnist``.

    Args:
        progress: told how a download goes.

    Returns:
        The folder.
    """
    own = SOURCE.folder
    for folder in (own, SYSTEM):
        if all((folder / name).is_file() for name in SUMS):
            return folder
    layout = "\n".join(["Put the four official files here:", *(f"    {own / name}" for name in SUMS)])
    debian = f", or install Debian's\ndataset-fashion-mnist, which puts them into {SYSTEM}"
    with SOURCE.downloading(own, SUMS, layout, debian):
        for name, expected in SUMS.items():
            if not (own / name).is_file():
                keep(own / name, SOURCE.fetch(SOURCE.url + name, expected, progress, gzip.decompress))
    return own


def load(progress: Progress | None = None) -> dict[str, tuple[Tensor, Tensor]]:
    """Images and labels of the official training set, ``train``, and test set, ``t10k``.

    Args:
        progress: told how a download goes.

    Returns:
        Pixels as bytes of shape (images, 784) and classes 0 to 9 of shape (images,), by the name of the set.
    """
    folder = locate(progress)
    contents = {
        name: SOURCE.read(folder / name, expected, gzip.decompress) for name, expected in SUMS.items()
    }
    sets = {}
    for part in ("train", "t10k"):
        # an IDX file has 16 bytes of header before images and 8 before labels
        images = bytearray(contents[f"{part}-images-idx3-ubyte.gz"][16:])
        labels = bytearray(contents[f"{part}-labels-idx1-ubyte.gz"][8:])
        pixels = torch.frombuffer(images, dtype=torch.uint8).view(-1, 784)
        sets[part] = pixels, torch.frombuffer(labels, dtype=torch.uint8).long()
    return sets


def split(
    train: int, test: int, how: str, source: torch.Generator, progress: Progress | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Split the images as the paper does, into few to train on and many to test on. It does not say which.

    Args:
        train: images to train on; the paper has 10,000.
        test: images to test on; the paper has 60,000.
        how: ``drawn``, both from all 70,000; ``first``, the first and the last of all, the official training
            set before the official test set; ``exchanged``, the same with the test set first.
        source: draws, where anything is drawn.
        progress: told how a download goes.

    Returns:
        Training pixels between 0 and 1, training classes, test pixels, test classes.
    """
    sets = load(progress)
    order = ("t10k", "train") if how == "exchanged" else ("train", "t10k")
    pixels, classes = (torch.cat([sets[name][i] for name in order]) for i in (0, 1))
    rows = torch.arange(len(classes))
    if how == "drawn":
        rows = torch.randperm(len(classes), generator=source)
    mine, others = rows[:train], rows[len(rows) - test :]
    return pixels[mine].float() / 255, classes[mine], pixels[others].float() / 255, classes[others]
