"""The 2-turn spiral, for what the paper leaves open: bounds, a search for the weight decay, the protocol."""

import itertools
from dataclasses import replace
from typing import Any

from colangevin.experiments.catalogue.claims import Reported
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.paper import comparison
from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.catalogue.two_turn import (
    AHEAD,
    C_SGD,
    C_SGLD,
    PROBLEM,
    RADII,
    SGD,
    SGD_WD,
    SGLD,
    H,
)

__all__ = ["DECAY", "PROTOCOLS", "RADIUS"]

_RADII = (0.75, 1.0, 2.0, 5.0)

RADIUS = Experiment(
    name="two-turn-radius",
    title="2-turn spiral: the bound sets how sharp transitions are",
    covers=("fig3-left",),
    about="C-SGLD with τ = 5e-5 as in two-turn, with several bounds on the first weight. The paper does not"
    " print which it used; 0.75 is about the smallest that torch's initial weights, up to 0.71, "
    "satisfy.",
    parts=(
        Part(
            "bounds",
            PROBLEM,
            tuple(Method(f"r₀={r:g}", H, temperature=5e-5, radii=(r, RADII[1])) for r in _RADII),
        ),
    ),
    runs=100,
    epochs=10_000,
    plane="curvature",
    quick=Quick(runs=3, epochs=300),
    claims=tuple(
        comparison("fig3.bound", f"r₀={small:g}", (f"r₀={large:g}",))
        for small, large in itertools.pairwise(_RADII)
    ),
)

_DECAYS = ("1e-5", "5e-5", "1e-4", "5e-4", "1e-3", "5e-3")

DECAY = Experiment(
    name="two-turn-decay",
    title="2-turn spiral: the search for SGD's weight decay",
    covers=("fig2-search",),
    about="The paper chose weight decay 1e-4 by a line search; this is one, with C-SGLD beside it.",
    parts=(
        Part(
            "weight decay",
            PROBLEM,
            (SGD, *(Method(f"SGD, WD {w}", H, weight_decay=float(w)) for w in _DECAYS), C_SGLD),
        ),
    ),
    runs=100,
    epochs=10_000,
    plane="curvature",
    quick=Quick(runs=3, epochs=300),
    claims=(
        comparison(
            "fig1.accuracy",
            C_SGLD.name,
            (SGD.name, *(f"SGD, WD {w}" for w in _DECAYS)),
            reading="weight decay searched for",
        ),
    ),
)


def _protocol(name: str, **changes: Any) -> Part:
    return Part(name, replace(PROBLEM, **changes), (SGD, SGD_WD, SGLD, C_SGD, C_SGLD))


_PROTOCOLS = (
    _protocol("plain reading"),
    _protocol("one data set", one_data_set=True),
    _protocol("epoch is one step", steps=1),
    _protocol("summed loss", reduction="sum"),
    _protocol("one data set, epoch is one step", one_data_set=True, steps=1),
    _protocol("epoch is one step, summed loss", steps=1, reduction="sum"),
)

PROTOCOLS = Experiment(
    name="two-turn-protocols",
    title="2-turn spiral: which protocol gives the paper's numbers",
    covers=("fig1-protocols",),
    about="The paper's text leaves open whether runs share a data set, whether an epoch is a pass over the "
    "data or one step, and whether the loss is a mean or a sum. Each is tried.",
    parts=_PROTOCOLS,
    runs=100,
    epochs=10_000,
    quick=Quick(runs=3, epochs=300),
    claims=tuple(replace(AHEAD, part=part.name) for part in _PROTOCOLS),
    reported=tuple(
        Reported(method, "test accuracy", text, part.name)
        for part in _PROTOCOLS
        for method, text in ((SGD.name, "81 (one run)"), (C_SGLD.name, "91.7 (one run)"))
    ),
)
