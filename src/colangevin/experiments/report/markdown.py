"""A report as Markdown: every table, and links to the figures."""

import re
from collections.abc import Sequence
from html import escape

from colangevin.experiments.report import tables
from colangevin.experiments.report.posteriors import posterior_tables
from colangevin.experiments.report.results import Result
from colangevin.experiments.report.settled import besides, counted, settled

__all__ = ["markdown"]


def markdown(results: Sequence[Result], pictures: Sequence[str]) -> str:
    """The report as Markdown."""
    lines = ["# Results", *_paper(results)]
    if other := besides(results):
        lines += ["", "## Not in the paper", "", *_lines(tables.evidence(other))]
    lines += ["", "## How a claim is tested", "", tables.METHOD]
    for result in results:
        experiment = result.experiment
        about = f"{', '.join(experiment.covers)}. {_plain(experiment.about)}"
        lines += ["", f"## {_plain(experiment.title)}", "", about, ""]
        mine = [name for name in pictures if name.startswith(f"{experiment.name}.")]
        mine.sort(key=lambda name: not name.endswith(f".{result.best_picture}.svg"))  # the best is first
        lines += [_picture(name) for name in mine[:1]]
        lines += ["", *_lines(tables.claims(result))]
        for each in result.parts:
            lines += ["", f"### {_plain(each.part.name)}", "", *_lines(tables.numbers(result, each))]
            for caption, table in posterior_tables(each):
                lines += ["", _plain(caption), "", *_lines(table)]
        for name in mine[1:]:
            lines += ["", _picture(name)]
        lines += ["", *(f"- {name}: {_plain(text)}" for name, text in tables.facts(result))]
        lines += ["", *_code(result.run.command)]
    return "\n".join(lines) + "\n"


def _paper(results: Sequence[Result]) -> list[str]:
    """The claims of the paper, then what else there is about each."""
    claims = settled(results)
    if not claims:
        return []
    lines = ["", "## The claims of the paper", "", counted(claims), "", *_lines(tables.paper_claims(claims))]
    lines += ["", *_lines(tables.readings(claims))]
    for each in claims:
        if each.evidence:
            found = _lines(tables.evidence(each.evidence))
            lines += ["", f"### Evidence: {_plain(each.claim.text)}", "", *found]
    return lines


def _picture(name: str) -> str:
    return f"![{name.removesuffix('.svg')}](figures/{name})"


def _lines(table: tables.Table) -> list[str]:
    head, *rows = [list(map(_plain, row)) for row in (table.head, *table.rows)]
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


# Characters with a meaning in Markdown. A colon before slashes and a point after www make links.
_MARKS = re.compile(r"[\\`*_\[\]|~$#@!]|:(?=//)|(?<=www)\.", re.IGNORECASE)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is. <, > and & become entities, which every dialect takes."""
    return escape(_MARKS.sub(r"\\\g<0>", text), quote=False)


def _code(command: str) -> list[str]:
    """A command as a block, between more backticks than it has in a row."""
    longest = max((len(run) for run in re.findall("`+", command)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}console", command, fence]
