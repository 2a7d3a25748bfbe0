"""The claims of the stored results as a table in reproduction.md: ``python docs/claims.py``."""

from pathlib import Path

from colangevin.experiments.report import tables
from colangevin.experiments.report.results import load

__all__ = ["BEGIN", "END", "PAGE", "render"]

PAGE = Path(__file__).parent / "reproduction.md"
BEGIN, END = "<!-- claims: begin, written by python docs/claims.py -->", "<!-- claims: end -->"
_RESULTS = PAGE.parent.parent / "results"


def render(folder: Path = _RESULTS) -> str:
    """Every claim that was tested, by experiment.

    Args:
        folder: of the results.

    Returns:
        Markdown.
    """
    results = load(folder)
    lines = [tables.summary_line(results), ""]
    for number, result in enumerate(results):
        table = tables.claims(result)
        if number == 0:
            head = ["experiment", *table.head]
            lines += [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        names = [f"`{result.experiment.name}`"] + [""] * len(table.rows)
        lines += [f"| {' | '.join([name, *row])} |" for name, row in zip(names, table.rows, strict=False)]
    return "\n".join(lines)


def main() -> None:
    """Write the table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{render()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
