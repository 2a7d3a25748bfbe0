"""The README's first example at several rates and seeds: ``python -m docs.measured.first_example``.

A network trains on digits of which 40 % have a random label. Rates are chosen on validation data with as many
random labels; test labels are correct.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

import colangevin as cl
from docs.measured import sheet
from docs.measured.data import digits
from docs.measured.training import Method, accuracy, perceptron, train

__all__ = ["measure", "table"]

WRONG = 0.4
RATES = (0.003, 0.01, 0.03, 0.1)
DECAYS = (1e-3, 3e-3, 1e-2)


def _bounded(model: nn.Sequential, rate: float) -> Optimizer:
    groups = cl.constrain(model, {"0.weight": cl.Circle(0.19), "2.weight": cl.Circle(0.067)})
    return cl.ConstrainedSGD(groups, lr=rate, momentum=0.9)


def _sgd(model: nn.Sequential, rate: float, decay: float = 0.0) -> Optimizer:
    return SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=decay)


def _adamw(model: nn.Sequential, rate: float) -> Optimizer:
    return AdamW(model.parameters(), lr=rate)


def measure(quick: bool) -> sheet.Numbers:
    """Every method at every rate."""
    settings = {"network": "64-500-10, ReLU", "random labels": WRONG, "epochs": 1 if quick else 60}
    settings |= {"momentum": 0.9, "seeds": list(range(1 if quick else 5)), "weight decays": list(DECAYS)}
    runs = partial(_runs, seeds=settings["seeds"], epochs=settings["epochs"], most=1 if quick else 4)
    decayed = [
        runs(Method(f"SGD, weight decay {each:g}", partial(_sgd, decay=each), RATES)) for each in DECAYS
    ]
    rows = [
        runs(Method("SGD", _sgd, RATES)),
        # of the weight decays the one that does best on validation data
        max(decayed, key=lambda row: _validation(row, row["chosen"])),
        runs(Method("AdamW", _adamw, (1e-4, 3e-4, 1e-3, 3e-3))),
        runs(Method("bounded weights", _bounded, (0.01, 0.03, 0.1, 0.3))),
    ]
    return {"settings": settings, "rows": rows}


def _runs(method: Method, seeds: Sequence[int], epochs: int, most: int) -> dict[str, Any]:
    """Accuracies by rate, of the first ``most`` rates."""
    rates: dict[str, dict[str, list[float]]] = {}
    for rate in method.rates[:most]:
        found = rates[f"{rate:g}"] = {"validation": [], "test": []}
        for seed in seeds:
            data = digits(seed, wrong=WRONG)
            model = _trained(method, rate, seed, data.x, data.y, epochs)
            found["validation"].append(accuracy(model, data.x_validation, data.y_validation))
            # as in the example, the network that is tested learns from the validation data too
            x = torch.cat((data.x_validation, data.x))
            y = torch.cat((data.y_validation, data.y))
            model = _trained(method, rate, seed, x, y, epochs)
            found["test"].append(accuracy(model, data.x_test, data.y_test))
    row = {"method": method.name, "rates": rates}
    return {**row, "chosen": max(rates, key=lambda rate: _validation(row, rate))}


def _trained(method: Method, rate: float, seed: int, x: Tensor, y: Tensor, epochs: int) -> nn.Sequential:
    torch.manual_seed(seed)
    model = perceptron(500, 1)
    train(model, method.optimizer(model, rate), x, y, epochs=epochs)
    return model


def _validation(row: dict[str, Any], rate: str) -> float:
    return sum(row["rates"][rate]["validation"])


def table(numbers: sheet.Numbers) -> str:
    """A line for each method, a column for each rate; the rate chosen on validation data in bold."""
    rows = []
    for row in numbers["rows"]:
        cells = [
            f"**{sheet.spread(each['test'])}**" if rate == row["chosen"] else sheet.spread(each["test"])
            for rate, each in row["rates"].items()
        ]
        rows.append([row["method"], next(iter(row["rates"])), *cells])
    return sheet.markdown(["test accuracy, %", "rate r", "at r", "at 3 r", "at 10 r", "at 30 r"], rows)


if __name__ == "__main__":
    sheet.main("first_example", measure, table)
