"""A report on a folder of results: one page to look at, the same tables as Markdown, figures as SVG."""

from pathlib import Path

from colangevin.experiments.report import figures, page, tables
from colangevin.experiments.report.results import load
from colangevin.experiments.store import write_atomically

__all__ = ["write"]


def write(folder: Path) -> Path:
    """Write ``report.html``, ``report.md`` and ``figures/*.svg`` into a folder of results.

    Args:
        folder: of results, as ``colangevin run`` leaves it.

    Returns:
        The path of the page.
    """
    results = load(folder)
    pictures = figures.draw(results)
    (folder / "figures").mkdir(exist_ok=True)
    for name, svg in pictures.items():
        write_atomically(folder / "figures" / name, svg)
    write_atomically(folder / "report.md", tables.markdown(results, list(pictures)).encode())
    path = folder / "report.html"
    write_atomically(path, page.html(results, folder).encode())
    return path
