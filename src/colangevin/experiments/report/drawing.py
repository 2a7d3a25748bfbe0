"""What all figures of a report share: style, lines and bands, a legend, and the way to bytes."""

import io
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from colangevin.experiments.report.colours import look

__all__ = ["STYLE", "band", "legend", "line", "logarithmic", "plain", "point", "svg"]

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "colangevin",  # a fixed salt: the same figure gives the same bytes
    "svg.fonttype": "none",  # text as text
    "font.sans-serif": ["DejaVu Sans", "Verdana"],  # every piece of text repeats this list
    "savefig.dpi": 100,  # of what is rasterized
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
# A wider axis of logarithms has ticks at powers of ten alone.
_FEW_DECADES = 2.0


def line(method: str) -> dict[str, Any]:
    """How matplotlib draws and names the line of a method."""
    drawn = look(method)
    return {"color": drawn.colour, "linestyle": _DASHES[drawn.dash], "label": plain(method)}


def point(method: str) -> dict[str, Any]:
    """How matplotlib draws the points of a method: those of dashed or dotted lines differ too."""
    drawn = look(method)
    return {
        "marker": "X" if drawn.dash == "dot" else "o",
        "markerfacecolor": "none" if drawn.dash == "dash" else drawn.colour,
        "markeredgecolor": drawn.colour,
    }


def band(axes: Axes, x: Any, low: Any, high: Any, method: str) -> None:
    """Shade what lies between two curves of a method."""
    axes.fill_between(x, low, high, color=look(method).colour, alpha=0.18, linewidth=0)


def logarithmic(axes: Axes, values: Any) -> None:
    """A logarithmic y axis with numbers that can be read: 0.2 rather than 2 × 10⁻¹.

    Args:
        axes: whose y axis it is.
        values: that it shows.
    """
    axes.set_yscale("log")
    shown = values[np.isfinite(values) & (values > 0)]
    decades = float(np.log10(shown.max() / shown.min())) if len(shown) else 0.0
    steps = (1.0,) if decades > _FEW_DECADES else (1.0, 2.0, 5.0)
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def svg(figure: Figure, **metadata: str) -> bytes:
    """A figure as SVG; the same figure gives the same bytes.

    Args:
        figure: the figure.
        metadata: of the file, as ``Title`` and ``Description``.

    Returns:
        The bytes of the file.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, **metadata})
    return buffer.getvalue()


def plain(text: str) -> str:
    """Text without the dollar signs that matplotlib takes for the ends of a formula."""
    return text.replace("$", r"\$")


def legend(figure: Figure) -> Legend:
    """All methods below the plots, as many in a row as there is room for."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    widest = 0.6 + 0.08 * max(map(len, labels))  # inches, with the line before it
    columns = max(1, min(len(labels), int(figure.get_figwidth() / widest)))
    return figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
