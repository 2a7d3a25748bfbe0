"""Images for a ResNet: batches, cropped, flipped and normalised where they lie, and its constraints."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import ImageProblem
from colangevin.experiments.data import cifar10
from colangevin.experiments.data.download import Progress
from colangevin.experiments.models.resnet import ResNet34
from colangevin.experiments.training.images import Images
from colangevin.experiments.training.randomness import Draw, generator
from colangevin.optim.param_groups import Rules

__all__ = ["ImageTask", "crop", "normalise"]

_OFFICIAL = 50_000  # images of the official training set
_PAD = 4  # pixels on each side
# Mean and standard deviation of the training set, by channel.
_MEAN, _STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
# Images evaluated at a time.
_MANY = {"cpu": 100, "cuda": 1000}


class ImageTask(Images):
    """An image problem on a device, as one run sees it.

    Args:
        problem: which images, how many.
        run: its number; all methods of a run see the same batches.
        seed: of the experiment.
        device: where everything is.
        progress: told how a download goes.
    """

    curves: tuple[str, ...] = (
        *("train_loss", "train_accuracy", "test_loss", "test_accuracy", "violation", "fallbacks"),
    )

    def __init__(
        self,
        problem: ImageProblem,
        run: int,
        seed: int,
        device: torch.device,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(_load(problem, seed, device, progress), problem.batch, run, seed)
        self.problem = problem
        count = len(self.y)
        self._shift = torch.zeros(count, 2, dtype=torch.long, device=device)
        self._flip = torch.zeros(count, dtype=torch.bool, device=device)

    def model(self, method: Method) -> nn.Module:
        """A new network, on the CPU."""
        model = ResNet34(width=self.problem.width, identities=self.problem.identities)
        return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def rules(self, method: Method) -> Rules:
        """What holds which weights, or held them at the start: all but the first are orthogonal."""
        if method.square == "default" and not method.penalty:
            return {}
        last = None if method.square == "orthogonal but the last" else cl.Orthogonal()
        rules: dict[str | type[nn.Module], cl.Constraint | None] = {"stem.weight": None}
        return {**rules, nn.Conv2d: cl.Orthogonal(), "head.weight": last}

    def learning_rate(self, epoch: int, epochs: int) -> float:
        """What the learning rate is multiplied by in an epoch."""
        return 0.1 ** (self.problem.stages * (epoch - 1) // epochs)

    def begin(self, epoch: int) -> None:
        """Draw the order, the crops and the flips of an epoch."""
        super().begin(epoch)
        count = len(self.y)
        source = generator(self.seed, Draw.CROPS, self.run, epoch)
        self._shift.copy_(torch.randint(2 * _PAD + 1, (count, 2), generator=source))
        self._flip.copy_(torch.rand(count, generator=source) < 0.5)

    def batch(self, start: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Images and classes of the epoch from place ``start`` on, a tensor that a graph can move."""
        place = start + torch.arange(size, device=start.device)
        rows = self.order[place]
        return normalise(crop(self.x[rows], self._shift[place], self._flip[place])), self.y[rows]

    def pieces(self, part: str) -> Iterator[tuple[Tensor, Tensor]]:
        """The test images, as they are, with their classes; some at a time."""
        size = _MANY[self.x.device.type]
        for x, y in zip(self.x_test.split(size), self.y_test.split(size), strict=True):
            yield normalise(x).contiguous(memory_format=torch.channels_last), y

    def watch(self, model: nn.Module) -> dict[str, float]:
        """Nothing besides what every network is watched for."""
        return {}


@lru_cache(maxsize=1)
def _load(problem: ImageProblem, seed: int, device: torch.device, progress: Progress | None) -> list[Tensor]:
    """Training and test pixels and classes; the same for all runs, and kept for the next of them."""
    pixels, classes = cifar10.load(progress)
    official = min(_OFFICIAL, len(classes) * 5 // 6)
    source = generator(seed, Draw.SPLIT)
    train = torch.randperm(official, generator=source)[: problem.train]
    test = official + torch.randperm(len(classes) - official, generator=source)[: problem.test]
    return [tensor[rows].to(device) for rows in (train, test) for tensor in (pixels, classes)]


def crop(images: Tensor, shift: Tensor, flip: Tensor) -> Tensor:
    """Pad with black, crop to the old size and flip, each image by itself.

    Args:
        images: of shape (n, channels, side, side).
        shift: rows and columns from the padded image's corner, 0 to 8, of shape (n, 2).
        flip: which to mirror, of shape (n,).

    Returns:
        Images of the same shape whose channels lie together in memory.
    """
    side = images.shape[-1]
    along = torch.arange(side, device=images.device)
    rows = shift[:, :1] + along
    columns = shift[:, 1:] + torch.where(flip.unsqueeze(1), side - 1 - along, along)
    number = torch.arange(len(images), device=images.device)
    padded = pad(images, (_PAD, _PAD, _PAD, _PAD))
    picked = padded[number[:, None, None], :, rows[:, :, None], columns[:, None, :]]
    return picked.permute(0, 3, 1, 2)


def normalise(images: Tensor, means: Sequence[float] = _MEAN, stds: Sequence[float] = _STD) -> Tensor:
    """Bytes as numbers, channel by channel; by default of mean 0 and variance 1 over the training set.

    Args:
        images: of shape (n, channels, side, side).
        means: to subtract, of numbers from 0 to 1.
        stds: to divide by.

    Returns:
        Numbers of the same shape, whose channels lie together in memory.
    """
    channels = []
    for number, (mean, std) in enumerate(zip(means, stds, strict=True)):
        channels.append((images[:, number].float() / 255 - mean) / std)
    return torch.stack(channels, dim=-1).permute(0, 3, 1, 2)
