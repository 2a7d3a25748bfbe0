"""A small model whose encoder and decoder one constraint holds together, for the tests of such rules."""

import torch
from torch import Tensor, nn

import colangevin as cl

PAIR = ("encoder.weight", "decoder.weight")
#: what a message and a table call them
BOTH = ", ".join(PAIR)


def balanced(encoder: Tensor, decoder: Tensor) -> Tensor:
    """What flows into a hidden unit has the norm of what flows out of it: one component a unit."""
    return encoder.square().sum(1) - decoder.square().sum(0)


def within_two(encoder: Tensor, decoder: Tensor) -> Tensor:
    """Rows of the encoder and columns of the decoder have squares of at most 2 together."""
    return encoder.square().sum(1) + decoder.square().sum(0) - 2


BALANCED = cl.Implicit(balanced)
WITHIN = cl.Implicit(within_two, inequality=True)
BOTH_KINDS = cl.Implicit(balanced, nonpositive=within_two)
KINDS = {"equation": BALANCED, "bound": WITHIN, "both": BOTH_KINDS}


class AutoEncoder(nn.Module):
    """Four numbers through three."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(5)
        self.encoder, self.decoder = nn.Linear(4, 3, dtype=dtype), nn.Linear(3, 4, dtype=dtype)
        with torch.no_grad():
            for parameter in self.parameters():
                values = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
                parameter.copy_(0.3 * values)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.encoder(x)
        return self.decoder(hidden)


def data(dtype: torch.dtype = torch.float64) -> Tensor:
    draw = torch.Generator().manual_seed(6)
    return torch.randn(8, 4, generator=draw, dtype=torch.float64).to(dtype)


def held(
    constraint: cl.Constraint = BALANCED, dtype: torch.dtype = torch.float64
) -> tuple[AutoEncoder, list]:
    """A model whose weights satisfy the constraint, with its groups; the joint one is the first."""
    model = AutoEncoder(dtype)
    return model, cl.constrain(model, {PAIR: constraint}, init="nearest")


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    x = data(next(model.parameters()).dtype)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure)


def flat(model: AutoEncoder) -> Tensor:
    """Both weights as one vector."""
    return torch.cat([model.encoder.weight.detach().flatten(), model.decoder.weight.detach().flatten()])


def off_balance(model: AutoEncoder) -> float:
    """How far the largest component of `balanced` is from 0."""
    return float(balanced(model.encoder.weight.detach(), model.decoder.weight.detach()).abs().max())
