"""What full-batch HMC predicts on CIFAR-10's test images: found on this machine or downloaded, and checked.

Izmailov et al. 2021 sampled the posterior of a ResNet-20 with filter response normalisation; the competition
on approximate inference at NeurIPS 2021 published its probabilities.
"""

import hashlib
import io

import numpy as np
import torch
from torch import Tensor

from colangevin.experiments.data.download import Progress
from colangevin.experiments.data.sources import Source, keep

__all__ = ["load"]

SOURCE = Source(
    "hmc-cifar10",
    "the predictions of HMC on CIFAR-10",
    "https://raw.githubusercontent.com/izmailovpavel/neurips_bdl_starter_kit/main/data/cifar10/probs.csv",
)
#: SHA-256 of the file
SUM = "4299e2e90a445fcdc6b20ebfc6f233cb214c1930635c11b3bf9c4b7e1c23b4c6"


def load(progress: Progress | None = None) -> Tensor:
    """Probabilities of every class for the official test images in their official order.

    Looked at is ``$COLANGEVIN_DATA/hmc-cifar10/probs.csv``; without the variable, a folder in the cache.

    Args:
        progress: told how a download goes.

    Returns:
        Shape (10000, 10), in float64.
    """
    path = SOURCE.folder / "probs.csv"
    if not path.is_file():
        with SOURCE.downloading(path.parent, [path.name], f"Put the file there: {path}"):
            if not path.is_file():  # another process may have downloaded it meanwhile
                keep(path, SOURCE.fetch(SOURCE.url, SUM, progress))
    rows = np.loadtxt(io.BytesIO(SOURCE.read(path, SUM)), ndmin=2)
    found = torch.empty(rows.shape, dtype=torch.float64)
    found[published_order(len(rows))] = torch.from_numpy(rows)
    return found


def published_order(images: int) -> Tensor:
    """The official number of each row's image: rows are sorted by the MD5 of "test" and that number."""

    def digest(number: int) -> str:
        return hashlib.md5(f"test{number}".encode(), usedforsecurity=False).hexdigest()

    return torch.tensor(sorted(range(images), key=digest))
