"""The colour and the line of every method, by its name, and the colours of the plane.

A method looks the same in every figure, on the page and as SVG. A family has a colour: bounded weights are
red to orange, orthogonal weights green, the penalty purple, SGD blue. Dashes mean weight decay, or a variant
of the method that has the colour. All colours have a contrast of at least 3 with a light and with a dark
background.
"""

import zlib
from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["LOOKS", "PLANE", "Look", "Plane", "look"]

_BLUE, _INDIGO, _PURPLE, _MAGENTA = "#2b7cc9", "#6a6fe0", "#9a55d6", "#d0459b"
_RED, _ORANGE, _OCHRE, _BROWN = "#e0403f", "#dd6b10", "#a98200", "#a5663a"
_OLIVE, _GREEN, _EMERALD, _CYAN, _GREY = "#768c17", "#2a9440", "#0b8f83", "#1593b5", "#7b8591"


class Look(NamedTuple):
    """How a method is drawn.

    Attributes:
        colour: of its lines and points.
        dash: of its lines: "solid", "dash" or "dot".
    """

    colour: str
    dash: str = "solid"


LOOKS: dict[str, Look] = {
    "SGD": Look(_BLUE),
    "SGD, WD 1e-5": Look(_CYAN, "dash"),
    "SGD, WD 5e-5": Look(_EMERALD, "dash"),
    "SGD, WD 1e-4": Look(_BLUE, "dash"),
    "SGD, WD 5e-4": Look(_INDIGO, "dash"),
    "SGD, WD 1e-3": Look(_PURPLE, "dash"),
    "SGD, WD 5e-3": Look(_GREY, "dash"),
    "SGD, orthogonal start": Look(_GREY),
    "SGD, penalty λ=0.05": Look(_PURPLE),
    "SGLD τ=5e-5": Look(_EMERALD),
    # bounded weights
    "C-SGD": Look(_ORANGE),
    "C-SGLD τ=1e-6": Look(_OCHRE),
    "C-SGLD τ=5e-6": Look(_BROWN),
    "C-SGLD τ=1e-5": Look(_ORANGE, "dash"),
    "C-SGLD τ=5e-5": Look(_RED),
    "C-SGLD τ=1e-4": Look(_MAGENTA),
    "C-SGLD τ=5e-4": Look(_PURPLE),
    "r₀=0.75": Look(_ORANGE),
    "r₀=1": Look(_RED),  # C-SGLD τ=5e-5 by another name
    "r₀=2": Look(_MAGENTA),
    "r₀=5": Look(_PURPLE),
    "c-CoLud": Look(_RED),
    "c-CoLud, lr 0.3": Look(_ORANGE),
    "c-CoLud, momentum 0.91": Look(_MAGENTA),
    "c-CoLud, r_N=2": Look(_ORANGE, "dash"),
    "c-CoLud 0.2, 0.9, r_N=2": Look(_ORANGE),
    "c-CoLud 0.5, 0.9, r_N=2": Look(_RED, "dash"),
    "c-CoLud 1.0, 0.9, r_N=2": Look(_MAGENTA),
    # orthogonal weights
    "o-CoLod": Look(_GREEN),
    "o-CoLod τ=1e-6": Look(_OLIVE),
    "o-CoLud": Look(_EMERALD),
    "o-CoLud, last layer free": Look(_EMERALD, "dash"),
    "o-CoLud, γ=0.5": Look(_OLIVE),
    # the penalty: a colour for each strength, a dash for each step
    **{
        f"h={h:g}, λ={strength:g}": Look(colour, dash)
        for h, dash in ((0.1, "solid"), (0.05, "dash"), (0.01, "dot"))
        for strength, colour in (
            (0.001, _CYAN),
            (0.005, _EMERALD),
            (0.01, _BLUE),
            (0.05, _PURPLE),
            (0.1, _MAGENTA),
            (0.5, _BROWN),
        )
    },
    "SGD-m, penalty λ=1e-4": Look(_CYAN),
    "SGD-m, penalty λ=1e-3": Look(_BLUE),
    "SGD-m, penalty λ=1e-2": Look(_PURPLE),
    "SGD-m, penalty λ=1e-1": Look(_MAGENTA),
    # SGD with momentum: a colour for each learning rate and momentum, a dash with weight decay
    "SGD-m": Look(_INDIGO),
    "SGD-m, WD 1e-4": Look(_INDIGO, "dot"),
    "SGD-m, WD 5e-4": Look(_INDIGO, "dash"),
    "SGD-m, orthogonal start": Look(_GREY),
    **{
        f"SGD-m {setting}{decay}": Look(colour, dash)
        for decay, dash in (("", "solid"), (", WD 1e-4", "dash"))
        for setting, colour in (
            ("0.05, 0.8", _OLIVE),
            ("0.05, 0.9", _EMERALD),
            ("0.05, 0.95", _BROWN),
            ("0.1, 0.7", _CYAN),
            ("0.1, 0.8", _BLUE),
            ("0.1, 0.9", _INDIGO),
            ("0.2, 0.7", _GREY),
            ("0.2, 0.8", _PURPLE),
            ("0.2, 0.9", _CYAN),
            ("0.5, 0.9", _PURPLE),
            ("1.0, 0.9", _BROWN),
        )
    },
    "SGD-m 0.1, 0.8, WD 5e-5": Look(_BLUE, "dot"),
    "SGD-m 0.1, 0.8, WD 1e-5": Look(_CYAN, "dash"),
    "SGD-m 0.3, 0.74": Look(_EMERALD),
    # a decoder's
    "AdamW": Look(_BLUE),
    "Muon": Look(_INDIGO),
    "Muon on row spheres": Look(_RED),
    "Muon on Frobenius spheres": Look(_ORANGE),
    "Muon on orthogonal weights": Look(_GREEN),
    "Adam on row spheres": Look(_CYAN),
    "SGD-m on row spheres": Look(_OCHRE),
    "SGD-m on orthogonal weights": Look(_OLIVE),
    # samplers of a posterior
    "SGLD": Look(_EMERALD),
    "CoLud BAOAB": Look(_RED),
    "CoLud BAOAB, prior variance 5": Look(_RED, "dash"),
    "CoLud BAOAB, cyclical": Look(_ORANGE),
    "CoLud BAOAB on spheres": Look(_PURPLE),
    # multiples of a learning rate
    "rate × 0.125": Look(_GREEN, "dot"),
    "rate × 0.25": Look(_CYAN, "dash"),
    "rate × 0.5": Look(_BLUE),
    "rate × 1": Look(_PURPLE),
    "rate × 2": Look(_RED),
    "rate × 4": Look(_ORANGE, "dash"),
    "rate × 8": Look(_OCHRE, "dot"),
}

