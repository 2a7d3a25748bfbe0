"""The claims of the paper with their verdicts, in reproduction.md: ``python docs/claims.py``."""

from collections.abc import Sequence
from pathlib import Path

from colangevin.experiments.report import tables
from colangevin.experiments.report.results import Result, load
from colangevin.experiments.report.settled import besides, counted, settled

__all__ = ["PAGE", "rendered"]

PAGE = Path(__file__).parent / "reproduction.md"
_BEGIN, _END = "<!-- {}: begin, written by python docs/claims.py -->", "<!-- {}: end -->"
_RESULTS = PAGE.parent.parent / "results"


def rendered(text: str, folder: Path = _RESULTS) -> str:
    """The page with its tables as the results give them.

    Args:
        text: of the page.
        folder: of the results.

    Returns:
        The same text with new tables.
    """
    results = load(folder)
    for name, table in (("claims", _claims(results)), ("evidence", _evidence(results))):
        begin, end = _BEGIN.format(name), _END.format(name)
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
    return text


def _claims(results: Sequence[Result]) -> str:
    """Every claim of the paper, and how the paper is read where it is decided."""
    claims = settled(results)
    lines = [counted(claims), "", *_lines(tables.paper_claims(claims)), "", *_lines(tables.readings(claims))]
    return "\n".join(lines)


def _evidence(results: Sequence[Result]) -> str:
    """What else there is about every claim, and our own questions."""
    rows = []
    for each in settled(results):
        table = tables.evidence(each.evidence)
        names = [f"{each.claim.source}: {each.claim.text}"] + [""] * len(table.rows)
        rows += [[name, *row] for name, row in zip(names, table.rows, strict=False)]
    lines = _lines(tables.Table(["claim", *tables.evidence(()).head], rows))
    lines += ["", "### Not in the paper", "", *_lines(tables.evidence(besides(results)))]
    return "\n".join(lines)


def _lines(table: tables.Table) -> list[str]:
    """A table in Markdown; on our own pages nothing needs an escape."""
    return [f"| {' | '.join(row)} |" for row in (table.head, ["---"] * len(table.head), *table.rows)]


def main() -> None:
    """Write the tables."""
    PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
