"""What general constraints cost beside closed forms: ``python -m docs.measured.own_constraint``."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import colangevin as cl
from docs.measured import sheet

__all__ = ["measure", "table"]


def sums_to_one(row: Tensor) -> Tensor:
    """A row: one component."""
    return row.sum() - 1


def row_sums(w: Tensor) -> Tensor:
    """All rows at once: a component for each."""
    return w.sum(1) - 1


def group_norms(w: Tensor) -> Tensor:
    """Rows in 64 groups, each of one norm."""
    return w.view(64, -1).square().sum(1) - 1


def orthonormal(w: Tensor) -> Tensor:
    """Orthonormal columns: the upper triangle of a matrix of scalar products."""
    rows, columns = torch.triu_indices(w.shape[1], w.shape[1])
    return (w.mT @ w - torch.eye(w.shape[1]))[rows, columns]


def balanced(a: Tensor, b: Tensor) -> Tensor:
    """Rows of one weight and columns of the next have equal norms."""
    return a.square().sum(1) - b.square().sum(0)


@dataclass(frozen=True)
class Case:
    """A constraint on one or two weights of some shapes, and which weights satisfy it."""

    what: str
    written: str
    constraint: cl.Constraint
    shapes: Sequence[tuple[int, int]]
    feasible: Callable[[Tensor], Tensor]
    weights: int = 1


def _on_simplex(w: Tensor) -> Tensor:
    return torch.softmax(w, dim=1)


def _orthonormal(w: Tensor) -> Tensor:
    return torch.linalg.qr(w).Q


def _in_groups(w: Tensor) -> Tensor:
    return nn.functional.normalize(w.view(64, -1), dim=1).view_as(w)


SMALL, LAYERS = ((64, 16),), ((256, 256), (1000, 784))
ENTRIES = cl.Implicit(torch.neg, inequality=True, over="entries")
SIMPLEX = cl.Implicit(sums_to_one, nonpositive=torch.neg, over="rows")
ROWS, OF_ENTRIES = '`Implicit`, `over="rows"`', '`Implicit`, `over="entries"`'
WHOLE = "`Implicit` of the whole weight"
CASES = (
    Case("rows sum to 1", ROWS, cl.Implicit(sums_to_one, over="rows"), LAYERS, _on_simplex),
    Case("rows sum to 1", WHOLE, cl.Implicit(row_sums), LAYERS[:1], _on_simplex),
    Case("rows sum to 1", "`Affine.sum(1.0)`", cl.Affine.sum(1.0), LAYERS, _on_simplex),
    Case("no negative entry", OF_ENTRIES, ENTRIES, LAYERS, torch.exp),
    Case("no negative entry", "`NonNegative()`", cl.NonNegative(), LAYERS, torch.exp),
    Case("rows on the simplex", ROWS, SIMPLEX, SMALL, _on_simplex),
    Case("rows on the simplex", "`Simplex()`", cl.Simplex(), (*SMALL, *LAYERS), _on_simplex),
    Case("64 groups of rows of norm 1", WHOLE, cl.Implicit(group_norms), LAYERS[:1], _in_groups),
    Case("orthonormal columns", WHOLE, cl.Implicit(orthonormal), ((64, 64),), _orthonormal),
    Case("orthonormal columns", "`Orthogonal()`", cl.Orthogonal(), ((64, 64),), _orthonormal),
    Case("balanced norms", "`Implicit` of two weights", cl.Implicit(balanced), LAYERS[:1], torch.clone, 2),
)


def measure(quick: bool) -> sheet.Numbers:
    """Every case at every shape, and SGD with momentum on the same weights in turn with it."""
    settings = {"steps": 3 if quick else 20, "momentum": 0.9, "dtype": "float32", "cpu": _cpu()}
    rows = []
    for case in CASES:
        for shape in case.shapes[:1] if quick else case.shapes:
            held, plain = _times(case, shape, settings["steps"])
            name = f"{case.what}: {case.written}"
            rows.append({"constraint": name, "shape": list(shape), "ms": held, "sgd_ms": plain})
    return {"settings": settings, "rows": rows}


def _times(case: Case, shape: tuple[int, int], steps: int) -> tuple[float, float]:
    """Medians in milliseconds of a step under the constraint and of one of SGD with momentum."""
    draw = torch.Generator().manual_seed(0)
    names = tuple(f"w{i}" for i in range(case.weights))
    models = [nn.ParameterDict(), nn.ParameterDict()]
    for name in names:
        weight = case.feasible(torch.randn(shape, generator=draw) / math.sqrt(shape[1]))
        for model in models:
            model[name] = nn.Parameter(weight.clone())
    rule = names if case.weights > 1 else names[0]
    groups = cl.constrain(models[0], {rule: case.constraint}, init="nearest")
    optimizers = (
        cl.ConstrainedSGD(groups, lr=0.01, momentum=0.9),
        torch.optim.SGD(models[1].parameters(), lr=0.01, momentum=0.9),
    )
    taken: list[list[float]] = [[], []]
    for step in range(steps + 3):
        for model, optimizer, times in zip(models, optimizers, taken, strict=True):
            for parameter in model.values():
                parameter.grad = torch.randn(parameter.shape, generator=draw) / math.sqrt(parameter.numel())
            began = time.perf_counter()
            optimizer.step()
            if step >= 3:
                times.append(1e3 * (time.perf_counter() - began))
    held, plain = map(statistics.median, taken)
    return held, plain


def _cpu() -> str:
    """The processor, as Linux calls it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return "unknown"


def table(numbers: sheet.Numbers) -> str:
    """A line for each constraint and shape."""
    head = ["constraint", "shape", "ms a step", "SGD with momentum, ms"]
    rows = [
        [
            row["constraint"],
            "×".join(map(str, row["shape"])),
            f"{row['ms']:.2g}" if row["ms"] < 10 else f"{row['ms']:.0f}",
            f"{row['sgd_ms']:.2g}",
        ]
        for row in numbers["rows"]
    ]
    return sheet.markdown(head, rows)


if __name__ == "__main__":
    sheet.main("own_constraint", measure, table)
