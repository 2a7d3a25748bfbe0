"""The decoder at several learning rates: the best of every method, and how it changes with the width."""

from collections.abc import Sequence
from dataclasses import replace

from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.parts import NetworkPart
from colangevin.experiments.catalogue.source_code import (
    ADAM_ROWS,
    ADAMW,
    DECODER,
    FROBENIUS,
    METHODS,
    MUON,
    ORTHOGONAL,
    PROBLEM,
    QUICK,
    ROWS,
    SGD_ORTHOGONAL,
    SGD_ROWS,
    TEXT,
)

__all__ = ["SEARCH", "WIDTHS"]


def _at_rates(method: Method, rates: Sequence[float]) -> tuple[Method, ...]:
    """The same method at several learning rates, which its names say."""
    return tuple(replace(method, name=f"{method.name}, rate {rate:g}", lr=rate) for rate in rates)


_ANGLES = (0.01, 0.02, 0.04, 0.08)
_SEARCHED = {
    ADAMW: (1e-3, 2e-3, 4e-3, 8e-3),
    MUON: _ANGLES,
    ROWS: _ANGLES,
    FROBENIUS: _ANGLES,
    ORTHOGONAL: _ANGLES,
    ADAM_ROWS: (5e-4, 1e-3, 2e-3, 4e-3),
    SGD_ROWS: (0.3, 1.0, 3.0, 10.0),
    SGD_ORTHOGONAL: (0.3, 1.0, 3.0, 10.0),
}
_METHODS = {method: _at_rates(method, _SEARCHED[method]) for method in METHODS}


def _claims(
    method: Method, found: dict[Method, tuple[Method, ...]], part: str | None = None
) -> tuple[Claim, ...]:
    """That a method at each of its rates is below the best of AdamW."""
    return tuple(
        Claim(
            "not in the paper",
            f"{each.name} is below AdamW at its best.",
            "validation bits",
            each.name,
            tuple(one.name for one in found[ADAMW]),
            "lower",
            part=part,
        )
        for each in found[method]
    )


SEARCH = replace(
    DECODER,
    name="decoder-search",
    title="Decoder on C sources: the search for the learning rates",
    covers=("decoder-rates",),
    about="As decoder, but for 400 steps: every method at four learning rates, one run each, on another seed "
    "than decoder's. The rates of Muon on spheres and on orthogonal weights are angles.",
    parts=(NetworkPart(TEXT, PROBLEM, tuple(each for rates in _METHODS.values() for each in rates)),),
    runs=1,
    epochs=50,
    points=5,
    seed=0,
    quick=replace(QUICK, epochs=6),
    claims=_claims(ROWS, _METHODS),
)

_GRIDS = {
    ADAMW: (5e-4, 1e-3, 2e-3, 4e-3, 8e-3),
    MUON: (0.005, 0.01, 0.02, 0.04, 0.08),
    ROWS: (0.005, 0.01, 0.02, 0.04, 0.08),
    FROBENIUS: (0.005, 0.01, 0.02, 0.04, 0.08),
    ADAM_ROWS: (2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3),
}
_GRID = {method: _at_rates(method, rates) for method, rates in _GRIDS.items()}
_WIDTHS = {f"{width} wide": replace(PROBLEM, width=width, heads=width // 64) for width in (256, 512, 1024)}

WIDTHS = Experiment(
    name="decoder-widths",
    title="Decoder on C sources: how the best learning rate changes with the width",
    covers=("decoder-transfer",),
    about="As decoder, at three widths for 400 steps, with heads of 64 at every width. Every method at five "
    "learning rates by factors of two, one run each. If a method's rates transfer, its best is the same at "
    "every width.",
    parts=tuple(
        NetworkPart(name, problem, tuple(each for rates in _GRID.values() for each in rates))
        for name, problem in _WIDTHS.items()
    ),
    runs=1,
    epochs=50,
    points=5,
    quick=replace(
        QUICK,
        epochs=2,
        parts=("256 wide",),
        sizes=(
            *(("data", "python"), ("batch", 4), ("length", 64), ("steps", 4), ("held_out", 4096)),
            ("layers", 1),
        ),
    ),
    claims=tuple(claim for name in _WIDTHS for claim in _claims(ROWS, _GRID, name)),
)
