"""The page of a report: one HTML file that needs no network."""

import base64
import gzip
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from plotly.offline import get_plotlyjs

from colangevin.experiments.report import tables
from colangevin.experiments.report.first_screen import first_screen, verdict_cell
from colangevin.experiments.report.gathering import PartResult
from colangevin.experiments.report.plot_data import plot_data
from colangevin.experiments.report.posteriors import posterior_tables
from colangevin.experiments.report.results import Result
from colangevin.experiments.storage.disk import as_utf8

__all__ = ["html"]

_SCRIPTS = ("helpers.js", "plots.js", "cards.js", "plane_cards.js", "page.js")
# A longer table of claims is folded.
_MOST_CLAIMS = 8


def html(results: Sequence[Result], folder: Path) -> str:
    """The page.

    Args:
        results: of experiments.
        folder: where they lie, for the command that makes the page again.

    Returns:
        A whole HTML document.
    """
    own = files(__package__).joinpath("web")
    style, *scripts = (own.joinpath(name).read_text(encoding="utf-8") for name in ("style.css", *_SCRIPTS))
    data = json.dumps(plot_data(results), separators=(",", ":"), ensure_ascii=False)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Constrained Langevin training: the paper's claims, tested</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header>
<div class="top"><h1>Weight-constrained training: the paper's claims, tested</h1>
<button id="theme">dark</button></div>
<p class="soft">Leimkuhler, Vlaar, Pouchon and Storkey, <em>Better Training using Weight-Constrained
Stochastic Dynamics</em>, ICML 2021.</p>
{first_screen(results)}
<nav aria-label="experiments"><h2>Experiments</h2><ul>{"".join(map(_link, results))}</ul></nav>
</header>
<main>{"".join(map(_section, results))}</main>
<footer>This page: <code>colangevin report {escape(as_utf8(folder))}</code></footer>
<script type="text/plain" id="plotly">{_packed(get_plotlyjs())}</script>
<script type="text/plain" id="data">{_packed(data)}</script>
<script>{"".join(scripts)}</script>
</body>
</html>
"""


def _packed(text: str) -> str:
    """Compressed, in characters that may stand in any element; page.js unpacks it."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _link(result: Result) -> str:
    experiment = result.experiment
    return f'<li><a href="#{escape(experiment.name)}">{escape(experiment.title)}</a>{_chips(result)}</li>'


def _chips(result: Result) -> str:
    return "".join(f'<span class="chip">{escape(each)}</span>' for each in result.experiment.covers)


def _section(result: Result) -> str:
    experiment = result.experiment
    facts = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in tables.facts(result))
    only = " open" if len(result.parts) == 1 else ""
    measured = "".join(
        f"<details{only}><summary>{escape(each.part.name)}: all numbers</summary>"
        f"{_numbers(tables.numbers(result, each))}</details>"
        for each in result.parts
    )
    return f"""
<section id="{escape(experiment.name)}">
<h2>{escape(experiment.title)}</h2>
<div class="controls">{_chips(result)}</div>
<p>{escape(experiment.about)}</p>
<div data-best="{escape(experiment.name)}"></div>
{"".join(map(_posterior, result.parts))}
{_claims(result)}
<div data-plots="{escape(experiment.name)}"></div>
{measured}
<dl>{facts}</dl>
<pre>{escape(result.run.command)}</pre>
</section>"""


def _posterior(each: PartResult) -> str:
    """Tables of chains beside HMC, and how they came there."""
    found = posterior_tables(each)
    tables_of_it = "".join(f"<p>{escape(caption)}</p>{_numbers(table)}" for caption, table in found)
    return f"<details open><summary>Distance to HMC</summary>{tables_of_it}</details>" if found else ""


def _claims(result: Result) -> str:
    table = tables.claims(result)
    if not table.rows:
        return ""
    rows = []
    for row in table.rows:
        cells = [
            f"<td>{escape(row[0])}</td><td>{escape(row[1])}</td>",
            *(
                f'<td data-head="{escape(head)}">{escape(cell)}</td>'
                for head, cell in zip(table.head[2:-1], row[2:-1], strict=True)
            ),
            verdict_cell(row[-1]),
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{escape(cell)}</th>" for cell in table.head)
    shown = " open" if len(rows) <= _MOST_CLAIMS else ""
    body = _table("claims", head, "".join(rows))
    return f"<details{shown}><summary>Comparisons: {len(rows)}</summary>{body}</details>"


def _numbers(table: tables.Table) -> str:
    paper = [' class="paper"' * (cell == "paper") for cell in table.head]
    head = "".join(f"<th{p}>{escape(cell)}</th>" for p, cell in zip(paper, table.head, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td{p}>{escape(cell)}</td>" for p, cell in zip(paper, row, strict=True)) + "</tr>"
        for row in table.rows
    )
    return _table("numbers", head, rows)


def _table(kind: str, head: str, rows: str) -> str:
    body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    return f'<div class="scroll"><table class="{kind}">{body}</table></div>'
