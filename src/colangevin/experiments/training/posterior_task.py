"""Images for a ResNet-20 whose posterior HMC has sampled: batches, and HMC's predictions to compare with."""

import math
from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import PosteriorProblem
from colangevin.experiments.data import cifar10, hmc_cifar10
from colangevin.experiments.data.download import Progress
from colangevin.experiments.models.resnet_frn import ResNet20FRN
from colangevin.experiments.training.image_task import normalise
from colangevin.experiments.training.images import Images
from colangevin.optim.param_groups import Rules

__all__ = ["PosteriorTask"]

# What HMC's images were normalised by.
_MEAN, _STD = (0.49, 0.48, 0.44), (0.2, 0.2, 0.2)
# Images evaluated at a time.
_MANY = {"cpu": 100, "cuda": 2000}


class PosteriorTask(Images):
    """An image problem on a device, as one run sees it, in the official order of the images.

    Args:
        problem: which images, how many.
        run: its number; all methods of a run see the same batches.
        seed: of the experiment.
        device: where everything is.
        progress: told how a download goes.
    """

    curves: tuple[str, ...] = (
        *("train_loss", "train_accuracy", "test_loss", "test_accuracy", "agreement", "total_variation"),
        *("calibration_error", "weight_norm", "first_temperature", "violation"),
    )

    def __init__(
        self,
        problem: PosteriorProblem,
        run: int,
        seed: int,
        device: torch.device,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(_load(problem, device, progress), problem.batch, run, seed)
        self.problem = problem
        #: HMC's predictions, of shape (images, classes), on the CPU
        self.reference = hmc_cifar10.load(progress)[: len(self.y_test)]

    def model(self, method: Method) -> nn.Module:
        """A new network, on the CPU."""
        model = ResNet20FRN(width=self.problem.width)
        return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def rules(self, method: Method) -> Rules:
        """What holds the kernels; the last layer, which no norm follows, is free.

        A norm follows every kernel, so that the length of a filter is redundant but for its bias. Under the
        prior the square of that length is d times the prior's variance on average, for d entries.

        Args:
            method: how to sample.

        Returns:
            A sphere for every kernel where the method asks for them.
        """
        if method.hidden != "prior spheres":
            return {}
        kernels = {
            f"{name}.weight": module.weight
            for name, module in ResNet20FRN(width=self.problem.width).named_modules()
            if isinstance(module, nn.Conv2d)
        }
        return {
            name: cl.Sphere(math.sqrt(kernel[0].numel() * method.prior_variance), slack=False)
            for name, kernel in kernels.items()
        }

    def learning_rate(self, epoch: int, epochs: int) -> float:
        """Half a period of a cosine, at the middle of an epoch."""
        return (1 + math.cos(math.pi * (epoch - 0.5) / epochs)) / 2

    def batch(self, start: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """Images and classes of the epoch from place ``start`` on, a tensor that a graph can move."""
        rows = self.order[start + torch.arange(size, device=start.device)]
        return normalise(self.x[rows], _MEAN, _STD), self.y[rows]

    def pieces(self, part: str) -> Iterator[tuple[Tensor, Tensor]]:
        """The test images with their classes, some at a time."""
        size = _MANY[self.x.device.type]
        for x, y in zip(self.x_test.split(size), self.y_test.split(size), strict=True):
            yield normalise(x, _MEAN, _STD), y

    def watch(self, model: nn.Module) -> dict[str, float]:
        """The norm of all weights together, which under the prior alone is known."""
        squares = [weight.detach().double().square().sum() for weight in model.parameters()]
        return {"weight_norm": math.sqrt(float(torch.stack(squares).sum()))}


@lru_cache(maxsize=1)
def _load(problem: PosteriorProblem, device: torch.device, progress: Progress | None) -> list[Tensor]:
    """Pixels and classes of the first training and of the first test images, kept for the next run."""
    pixels, classes = cifar10.load(progress)
    official = len(classes) * 5 // 6
    train = slice(0, min(problem.train, official))
    test = slice(official, official + problem.test)
    return [tensor[rows].to(device) for rows in (train, test) for tensor in (pixels, classes)]
