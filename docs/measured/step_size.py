"""CoLud's ``lr`` is h, the learning rate is h²: ``python -m docs.measured.step_size``."""

import math

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

import colangevin as cl
from docs.measured import sheet
from docs.measured.data import digits
from docs.measured.training import accuracy, perceptron, train

__all__ = ["measure", "table"]

ADAMW_RATE = 3e-3
STEPS = (ADAMW_RATE, 0.03, 0.1, 0.3, 1.0)
FRICTION = 1.0


def measure(quick: bool) -> sheet.Numbers:
    """The test accuracy at every step size, and AdamW's."""
    settings = {"network": "64-64-64-10, ReLU", "epochs": 1 if quick else 20, "friction": FRICTION}
    settings["seeds"] = list(range(1 if quick else 3))
    adamw: list[float] = []
    steps: dict[str, list[float]] = {f"{h:g}": [] for h in STEPS}
    for seed in settings["seeds"]:
        for h in STEPS:
            steps[f"{h:g}"].append(_accuracy(seed, settings["epochs"], h))
        adamw.append(_accuracy(seed, settings["epochs"], None))
    return {"settings": settings, "AdamW": adamw, "CoLud": steps}


def _accuracy(seed: int, epochs: int, h: float | None) -> float:
    """After CoLud with step size h, or after AdamW."""
    data = digits(seed)
    torch.manual_seed(seed)
    model = perceptron(64, 2)
    optimizer: Optimizer = AdamW(model.parameters(), lr=ADAMW_RATE)
    if h is not None:
        optimizer = cl.CoLud(cl.constrain(model, {nn.Linear: cl.Circle(0.5)}), lr=h, friction=FRICTION)
    train(model, optimizer, data.x, data.y, epochs=epochs)
    return accuracy(model, data.x_test, data.y_test)


def table(numbers: sheet.Numbers) -> str:
    """A line for each step size."""
    head = ["optimizer", "`lr`", "SGD's learning rate", "SGD's momentum", "test accuracy, %"]
    rows = [["AdamW", f"{ADAMW_RATE:g}", "", "", sheet.spread(numbers["AdamW"])]]
    for lr, values in numbers["CoLud"].items():
        h = float(lr)
        momentum = f"{math.exp(-numbers['settings']['friction'] * h):.3f}"
        rows.append(["`CoLud`", lr, f"{h * h:.6f}".rstrip("0").rstrip("."), momentum, sheet.spread(values)])
    return sheet.markdown(head, rows)


if __name__ == "__main__":
    sheet.main("step_size", measure, table)
