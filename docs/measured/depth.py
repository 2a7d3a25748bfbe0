"""Orthogonal weights in deep networks, held or at the start alone: ``python -m docs.measured.depth``."""

from torch import nn
from torch.optim import SGD, AdamW, Optimizer

import colangevin as cl
from docs.measured import sheet
from docs.measured.training import Method, at_chosen, perceptron, sweep

__all__ = ["measure", "table"]


def _held(model: nn.Sequential, rate: float) -> Optimizer:
    output = f"{len(model) - 1}.weight"
    return cl.ConstrainedSGD(
        cl.constrain(model, {output: None, nn.Linear: cl.Orthogonal()}), lr=rate, momentum=0.9
    )


def _sgd(model: nn.Sequential, rate: float) -> Optimizer:
    return SGD(model.parameters(), lr=rate, momentum=0.9)


def _adamw(model: nn.Sequential, rate: float) -> Optimizer:
    return AdamW(model.parameters(), lr=rate)


def _started(model: nn.Sequential) -> nn.Sequential:
    for layer in model[:-1]:
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight)
    return model


METHODS = (
    Method("SGD", _sgd, (0.003, 0.01, 0.03, 0.1)),
    Method("AdamW", _adamw, (1e-4, 3e-4, 1e-3, 3e-3)),
    Method("SGD from orthogonal weights", lambda m, lr: _sgd(_started(m), lr), (0.003, 0.01, 0.03, 0.1)),
    Method("AdamW from orthogonal weights", lambda m, lr: _adamw(_started(m), lr), (1e-4, 3e-4, 1e-3, 3e-3)),
    Method("`Orthogonal`, output layer free", _held, (0.01, 0.03, 0.1, 0.3)),
)


def measure(quick: bool) -> sheet.Numbers:
    """Every method at every depth, each at its best rate."""
    settings = {"width": 64, "activation": "tanh", "epochs": 1 if quick else 20, "momentum": 0.9}
    settings |= {"schedule": "cosine", "seeds": list(range(1 if quick else 3))}
    depths = {}
    for hidden in (2,) if quick else (2, 8, 20):
        depths[str(hidden)] = [
            sweep(
                Method(each.name, each.optimizer, each.rates[-1:] if quick else each.rates),
                lambda hidden=hidden: perceptron(64, hidden, nn.Tanh),
                settings["seeds"],
                epochs=settings["epochs"],
                cosine=True,
            )
            for each in METHODS
        ]
    return {"settings": settings, "depths": depths}


def table(numbers: sheet.Numbers) -> str:
    """A line for each method, a column for each depth."""
    columns = numbers["depths"].values()
    head = ["test accuracy, %", *(f"{hidden} hidden layers" for hidden in numbers["depths"])]
    rows = [
        [rows[0]["method"], *(f"{sheet.spread(at_chosen(row))} (rate {row['chosen']})" for row in rows)]
        for rows in zip(*columns, strict=True)
    ]
    return sheet.markdown(head, rows)


if __name__ == "__main__":
    sheet.main("depth", measure, table)
