"""A report on a folder of results: one page to look at, the same tables as Markdown, figures as SVG."""

from pathlib import Path

from colangevin.experiments.report import figures, page
from colangevin.experiments.report.headline import headline
from colangevin.experiments.report.markdown import markdown
from colangevin.experiments.report.results import load
from colangevin.experiments.storage.disk import StoreError, write_atomically

__all__ = ["headlines", "write"]


def write(folder: Path) -> Path:
    """Write ``report.html``, ``report.md`` and ``figures/*.svg`` into a folder of results.

    Args:
        folder: of results, as ``colangevin run`` leaves it.

    Returns:
        The path of the page.

    Raises:
        StoreError: when there is nothing to report on, or what is there is damaged or cannot be written to.
    """
    results = load(folder)
    drawn = _figures_folder(folder)
    pictures = figures.draw(results)
    for name, svg in pictures.items():
        write_atomically(drawn / name, svg)
    write_atomically(folder / "report.md", markdown(results, list(pictures)).encode())
    path = folder / "report.html"
    write_atomically(path, page.html(results, folder).encode())
    return path


def headlines(folder: Path) -> list[str]:
    """What every experiment of a folder came to, each in two lines."""
    return list(map(headline, load(folder)))


def _figures_folder(folder: Path) -> Path:
    """Where the figures go: into the folder of results itself, wherever a link there may lead."""
    path = folder / "figures"
    if path.is_symlink():
        raise StoreError(f"{path} is a link, and figures are written into the folder itself. Move it away.")
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"Could not make the folder {path} ({error.strerror or error}). Move what is there away, or make "
            f"{folder} writable."
        ) from error
    return path
