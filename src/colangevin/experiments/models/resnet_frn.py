"""ResNet-20 with filter response normalisation and swish: the network whose posterior HMC has sampled.

Izmailov et al. 2021, "What Are Bayesian Neural Network Posteriors Really Like?". No norm couples the images
of a batch, so that the loss is a sum over data, and e to the minus loss is a likelihood.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad, silu

__all__ = ["FilterResponseNorm", "ResNet20FRN"]

_STAGES, _BLOCKS = 3, 3


class FilterResponseNorm(nn.Module):
    r"""Each channel of each image over its root mean square, then gain, bias and a learnt threshold.

    .. math:: y = \max\left(\gamma\,\frac{x}{\sqrt{\nu^2 + \epsilon}} + \beta, t\right),

    where :math:`\nu^2` is the mean of :math:`x^2` over the pixels of a channel (Singh and Krishnan 2020).

    Args:
        channels: of the images.
        eps: added to the mean square.
    """

    def __init__(self, channels: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1))
        self.threshold = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = x * torch.rsqrt(x.square().mean((-2, -1), keepdim=True) + self.eps)
        return torch.maximum(self.weight * x + self.bias, self.threshold)


class _NormedLayer(nn.Module):
    """A convolution with a bias, then the norm.

    A kernel of 3 x 3 at stride 2 pads after the image alone, as JAX does where it is told "same".
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int) -> None:
        super().__init__()
        self._pad = (0, 1, 0, 1) if stride == 2 and kernel == 3 else (kernel // 2,) * 4
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride)
        self.norm = FilterResponseNorm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(self.conv(pad(x, self._pad)))
        return normed


class _NormedBlock(nn.Module):
    """Two layers around a shortcut, which is a layer of 1 x 1 where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _NormedLayer(inputs, outputs, 3, stride)
        self.second = _NormedLayer(outputs, outputs, 3, 1)
        changes = stride != 1 or inputs != outputs
        self.shortcut = _NormedLayer(inputs, outputs, 1, stride) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.second(silu(self.first(x)))
        return silu(self.shortcut(x) + inner)


class ResNet20FRN(nn.Module):
    """Three stages of three blocks for images of 32 x 32; kernels start as He et al. draw them, biases at 0.

    Args:
        classes: to tell apart.
        width: channels of the first stage, 16 in the network of that name; each later stage doubles them.
    """

    def __init__(self, classes: int = 10, width: int = 16) -> None:
        super().__init__()
        self.stem = _NormedLayer(3, width, 3, 1)
        blocks: list[nn.Module] = []
        inputs = width
        for stage in range(_STAGES):
            outputs = width * 2**stage
            for position in range(_BLOCKS):
                blocks.append(_NormedBlock(inputs, outputs, 2 if stage and position == 0 else 1))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                assert module.bias is not None
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, 3, 32, 32)."""
        x = self.blocks(silu(self.stem(x)))
        logits: Tensor = self.head(avg_pool2d(x, 8).flatten(1))
        return logits
