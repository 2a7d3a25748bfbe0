"""Figures of the tutorials: drawn in the reader's own colours, light or dark."""

import io
from itertools import count

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["INK", "axes", "svg"]

#: What matplotlib draws in this colour takes the colour of the page's text.
INK = "#010203"
#: Both are readable on white and on dark grey.
_COLOURS = ["#e8590c", "#4c8bf5", "#2b9a66", "#b355d4", "#c29200", "#8d8d8d"]

_STYLE = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.prop_cycle": matplotlib.cycler(color=_COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "font.size": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}
plt.rcParams.update(_STYLE)  # before a legend or a title is made, anywhere
_numbers = count()


def axes(columns: int = 1, *, height: float = 2.9) -> list[Axes]:
    """Axes side by side in a new figure.

    Args:
        columns: how many.
        height: of the figure, in inches; it is 7 wide.

    Returns:
        The axes, from left to right.
    """
    figure = plt.figure(figsize=(7, height))
    return [figure.add_subplot(1, columns, 1 + number) for number in range(columns)]


def svg(figure: Figure, says: str) -> str:
    """A figure as a part of the page: ``print(svg(figure, "…"))`` in a block with ``html="true"``.

    Args:
        figure: by matplotlib.
        says: what there is to see; it is the caption.

    Returns:
        HTML.
    """
    drawn = io.StringIO()
    # Names inside of one page must differ between its figures.
    with matplotlib.rc_context({"svg.hashsalt": f"figure {next(_numbers)}"}):
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    text = drawn.getvalue()
    picture = text[text.index("<svg") :].replace(INK, "currentColor")
    return f"<figure>{picture}<figcaption>{says}</figcaption></figure>"
