"""The table of findings.md from the stored results: ``python docs/findings.py``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from colangevin.experiments.report.results import Result, load

__all__ = ["BEGIN", "END", "PAGE", "render"]

PAGE = Path(__file__).parent / "findings.md"
BEGIN, END = "<!-- numbers: begin, written by python docs/findings.py -->", "<!-- numbers: end -->"
_RESULTS = PAGE.parent.parent / "results"


@dataclass(frozen=True)
class _Row:
    """A comparison: what was trained, by which measure it is judged, and the methods side by side."""

    what: str
    experiment: str
    part: str
    measure: str
    digits: int
    ours: str
    plain: str
    best: str


_ACCURACY, _LOSS, _LOWEST = "test accuracy", "test loss", "lowest validation loss"
_ROWS = (
    _Row("4-turn spiral, 8 hidden layers", "four-turn", "8 hidden layers", _ACCURACY, 1,
         "o-CoLod", "SGD", "SGD, penalty λ=0.05"),
    _Row("2-turn spiral", "two-turn", "2-turn spiral", _ACCURACY, 1,
         "C-SGLD τ=5e-5", "SGD", "SGD, WD 1e-4"),
    _Row("Fashion-MNIST, one hidden layer", "fashion-mnist", "Fashion-MNIST", _LOSS, 3,
         "c-CoLud, lr 0.3", "SGD-m 0.1, 0.8", "SGD-m 0.1, 0.8, WD 1e-4"),
    _Row("Fashion-MNIST, one hidden layer", "fashion-mnist", "Fashion-MNIST", _ACCURACY, 1,
         "c-CoLud, lr 0.3", "SGD-m 0.1, 0.8", "SGD-m 0.1, 0.8, WD 1e-4"),
    _Row("CIFAR-10, ResNet-34", "resnet34", "CIFAR-10", _ACCURACY, 1,
         "o-CoLud", "SGD-m", "SGD-m, WD 5e-4"),
    _Row("WikiText-2, transformer", "transformer", "WikiText-2", _LOWEST, 2,
         "c-CoLud", "SGD-m 0.1, 0.9", "SGD-m 0.1, 0.9, WD 1e-4"),
    _Row("Penn Treebank, 1024 texts a batch", "transformer", "Penn Treebank", _LOWEST, 2,
         "c-CoLud", "SGD-m 0.1, 0.9", "SGD-m 0.1, 0.9, WD 1e-4"),
    _Row("Penn Treebank, 256 texts a batch", "transformer-nearest", "Penn Treebank", _LOWEST, 2,
         "c-CoLud", "SGD-m 0.1, 0.9", "SGD-m 0.1, 0.9, WD 1e-4"),
)  # fmt: skip


def render(folder: Path = _RESULTS) -> str:
    """The main comparisons.

    Args:
        folder: of the results.

    Returns:
        Markdown.
    """
    results = load(folder)
    lines = [
        "| trained | measure | runs | constrained | SGD | SGD with a penalty or weight decay |",
        "|---|---|---:|---|---|---|",
    ]
    for row in _ROWS:
        runs, ours, plain, best = _numbers(results, row)
        unit = " %" if row.measure == _ACCURACY else ""
        lines.append(
            f"| {row.what} | {row.measure} | {runs} | {ours}{unit}<br>{row.ours} | {plain}{unit} | "
            f"{best}{unit}<br>{_short(row.best)} |"
        )
    return "\n".join(lines)


def _numbers(results: Sequence[Result], row: _Row) -> tuple[int, str, str, str]:
    """How many runs, and the means over them."""
    (result,) = (each for each in results if each.experiment.name == row.experiment)
    (part,) = (each for each in result.parts if each.part.name == row.part)
    found = [
        part.values[row.measure][number][part.done[number]]
        for number in map(part.methods.index, (row.ours, row.plain, row.best))
    ]
    (runs,) = {len(values) for values in found}
    ours, plain, best = (f"{values.mean():.{row.digits}f}" for values in found)
    return runs, ours, plain, best


def _short(method: str) -> str:
    """What a baseline adds to SGD."""
    return method.rpartition(", ")[2]


def main() -> None:
    """Write the table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{render()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