_OTHERS = tuple(
    Look(colour, dash)
    for dash in ("solid", "dash", "dot")
    for colour in (_BLUE, _RED, _GREEN, _PURPLE, _ORANGE, _CYAN, _MAGENTA, _OLIVE, _INDIGO, _BROWN, _EMERALD)
)


def look(method: str) -> Look:
    """How a method is drawn; one that is not in the table gets a look from the letters of its name."""
    return LOOKS.get(method) or _OTHERS[zlib.crc32(method.encode()) % len(_OTHERS)]


@dataclass(frozen=True)
class Plane:
    """Colours of a classifier's plane, on one kind of background.

    Attributes:
        low: where it is sure of the first class.
        middle: where it cannot tell.
        high: where it is sure of the second.
        points: of training points of the first and of the second class.
        outline: around them.
        boundary: of the line where the prediction is one half.
    """

    low: str
    middle: str
    high: str
    points: tuple[str, str]
    outline: str
    boundary: str


PLANE = {
    "light": Plane("#bcd6f2", "#ffffff", "#fbcbb0", ("#0b4a94", "#8f2a06"), "#ffffff", "#3a4149"),
    "dark": Plane("#1c4266", "#20262c", "#64311d", ("#a6d4ff", "#ffba96"), "#0d1013", "#c9d1d8"),
}
