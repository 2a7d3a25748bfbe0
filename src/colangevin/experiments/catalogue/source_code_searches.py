"""The decoder at several learning rates: the best of every method, and whether it changes with the width."""

from dataclasses import replace

from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.parts import NetworkPart
from colangevin.experiments.catalogue.source_code import (
    ADAM_ROWS,
    ADAMW,
    FROBENIUS,
    METHODS,
    MUON,
    ORTHOGONAL,
    PROBLEM,
    QUICK,
    ROWS,
    SGD_ORTHOGONAL,
    SGD_ROWS,
)

__all__ = ["SEARCH"]

# Where the search of each method begins, and the multiples of it that can be tried.
_MIDDLE = {
    ADAMW: 2e-3,
    MUON: 0.04,
    ROWS: 0.08,
    FROBENIUS: 0.08,
    ORTHOGONAL: 0.02,
    ADAM_ROWS: 2e-3,
    SGD_ROWS: 0.5,
    SGD_ORTHOGONAL: 0.5,
}
_FACTORS = (0.125, 0.25, 0.5, 1, 2, 4, 8)
# The width of decoder, at which every method is searched, and those at which only these are.
_WIDTH, _OTHER_WIDTHS = PROBLEM.width, (256, 1024)
_TRANSFERRED = (ADAMW, MUON, ROWS, FROBENIUS)


def _name(factor: float) -> str:
    return f"rate × {factor:g}"


def _rates(method: Method, width: int) -> NetworkPart:
    """A method at all learning rates, with heads of 64 at every width."""
    middle = _MIDDLE[method]
    return NetworkPart(
        f"{method.name}, {width} wide",
        replace(PROBLEM, width=width, heads=width // 64),
        tuple(replace(method, name=_name(factor), lr=factor * middle) for factor in _FACTORS),
    )


def _claim(method: Method, width: int) -> Claim:
    """That the best learning rate at decoder's width is the best at another one."""
    part = _rates(method, width)
    best = _name(method.lr / _MIDDLE[method])
    return Claim(
        "not in the paper",
        f"The learning rate that is best at width {_WIDTH} is the best, {part.name}.",
        "validation bits",
        best,
        tuple(each.name for each in part.methods if each.name != best),
        "lower",
        part=part.name,
    )


SEARCH = Experiment(
    name="decoder-search",
    title="Decoder on C sources: the search for the learning rates, at three widths",
    covers=("decoder-rates", "decoder-widths"),
    about="As decoder, but for 300 steps and on another seed, one run each: every method at learning rates a "
    "factor of two apart. The search of a method begins at 0.002 for AdamW and Adam on spheres, 0.04 for "
    "Muon, 0.08 for Muon on spheres, 0.02 on orthogonal weights (both angles) and 0.5 for SGD-m. Where rates "
    "are missing, the rate was doubled and halved from there only until the validation loss rose. AdamW, "
    "Muon and Muon on spheres are searched at widths of 256 and 1,024 too, from the best rate at 512 on, "
    "with heads of 64 at every width: if rates transfer, the best is the same at every width.",
    parts=(
        *(_rates(method, _WIDTH) for method in METHODS),
        *(_rates(method, width) for method in _TRANSFERRED for width in _OTHER_WIDTHS),
    ),
    runs=1,
    epochs=30,
    points=2,
    quick=replace(
        QUICK,
        epochs=2,
        parts=tuple(f"{method.name}, 256 wide" for method in _TRANSFERRED),
        sizes=(
            *(("data", "python"), ("batch", 4), ("length", 64), ("steps", 2), ("held_out", 4096)),
            ("layers", 1),
        ),
    ),
    claims=tuple(_claim(method, width) for method in _TRANSFERRED for width in _OTHER_WIDTHS),
)
