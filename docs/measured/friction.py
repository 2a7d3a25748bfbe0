"""The friction of CoLud as the momentum of SGD: ``python -m docs.measured.friction``."""

import math

import torch
from torch import nn

import colangevin as cl
from docs.measured import sheet
from docs.measured.data import digits
from docs.measured.training import accuracy, perceptron, train

__all__ = ["measure", "table"]

H = 0.3
FRICTIONS = (0.03, 0.1, 0.35, 1.0, 3.0, 10.0)


def measure(quick: bool) -> sheet.Numbers:
    """The test accuracy at every friction."""
    settings = {"network": "64-64-64-10, ReLU", "epochs": 1 if quick else 20, "lr": H}
    settings["seeds"] = list(range(1 if quick else 3))
    rows = {
        f"{friction:g}": [_accuracy(seed, settings["epochs"], friction) for seed in settings["seeds"]]
        for friction in FRICTIONS
    }
    return {"settings": settings, "rows": rows}


def _accuracy(seed: int, epochs: int, friction: float) -> float:
    data = digits(seed)
    torch.manual_seed(seed)
    model = perceptron(64, 2)
    optimizer = cl.CoLud(cl.constrain(model, {nn.Linear: cl.Circle(0.5)}), lr=H, friction=friction)
    train(model, optimizer, data.x, data.y, epochs=epochs)
    return accuracy(model, data.x_test, data.y_test)


def table(numbers: sheet.Numbers) -> str:
    """A line for each friction."""
    h = numbers["settings"]["lr"]
    rows = [
        [friction, f"{math.exp(-float(friction) * h):.2f}", sheet.spread(values)]
        for friction, values in numbers["rows"].items()
    ]
    return sheet.markdown([f"friction, at `lr={h:g}`", "SGD's momentum", "test accuracy, %"], rows)


if __name__ == "__main__":
    sheet.main("friction", measure, table)
