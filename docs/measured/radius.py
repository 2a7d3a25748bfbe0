"""Radii as multiples of the initial weights: ``python -m docs.measured.radius``.

The network and the data of the first example: 40 % of the training labels are random.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

import colangevin as cl
from docs.measured import sheet
from docs.measured.data import Digits, digits
from docs.measured.training import accuracy, perceptron, train

__all__ = ["measure", "table"]

WRONG, RATE = 0.4, 0.1
MULTIPLES = (1.1, 1.5, 2.0, 3.0, 5.0, 10.0)
Constrain = Callable[[Tensor, float], cl.Constraint]


def _circle(weight: Tensor, multiple: float) -> cl.Constraint:
    return cl.Circle(multiple * weight.abs().max().item())


def _sphere(weight: Tensor, multiple: float) -> cl.Constraint:
    return cl.Sphere(multiple * weight.norm(dim=1).max().item())


def measure(quick: bool) -> sheet.Numbers:
    """Both kinds of bound at every multiple, and no bound."""
    settings = {"network": "64-500-10, ReLU", "random labels": WRONG, "epochs": 1 if quick else 60}
    settings |= {"rate": RATE, "momentum": 0.9, "seeds": list(range(1 if quick else 3))}
    rows: dict[str, dict[str, dict[str, list[float]]]] = {}
    for kind, constraint in (("Circle", _circle), ("Sphere", _sphere)):
        for multiple in MULTIPLES[:1] if quick else MULTIPLES:
            runs = [_run(seed, settings["epochs"], constraint, multiple) for seed in settings["seeds"]]
            rows.setdefault(f"{multiple:g}", {})[kind] = _columns(runs)
    free = [_run(seed, settings["epochs"]) for seed in settings["seeds"]]
    rows["no bound"] = dict.fromkeys(("Circle", "Sphere"), _columns(free))
    return {"settings": settings, "rows": rows}


def _columns(runs: list[dict[str, float]]) -> dict[str, list[float]]:
    return {key: [run[key] for run in runs] for key in runs[0]}


def _run(
    seed: int, epochs: int, constraint: Constrain | None = None, multiple: float = 0.0
) -> dict[str, float]:
    data = digits(seed, wrong=WRONG)
    torch.manual_seed(seed)
    model = perceptron(500, 1)
    optimizer: Optimizer = SGD(model.parameters(), lr=RATE, momentum=0.9)
    if constraint is not None:
        weights = {name: each for name, each in model.named_parameters() if name.endswith("weight")}
        rules: dict[str, Any] = {name: constraint(each, multiple) for name, each in weights.items()}
        optimizer = cl.ConstrainedSGD(cl.constrain(model, rules), lr=RATE, momentum=0.9)
    train(model, optimizer, data.x, data.y, epochs=epochs)
    return _scores(model, data)


def _scores(model: nn.Module, data: Digits) -> dict[str, float]:
    return {
        "test": accuracy(model, data.x_test, data.y_test),
        "train": accuracy(model, data.x, data.y),
    }


def table(numbers: sheet.Numbers) -> str:
    """A line for each multiple."""
    head = ["radius / largest initial"]
    for kind in ("Circle", "Sphere"):
        head += [f"`{kind}`: test, %", f"`{kind}`: training, %"]
    rows = []
    for multiple, kinds in numbers["rows"].items():
        cells = [sheet.spread(kinds[kind][key]) for kind in ("Circle", "Sphere") for key in ("test", "train")]
        rows.append([multiple, *cells])
    return sheet.markdown(head, rows)


if __name__ == "__main__":
    sheet.main("radius", measure, table)
