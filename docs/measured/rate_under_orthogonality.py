"""Rates for a transformer with orthogonal matrices: ``python -m docs.measured.rate_under_orthogonality``."""

from collections.abc import Callable

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

import colangevin as cl
from docs.measured import sheet
from docs.measured.characters import CONTEXT, Transformer, loss, windows
from docs.measured.data import Text, text

__all__ = ["measure", "table"]

BATCH = 32
# Which rules hold the blocks' matrices: embeddings, norms and the output layer stay free.
RULES = {"blocks.*.attention.*.weight": cl.Orthogonal(), "blocks.*.perceptron.*.weight": cl.Orthogonal()}


def _one_rate(model: nn.Module, rate: float) -> Optimizer:
    return cl.ConstrainedSGD(cl.constrain(model, RULES), lr=rate, momentum=0.9)


def _ten_times_the_rate(model: nn.Module, rate: float) -> Optimizer:
    groups = cl.constrain(model, RULES)
    for group in groups:
        if isinstance(group["constraint"], cl.Orthogonal):
            group["lr"] = 10 * rate
    return cl.ConstrainedSGD(groups, lr=rate, momentum=0.9)


METHODS: dict[str, tuple[Callable[[nn.Module, float], Optimizer], tuple[float, ...]]] = {
    "SGD": (lambda model, rate: SGD(model.parameters(), lr=rate, momentum=0.9), (0.03, 0.1, 0.3, 1.0)),
    "AdamW": (lambda model, rate: AdamW(model.parameters(), lr=rate), (1e-3, 3e-3, 1e-2, 3e-2)),
    "`Orthogonal`, one rate for all": (_one_rate, (0.03, 0.1, 0.3, 1.0)),
    "`Orthogonal` at 10 times the rate of the rest": (_ten_times_the_rate, (0.03, 0.1, 0.3, 1.0)),
}


def measure(quick: bool) -> sheet.Numbers:
    """Validation loss by rate for one seed, then test loss at the best rate for all seeds."""
    settings = {"blocks": 2, "width": 64, "heads": 4, "context": CONTEXT, "batch": BATCH}
    settings |= {"steps": 3 if quick else 1000, "momentum": 0.9, "schedule": "cosine"}
    settings |= {"seeds to choose": [0], "seeds to test": [1] if quick else [1, 2, 3]}
    data = text()
    rows = {}
    for name, (optimizer, rates) in METHODS.items():
        found = {
            f"{rate:g}": _losses(data, optimizer, rate, 0, settings["steps"])[0]
            for rate in (rates[:1] if quick else rates)
        }
        chosen = min(found, key=lambda rate: found[rate])
        test = [
            _losses(data, optimizer, float(chosen), seed, settings["steps"])[1]
            for seed in settings["seeds to test"]
        ]
        rows[name] = {"validation": found, "chosen": chosen, "test": test}
    return {"settings": settings, "characters of text": len(data.train), "rows": rows}


def _losses(
    data: Text, make: Callable[[nn.Module, float], Optimizer], rate: float, seed: int, steps: int
) -> tuple[float, float]:
    """Validation and test loss after training; infinite where it has diverged."""
    torch.manual_seed(seed)
    model = Transformer(data.characters)
    optimizer = make(model, rate)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    ahead = torch.arange(CONTEXT + 1)
    for _ in range(steps):
        starts = torch.randint(len(data.train) - CONTEXT, (BATCH, 1))
        optimizer.zero_grad()
        value = loss(model, data.train[starts + ahead])
        if not value.isfinite():
            return torch.inf, torch.inf
        value.backward()
        optimizer.step()
        decay.step()
    with torch.no_grad():
        validation, test = (loss(model, windows(part)).item() for part in (data.validation, data.test))
    return validation, test


def table(numbers: sheet.Numbers) -> str:
    """A line for each method."""
    head = ["method", "validation loss by rate", "chosen rate", "test loss, nats a character"]
    rows = []
    for name, row in numbers["rows"].items():
        by_rate = ", ".join(
            f"{rate}: {value:.2f}" if value < torch.inf else f"{rate}: diverges"
            for rate, value in row["validation"].items()
        )
        rows.append([name, by_rate, row["chosen"], sheet.spread(row["test"], ".3f")])
    return sheet.markdown(head, rows)


if __name__ == "__main__":
    sheet.main("rate_under_orthogonality", measure, table)
