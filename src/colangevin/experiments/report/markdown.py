"""A report as Markdown: every table, and links to the figures."""

import re
from collections.abc import Sequence
from html import escape

from colangevin.experiments.report.results import Result
from colangevin.experiments.report.tables import METHOD, Table, claims, facts, numbers, summary_line

__all__ = ["markdown"]


def markdown(results: Sequence[Result], pictures: Sequence[str]) -> str:
    """The report as Markdown."""
    lines = ["# Results", "", summary_line(results), "", METHOD]
    for result in results:
        experiment = result.experiment
        about = f"{', '.join(experiment.covers)}. {_plain(experiment.about)}"
        lines += ["", f"## {_plain(experiment.title)}", "", about, ""]
        lines += [f"- {name}: {_plain(text)}" for name, text in facts(result)]
        lines += ["", *_code(result.run.command), "", *_lines(claims(result))]
        for each in result.parts:
            lines += ["", f"### {_plain(each.part.name)}", "", *_lines(numbers(result, each))]
        mine = [name for name in pictures if name.startswith(f"{experiment.name}.")]
        for name in mine:
            lines += ["", f"![{name.removesuffix('.svg')}](figures/{name})"]
    return "\n".join(lines) + "\n"


def _lines(table: Table) -> list[str]:
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
