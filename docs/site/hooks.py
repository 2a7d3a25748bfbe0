"""What mkdocs does besides: formulas as MathML, the report as a page, room for pages that stand alone."""

import html
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from colangevin.experiments.report import page
from colangevin.experiments.report.results import load

_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
_RESULTS = Path(__file__).parents[2] / "results"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Leave the column on the left to the text, on pages whose only entry there would be themselves."""
    if page.parent is None:
        page.meta.setdefault("hide", ["navigation"])
    return markdown


def on_page_content(content: str, **_: Any) -> str:
    """Turn every formula into MathML, which browsers draw without a script and without a network."""

    def mathml(found: re.Match[str]) -> str:
        display = "block" if found["tag"] == "div" else "inline"
        return convert(html.unescape(found["tex"]).strip(), display=display)

    return _FORMULA.sub(mathml, content)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the report of the stored results, so that pages can link to it."""
    report = page.html(load(_RESULTS), Path("results"))
    files.append(File.generated(config, "report.html", content=report))
    return files
