"""What all figures of a report share: colours, style, a legend, and the way to bytes."""

import io
from typing import Any

from matplotlib.figure import Figure

__all__ = ["COLOURS", "STYLE", "colour", "legend", "plain", "svg"]

#: of methods, in their order; colour-blind readers tell them apart on white and on black
COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee",
    "#aa3377", "#ee8866", "#44bb99", "#99aa33", "#8899bb",
)  # fmt: skip

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "colangevin",  # a fixed salt: the same figure gives the same bytes
    "svg.fonttype": "none",  # text as text
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # every piece of text repeats this list
    "savefig.dpi": 72,  # of what is rasterized
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def colour(number: int) -> str:
    """The colour of a method, by its number."""
    return COLOURS[number % len(COLOURS)]


def svg(figure: Figure) -> bytes:
    """A figure as SVG; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def plain(text: str) -> str:
    """Text without the dollar signs that matplotlib takes for the ends of a formula."""
    return text.replace("$", r"\$")


def legend(figure: Figure) -> None:
    """All methods below the plots, as many in a row as there is room for."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    widest = 0.5 + 0.075 * max(map(len, labels))  # inches, with the line before it
    columns = max(1, min(len(labels), int(figure.get_figwidth() / widest)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
