"""The tables of networks.md from the stored results: ``python docs/networks.py``."""

from collections.abc import Sequence
from pathlib import Path

from colangevin.experiments.catalogue.problems import ByteProblem
from colangevin.experiments.report.gathering import PartResult
from colangevin.experiments.report.results import Result, load

__all__ = ["BEGIN", "END", "PAGE", "render"]

PAGE = Path(__file__).parent / "networks.md"
BEGIN, END = "<!-- decoder: begin, written by python docs/networks.py -->", "<!-- decoder: end -->"
_RESULTS = PAGE.parent.parent / "results"
_NONE = "They have run in their small form alone, which says nothing about which method is ahead."
_BASELINE = "Muon"


def render(folder: Path = _RESULTS) -> str:
    """What the decoder came to, and how its learning rates were found.

    Args:
        folder: of the results.

    Returns:
        Markdown.
    """
    results = {result.experiment.name: result for result in load(folder)}
    tables = []
    if "decoder" in results:
        tables.append(_compared(results["decoder"].parts[0]))
    if "decoder-search" in results:
        tables.append(_searched(results["decoder-search"]))
    return "\n\n".join(tables) or _NONE


def _compared(part: PartResult) -> str:
    """Every method that has run, the best first."""
    head = [
        *("hidden matrices by", "rate", "runs", "validation, bits a byte", "test, bits a byte"),
        *("test minus Muon's, run by run", "norm of a hidden row", "ms a step"),
    ]
    ran = [number for number, done in enumerate(part.done) if done.any()]
    ran.sort(key=lambda number: _mean(part, "validation bits", number))
    rows = []
    for number in ran:
        rows.append(
            [
                part.methods[number],
                f"{part.part.methods[number].lr:g}",
                str(part.done[number].sum()),
                f"{_mean(part, 'validation bits', number):.4f}",
                f"{_mean(part, 'test bits', number):.4f}",
                _differences(part, number),
                f"{_mean(part, 'hidden norm', number):.2f}",
                f"{_mean(part, 'time per step', number):.1f}",
            ]
        )
    return _table(head, rows, left=1)


def _mean(part: PartResult, measure: str, number: int) -> float:
    return float(part.values[measure][number][part.done[number]].mean())


def _differences(part: PartResult, number: int) -> str:
    """From the baseline, on the same data; of the runs that both have."""
    baseline = part.methods.index(_BASELINE)
    both = part.done[number] & part.done[baseline]
    bits = part.values["test bits"]
    if number == baseline or not both.any():
        return "–"
    return ", ".join(f"{each:+.4f}" for each in (bits[number] - bits[baseline])[both])


def _searched(result: Result) -> str:
    """Validation bits of every method at every rate; the lowest is bold."""
    rows = []
    for part in result.parts:
        bits = part.values["validation bits"][:, 0]
        tried = [number for number in range(len(part.methods)) if part.done[number, 0]]
        lowest = min(tried, key=lambda number: bits[number] if bits[number] == bits[number] else float("inf"))
        cells = []
        for number in tried:
            shown = f"{bits[number]:.3f}" if bits[number] == bits[number] else "diverges"
            mark = "**" if number == lowest else ""
            cells.append(f"{part.part.methods[number].lr:g}: {mark}{shown}{mark}")
        rows.append([part.part.name, ", ".join(cells)])
    problem = result.experiment.parts[0].problem
    assert isinstance(problem, ByteProblem)
    steps = result.experiment.epochs * problem.steps
    return _table(
        ["hidden matrices by", f"rate: validation, bits a byte, {steps} steps, one run"], rows, left=2
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def main() -> None:
    """Write the tables."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{render()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
