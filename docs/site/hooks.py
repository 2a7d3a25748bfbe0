"""What mkdocs does besides: formulas as MathML, and the report of the stored results as a page."""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

from colangevin.experiments.report import page
from colangevin.experiments.report.results import load

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
_RESULTS = Path(__file__).parents[2] / "results"


def on_page_content(content: str, **_: Any) -> str:
    """Turn every formula into MathML, which browsers draw without a script and without a network."""

    def mathml(found: re.Match[str]) -> str:
        display = "block" if found["tag"] == "div" else "inline"
        return convert(html.unescape(found["tex"]).strip(), display=display)

    return _FORMULA.sub(mathml, content)


def on_post_build(config: Any) -> None:
    """Write the report of the stored results into the site."""
    report = page.html(load(_RESULTS), Path("results"))
    (Path(config.site_dir) / "report.html").write_text(report, encoding="utf-8")
