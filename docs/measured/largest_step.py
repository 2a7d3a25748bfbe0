"""The largest step that samples correctly, by the Monitor: ``python -m docs.measured.largest_step``."""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import colangevin as cl
from docs.measured import sheet
from docs.measured.data import digits

__all__ = ["measure", "table"]

STEPS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
CHAINS = 4
#: by title: the splitting, and how many data are in a batch, None for all
RUNS: dict[str, tuple[str, int | None]] = {
    "BAOAB": ("BAOAB", None),
    "BAOAB, batches of 32": ("BAOAB", 32),
    "OBA": ("OBA", None),
}


def measure(quick: bool) -> sheet.Numbers:
    """Both temperatures of the bounded weights at every step size."""
    settings: dict[str, Any] = {"network": "64-32-10, tanh", "constraint": "Circle(1.0)", "data": 300}
    settings |= {"chains": CHAINS, "friction": 1.0, "burn-in": 10 if quick else 2000}
    settings |= {"steps recorded": 50 if quick else 2000, "seed": 0}
    rows = {
        f"{h:g}": {title: _temperatures(settings, h, *run) for title, run in RUNS.items()}
        for h in (STEPS[:1] if quick else STEPS)
    }
    return {"settings": settings, "rows": rows}


def _temperatures(settings: dict[str, Any], h: float, splitting: str, batch: int | None) -> dict[str, Any]:
    n = settings["data"]
    data = digits(settings["seed"])
    x, y = data.x[:n], data.y[:n]
    torch.manual_seed(settings["seed"])
    chains = cl.Replicas(
        lambda: nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10)),
        CHAINS,
        seed=settings["seed"],
    )
    optimizer = cl.CoLud(
        chains.constrain({"*.weight": cl.Circle(1.0)}),
        lr=h,
        friction=settings["friction"],
        temperature=cl.posterior_temperature(n),
        weight_decay=cl.prior_weight_decay(n, 1.0),
        splitting=splitting,
        seed=settings["seed"],
    )
    monitor = cl.diagnostics.Monitor(optimizer, every=10, burn_in=settings["burn-in"])
    for _ in range(settings["burn-in"] + settings["steps recorded"]):
        chosen = torch.arange(n) if batch is None else torch.randint(n, (batch,))
        optimizer.zero_grad()
        logits = chains(x[chosen])
        losses = cross_entropy(logits.flatten(0, 1), y[chosen].repeat(CHAINS), reduction="none")
        losses.view(CHAINS, -1).mean(1).sum().backward()
        monitor.record()
        optimizer.step()
    report = monitor.report().groups[0]
    return {
        name: {"value": each.value, "error": each.error, "outcome": each.outcome}
        for name, each in (("kinetic", report.kinetic), ("configurational", report.configurational))
        if each is not None
    }


def table(numbers: sheet.Numbers) -> str:
    """A line for each step size; temperatures over the one that was asked for."""
    head = ["`lr`", "kinetic, BAOAB", *(f"configurational, {title}" for title in RUNS)]
    rows = [
        [h, _cell(row["BAOAB"]["kinetic"]), *(_cell(row[title]["configurational"]) for title in RUNS)]
        for h, row in numbers["rows"].items()
    ]
    return sheet.markdown(head, rows)


def _cell(estimate: dict[str, Any]) -> str:
    """The temperature, in bold where the monitor calls it right."""
    words = f"{estimate['value']:.2f} ± {estimate['error']:.2f}"
    return f"**{words}**" if estimate["outcome"] == "right" else words


if __name__ == "__main__":
    sheet.main("largest_step", measure, table)
