"""Multi-layer perceptron with ReLU."""

import torch
from torch import Tensor, nn

__all__ = ["FIRST", "LAST", "MLP"]

#: names of the weights that read the input and make the output
FIRST, LAST = "hidden.0.weight", "output.weight"


class _Linear(nn.Linear):
    """``nn.Linear`` on points in columns: gradients then have the memory layout of the weights.

    Weights and points may have a leading dimension of copies.
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.dim() == x.dim() == 3:
            return torch.baddbmm(self.bias.unsqueeze(-1), self.weight, x)
        return self.weight @ x + self.bias.unsqueeze(-1)


class MLP(nn.Module):
    """Perceptron with ``depth`` hidden layers of ``width`` units, torch's default initialisation.

    Hidden layer 0 reads the input; ``hidden.1`` to ``hidden.{depth - 1}`` are square, and those are
    the weights that the orthogonality experiments constrain (:attr:`square_weights`).

    Args:
        depth: number of hidden layers, at least 1.
        width: units of each hidden layer.
        inputs: features of a point.
        outputs: logits of a point.

    Raises:
        ValueError: when there would be no hidden layer.
    """

    def __init__(self, depth: int, width: int = 100, inputs: int = 2, outputs: int = 1) -> None:
        super().__init__()
        if depth < 1:
            raise ValueError(f"depth={depth}: an MLP needs at least 1 hidden layer.")
        self.hidden = nn.ModuleList(_Linear(inputs if layer == 0 else width, width) for layer in range(depth))
        self.output = _Linear(width, outputs)

    @property
    def square_weights(self) -> list[str]:
        """Names of the weights from one hidden layer to the next."""
        return [f"hidden.{layer}.weight" for layer in range(1, len(self.hidden))]

    def forward(self, x: Tensor) -> Tensor:
        """Logits of shape (..., outputs) for points of shape (..., inputs)."""
        x = x.mT
        for layer in self.hidden:
            x = layer(x).relu()
        logits: Tensor = self.output(x)
        return logits.mT
