"""The weights that are stepped: shapes, where they start, and the gradients they get."""

from dataclasses import dataclass
from itertools import pairwise
from math import prod

import torch
from torch import Tensor

__all__ = [
    "DECODER",
    "GENERAL_LAYER",
    "GENERAL_SQUARE",
    "GPT2_SMALL",
    "KERNELS",
    "LARGE_MATRICES",
    "LARGE_SQUARE",
    "LAYER",
    "MLP",
    "PERCEPTRON",
    "RESNET34",
    "RESNET34_LARGE_STEPS",
    "RESNET34_PARAMETRIZED",
    "RESNET34_STAGE1",
    "SQUARES",
    "TEN",
    "THOUSAND",
    "Workload",
]

Shape = tuple[int, ...]

_GPT2_BLOCK: tuple[Shape, ...] = (
    *((768,), (768,), (2304, 768), (2304,), (768, 768), (768,)),
    *((768,), (768,), (3072, 768), (3072,), (768, 3072), (768,)),
)
_RESNET34_KERNELS: tuple[Shape, ...] = (
    (64, 3, 3, 3),
    *((64, 64, 3, 3),) * 6,
    (128, 64, 3, 3),
    *((128, 128, 3, 3),) * 7,
    (128, 64, 1, 1),
    (256, 128, 3, 3),
    *((256, 256, 3, 3),) * 11,
    (256, 128, 1, 1),
    (512, 256, 3, 3),
    *((512, 512, 3, 3),) * 5,
    (512, 256, 1, 1),
)
_DRIFT = 300


@dataclass(frozen=True)
class Workload:
    """Some weights and how they are driven.

    Attributes:
        name: in the results.
        shapes: of the weights.
        orthonormal: whether they start with orthonormal rows or columns, and are held so.
        size: standard deviation of a gradient's entries.
        drift: steps with fresh gradients that are taken before anything is timed; the error is looked at
            every 50 of them.
    """

    name: str
    shapes: tuple[Shape, ...]
    orthonormal: bool = False
    size: float = 0.02
    drift: int = 0

    @property
    def weights(self) -> int:
        """How many there are."""
        return sum(prod(shape) for shape in self.shapes)

    def start(self, device: torch.device) -> list[Tensor]:
        """Starting weights, the same for every contender."""
        torch.manual_seed(0)
        if not self.orthonormal:
            return [torch.empty(shape, device=device).normal_(std=0.02) for shape in self.shapes]
        return [torch.nn.init.orthogonal_(torch.empty(shape, device=device)) for shape in self.shapes]


def _perceptron(*widths: int) -> tuple[Shape, ...]:
    """Weights and biases of a perceptron."""
    layers = pairwise(widths)
    return tuple(shape for inputs, outputs in layers for shape in ((outputs, inputs), (outputs,)))


#: 148 tensors, 124.4 M weights
GPT2_SMALL = Workload("GPT-2 small", ((50257, 768), (1024, 768), *_GPT2_BLOCK * 12, (768,), (768,)))
MLP = Workload("MLP 784-1000-10", _perceptron(784, 1000, 10))
#: one weight, whose rows are held by sums, squares and simplices
LAYER = Workload("layer of 1000 × 784", ((1000, 784),))
#: 12 tensors, 2.9 M weights
PERCEPTRON = Workload("12 tensors, 2.9 M", _perceptron(784, 1000, 1000, 1000, 100, 100, 10))
#: as many weights in rows of one length, which spheres hold
SQUARES = Workload("11 matrices of 512 × 512", ((512, 512),) * 11)
#: so few that a step is what calling it costs
TEN = Workload("10 weights, 3 tensors", ((2, 3), (3,), (1,)))
#: one weight under a constraint that is written as a function
GENERAL_SQUARE = Workload("256 × 256", ((256, 256),))
GENERAL_LAYER = Workload("1000 × 784", ((1000, 784),))
#: so small that a call a matrix would be what a step costs
THOUSAND = Workload("1,000 matrices of 100 × 100", ((100, 100),) * 1000, orthonormal=True, drift=_DRIFT)
#: 36 kernels, 21.3 M weights
RESNET34 = Workload("ResNet-34 kernels, gradients 0.02", _RESNET34_KERNELS, orthonormal=True, drift=_DRIFT)
RESNET34_LARGE_STEPS = Workload(
    "ResNet-34 kernels, gradients 0.1", _RESNET34_KERNELS, orthonormal=True, size=0.1, drift=_DRIFT
)
#: the same again, held otherwise
KERNELS = Workload("ResNet-34 kernels", _RESNET34_KERNELS)
#: a weight whose entries or rows are squares
LARGE_SQUARE = Workload("4096 × 4096", ((4096, 4096),))
#: the same kernels again, for contenders so slow that they have a comparison of their own
RESNET34_PARAMETRIZED = Workload(
    "ResNet-34 kernels, parametrized", _RESNET34_KERNELS, orthonormal=True, drift=_DRIFT
)
#: 48 matrices, 25.2 M weights: q, k, v and the output of attention, and both layers of a perceptron, 8 times
DECODER = Workload("decoder of 8 layers of 512", (*((512, 512),) * 4, (2048, 512), (512, 2048)) * 8)
#: of the sizes that a model of 7 billion weights has
LARGE_MATRICES = Workload(
    "4 matrices of 4096 × 4096, 2 of 11008 × 4096",
    (*((4096, 4096),) * 4, *((11008, 4096),) * 2),
    orthonormal=True,
    drift=_DRIFT,
)
LARGE_SQUARE = Workload("8192 × 8192", ((8192, 8192),), orthonormal=True, drift=_DRIFT)
RESNET34_STAGE1 = Workload(
    "ResNet-34 stage 1 kernels", _RESNET34_KERNELS[1:7], orthonormal=True, drift=_DRIFT
)
