"""The decoder at several learning rates: the best of every method, and whether it changes with the width."""

from collections.abc import Sequence
from dataclasses import replace

from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.parts import NetworkPart
from colangevin.experiments.catalogue.problems import ByteProblem
from colangevin.experiments.catalogue.source_code import (
    ADAM_ROWS,
    ADAMW,
    FROBENIUS,
    METHODS,
    MUON,
    PROBLEM,
    QUICK,
    ROWS,
    SGD_ORTHOGONAL,
    SGD_ROWS,
)

__all__ = ["SEARCH", "WIDTHS"]


def _name(factor: float) -> str:
    return f"rate × {factor:g}"


def _rates(name: str, problem: ByteProblem, method: Method, factors: Sequence[float]) -> NetworkPart:
    """A method at several multiples of its learning rate."""
    each = (replace(method, name=_name(factor), lr=factor * method.lr) for factor in factors)
    return NetworkPart(name, problem, tuple(each))


def _claims(parts: Sequence[NetworkPart], text: str) -> tuple[Claim, ...]:
    """That the learning rate itself is the best of its multiples, in every part."""
    return tuple(
        Claim(
            "not in the paper",
            f"{text}, {part.name}.",
            "validation bits",
            _name(1),
            tuple(method.name for method in part.methods if method.name != _name(1)),
            "lower",
            part=part.name,
        )
        for part in parts
    )


_FACTORS = (0.25, 0.5, 1, 2, 4)
_SEARCHED = {method: method.lr for method in METHODS} | {
    ADAMW: 2e-3,
    MUON: 0.02,
    ROWS: 0.02,
    FROBENIUS: 0.02,
    ADAM_ROWS: 1e-3,
    SGD_ROWS: 0.5,
    SGD_ORTHOGONAL: 0.5,
}
_SEARCH = tuple(
    _rates(method.name, PROBLEM, replace(method, lr=lr), _FACTORS) for method, lr in _SEARCHED.items()
)

SEARCH = Experiment(
    name="decoder-search",
    title="Decoder on C sources: the search for the learning rates",
    covers=("decoder-rates",),
    about="As decoder, but for 300 steps: every method at five learning rates, one run each, on another seed "
    "than decoder's. They are multiples of 0.002 for AdamW, 0.02 for Muon (an angle where it is "
    "constrained), 0.001 for Adam on spheres and 0.5 for SGD-m. Where some are missing, the rate was doubled "
    "or halved from there only until the validation loss rose.",
    parts=_SEARCH,
    runs=1,
    epochs=30,
    points=2,
    quick=replace(QUICK, epochs=5),
    claims=_claims(_SEARCH, "The rate in the middle is the best of five"),
)

_WIDTHS = tuple(
    _rates(f"{method.name}, {width} wide", replace(PROBLEM, width=width, heads=width // 64), method, _FACTORS)
    for method in (ADAMW, MUON, ROWS, FROBENIUS, ADAM_ROWS)
    for width in (256, 512, 1024)
)

WIDTHS = Experiment(
    name="decoder-widths",
    title="Decoder on C sources: whether the best learning rate changes with the width",
    covers=("decoder-transfer",),
    about="As decoder, at three widths for 400 steps, with heads of 64 at every width. Every method at five "
    "learning rates by factors of two, one run each; in the middle is decoder's rate, the best at width 512 "
    "in decoder-search. If a method's rates transfer, the best is the same at every width.",
    parts=_WIDTHS,
    runs=1,
    epochs=40,
    points=2,
    quick=replace(
        QUICK,
        epochs=2,
        parts=tuple(part.name for part in _WIDTHS if part.problem.width == 256),
        sizes=(
            *(("data", "python"), ("batch", 4), ("length", 64), ("steps", 2), ("held_out", 4096)),
            ("layers", 1),
        ),
    ),
    claims=_claims(_WIDTHS, "The best rate at width 512 is the best of five"),
)
