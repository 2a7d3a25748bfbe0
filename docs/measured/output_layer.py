"""Orthogonality with and without the output layer: ``python -m docs.measured.output_layer``."""

from functools import partial

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

import colangevin as cl
from docs.measured import sheet
from docs.measured.data import Digits
from docs.measured.training import Method, at_chosen, perceptron, sweep

__all__ = ["measure", "table"]

RULES: dict[str, dict[str | type[nn.Module], cl.Constraint | None]] = {
    "every layer": {nn.Linear: cl.Orthogonal()},
    "output layer free": {"4.weight": None, nn.Linear: cl.Orthogonal()},
}


def measure(quick: bool) -> sheet.Numbers:
    """Both rules on digits, each at its best rate."""
    rates = (0.1,) if quick else (0.01, 0.03, 0.1, 0.3, 1.0)
    settings = {"network": "64-64-64-10, ReLU", "epochs": 1 if quick else 30, "momentum": 0.9}
    settings["seeds"] = list(range(1 if quick else 5))
    rows = [
        sweep(
            Method(name, partial(_orthogonal, name), rates),
            lambda: perceptron(64, 2),
            settings["seeds"],
            epochs=settings["epochs"],
            cosine=True,
            scores=_confidence,
        )
        for name in RULES
    ]
    return {"settings": settings, "rows": rows}


def _orthogonal(name: str, model: nn.Sequential, rate: float) -> Optimizer:
    return cl.ConstrainedSGD(cl.constrain(model, RULES[name]), lr=rate, momentum=0.9)


@torch.no_grad()
def _confidence(model: nn.Sequential, data: Digits) -> dict[str, float]:
    logits = model(data.x_test)
    return {
        "loss": cross_entropy(logits, data.y_test).item(),
        "confidence": 100 * logits.softmax(1).max(1).values.mean().item(),
    }


def table(numbers: sheet.Numbers) -> str:
    """A line for each rule."""
    head = ["`Orthogonal` on", "test accuracy, %", "test loss", "mean confidence, %", "rate"]
    rows = [
        [
            row["method"],
            sheet.spread(at_chosen(row)),
            sheet.spread(at_chosen(row, "loss"), ".2f"),
            sheet.spread(at_chosen(row, "confidence")),
            row["chosen"],
        ]
        for row in numbers["rows"]
    ]
    return sheet.markdown(head, rows)


if __name__ == "__main__":
    sheet.main("output_layer", measure, table)
