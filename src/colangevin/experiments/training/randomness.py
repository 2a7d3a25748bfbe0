"""Generators for everything that is drawn, seeded by the experiment's seed and by what is drawn.

Nothing else goes into a seed. A resumed run therefore needs no state of any generator, and run 7 is the same
whether ten or a hundred runs are made.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import torch

from colangevin.noise import stream

__all__ = ["Draw", "generator", "seeded"]


class Draw(IntEnum):
    """What is drawn."""

    DATA = 0
    BATCHES = 1
    SPLIT = 2
    CROPS = 3
    WEIGHTS = 4
    DROPOUT = 5


def generator(seed: int, *words: int) -> torch.Generator:
    """A generator on the CPU, so that every device sees the same numbers.

    Args:
        seed: of the experiment.
        words: what is drawn: a :class:`Draw`, then run or epoch.

    Returns:
        The generator.
    """
    return torch.Generator().manual_seed(stream(seed, *words))


@contextmanager
def seeded(seed: int, *words: int) -> Iterator[None]:
    """Seed torch's own generators for what draws from them, and put them back afterwards.

    Args:
        seed: of the experiment.
        words: what is drawn: a :class:`Draw`, then run or epoch.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(stream(seed, *words))
        yield
