"""Images on a device: what tasks of images share."""

from collections.abc import Sequence

import torch
from torch import Tensor

from colangevin.experiments.training.randomness import Draw, generator

__all__ = ["Images"]


class Images:
    """Pixels and classes on a device, and the order in which a run sees them.

    Args:
        sets: pixels and classes to train on, and those to test on.
        batch: images of a step.
        run: its number; all methods of a run see the same batches.
        seed: of the experiment.
    """

    held_out: tuple[str, ...] = ("test",)
    clip = 0.0
    captured = True

    def __init__(self, sets: Sequence[Tensor], batch: int, run: int, seed: int) -> None:
        self.x, self.y, self.x_test, self.y_test = sets
        self.run, self.seed = run, seed
        count, batch = len(self.y), min(batch, len(self.y))
        #: images of every step of an epoch
        self.sizes = [batch] * (count // batch)
        # filled in place at every epoch: a captured graph goes on reading the same memory
        self.order = torch.zeros(count, dtype=torch.long, device=self.y.device)

    def begin(self, epoch: int) -> None:
        """Draw the order of an epoch."""
        source = generator(self.seed, Draw.BATCHES, self.run, epoch)
        self.order.copy_(torch.randperm(len(self.y), generator=source))
