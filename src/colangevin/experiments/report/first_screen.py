"""The first screen of the page: the claims of the paper, each with verdict, interval and evidence."""

from collections.abc import Sequence
from html import escape
from itertools import groupby

from colangevin.experiments.judging.verdicts import CONFIDENCE
from colangevin.experiments.report import tables
from colangevin.experiments.report.results import Result
from colangevin.experiments.report.settled import Evidence, Settled, besides, counted, few, settled

__all__ = ["first_screen", "verdict_cell"]

_CLASSES = {"holds": "holds", "does not hold": "fails"}
_HEAD = ("claim", f"difference, {CONFIDENCE:.0%} interval", "runs", "verdict", "source")


def first_screen(results: Sequence[Result]) -> str:
    """The section that a reader sees first.

    Args:
        results: of experiments.

    Returns:
        HTML.
    """
    claims, other = settled(results), besides(results)
    parts = ['<section id="in-short">']
    if claims:
        parts += [
            f"<h2>The claims of the paper</h2><p>{escape(counted(claims))} "
            "A claim opens to its numbers, its reading of the paper, and the evidence of other readings.</p>",
            _table([row for group in _groups(claims) for row in group]),
        ]
    if other:
        rows = "".join(_besides(each) for each in other)
        shown = "" if claims else " open"
        summary = f"<summary>Not in the paper: {len(other)} comparisons of our own</summary>"
        parts.append(f"<details{shown}>{summary}{_table([rows])}</details>")
    parts.append(
        f"<details><summary>How a claim is tested</summary><p>{escape(tables.METHOD)}</p></details></section>"
    )
    return "".join(parts)


def verdict_cell(text: str) -> str:
    """The cell of a verdict, which may have its reason in brackets."""
    word, bracket, why = text.partition(" (")
    kind = _CLASSES.get(word, "open")
    return f'<td class="verdict {kind}">{escape(word)} <small>{escape(bracket.strip() + why)}</small></td>'


def _groups(claims: Sequence[Settled]) -> list[list[str]]:
    """Rows under the names of their problems."""
    return [
        [f'<tr class="group"><th colspan="{len(_HEAD)}">{escape(problem)}</th></tr>', *map(_row, group)]
        for problem, group in groupby(claims, lambda each: each.claim.main.problem)
    ]


def _row(each: Settled) -> str:
    claim, finding = each.claim, each.finding
    facts = [
        ("ours", tables.ours(finding) if finding else "no run"),
        ("paper", claim.numbers),
        ("settings", each.note),
    ]
    lines = "".join(f"<div>{name}: {escape(text)}</div>" for name, text in facts if text)
    lines += f"<div>tested in: {_link(claim.main.experiment)}, {escape(claim.main.words)}</div>"
    if each.evidence:
        lines += f"<div>evidence:</div><ul>{''.join(map(_item, each.evidence))}</ul>"
    about = f"<details><summary>{escape(claim.text)}</summary>{lines}</details>"
    interval = tables.difference(finding) if finding else "–"
    runs = finding.runs if finding else 0
    cells = _cells(about, interval, runs, tables.verdict(each.verdict, each.why), escape(claim.source))
    return f'<tr id="{escape(claim.key)}">{cells}</tr>'


def _item(each: Evidence) -> str:
    finding = each.finding
    words = tables.verdict(finding.verdict, few(finding.runs))
    where = each.where or f"{finding.claim.method} against {finding.baseline}"
    kind = _CLASSES.get(finding.verdict, "open")
    return (
        f'<li>{escape(where)} ({_link(each.experiment)}): <b class="{kind}">{escape(words)}</b>, '
        f"{escape(tables.difference(finding))}, runs: {finding.runs}</li>"
    )


def _besides(each: Evidence) -> str:
    finding = each.finding
    where = f" [{each.where}]" if each.where else ""
    about = (
        f"<details><summary>{escape(finding.claim.text + where)}</summary>"
        f"<div>ours: {escape(tables.ours(finding))}</div></details>"
    )
    words = tables.verdict(finding.verdict, few(finding.runs))
    cells = _cells(about, tables.difference(finding), finding.runs, words, _link(each.experiment))
    return f"<tr>{cells}</tr>"


def _cells(about: str, interval: str, runs: int, verdict: str, last: str) -> str:
    return (
        f'<td>{about}</td><td data-head="difference">{escape(interval)}</td><td data-head="runs">{runs}</td>'
        f"{verdict_cell(verdict)}<td>{last}</td>"
    )


def _link(experiment: str) -> str:
    return f'<a href="#{escape(experiment)}">{escape(experiment)}</a>'


def _table(rows: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in _HEAD)
    return (
        f'<div class="scroll"><table class="claims paper"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
