"""ResNet-34 for images of 32 x 32, as it is trained on CIFAR."""

from torch import Tensor, nn
from torch.nn.functional import relu

__all__ = ["ResNet34"]


class _Block(nn.Module):
    """Two 3 x 3 convolutions around a shortcut, which is a 1 x 1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        inner = relu(self.norm1(self.conv1(x)))
        return relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


class ResNet34(nn.Module):
    """He et al. 2016 with a 3 x 3 stem and no pooling before the blocks; torch's default initialisation.

    Args:
        classes: to tell apart.
        width: channels of the first stage, 64 in the network of that name; each later stage doubles them.
        identities: start every block as its shortcut alone, by gains of 0 in its last norm.
    """

    def __init__(self, classes: int = 10, width: int = 64, *, identities: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        blocks: list[nn.Module] = []
        inputs = width
        for stage, depth in enumerate((3, 4, 6, 3)):
            outputs = width * 2**stage
            for position in range(depth):
                block = _Block(inputs, outputs, 2 if stage and position == 0 else 1)
                if identities:
                    nn.init.zeros_(block.norm2.weight)
                blocks.append(block)
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (batch, classes) of images (batch, 3, 32, 32)."""
        x = self.blocks(relu(self.norm(self.stem(x))))
        logits: Tensor = self.head(x.mean((2, 3)))
        return logits
