"""The 4-turn spiral: orthogonal weights in perceptrons with many hidden layers of 100 units.

Leimkuhler et al. 2021, Figures 4, 5, D2, Appendix D.1.
"""

from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.paper import comparison
from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.catalogue.problems import Problem

__all__ = ["DEPTH", "DEPTHS", "PENALTY"]

H = 0.1
DEPTHS = (2, 3, 4, 5, 6, 7, 8)

SGD = Method("SGD", H)
START = Method("SGD, orthogonal start", H, square="orthogonal start")
SOFT = Method("SGD, penalty λ=0.05", H, penalty=0.05)
COLOD = Method("o-CoLod", H, square="orthogonal")
WARM = Method("o-CoLod τ=1e-6", H, square="orthogonal", temperature=1e-6)


def _problem(depth: int) -> Problem:
    return Problem("four-turn", train=500, test=1000, batch=25, depth=depth, width=100)


def _layers(depth: int) -> str:
    return f"{depth} hidden layers"


DEPTH = Experiment(
    name="four-turn",
    title="4-turn spiral: orthogonal weights in deep perceptrons",
    covers=("fig4", "figD2"),
    about="Perceptrons with 2 to 8 hidden layers of 100 units on 500 points of a 4-turn spiral, h = 0.1, "
    "batches of 25. Weights from one hidden layer to the next are orthogonal (o-CoLod), pushed "
    "towards it by the penalty λ Σ ‖WᵀW − I‖², started there, or left alone. All methods of a run "
    "share data, batches and, where they can, initial weights.",
    parts=tuple(Part(_layers(p), _problem(p), (SGD, START, SOFT, COLOD, WARM)) for p in DEPTHS),
    runs=10,
    epochs=2000,
    plane="pictures",
    # The deepest: there the methods differ most, and soonest.
    quick=Quick(runs=2, epochs=600, parts=(_layers(8),)),
    claims=(
        *(
            comparison("fig4.accuracy", COLOD.name, (SGD.name, START.name, SOFT.name), part=_layers(p))
            for p in DEPTHS
            if p > 3
        ),
        *(
            comparison(key, WARM.name, (COLOD.name,), part=_layers(p))
            for key in ("figD2.speed", "figD2.accuracy")
            for p in DEPTHS
        ),
    ),
)

_STEPS = (0.1, 0.05, 0.01)
_PENALTIES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5)
_PENALTY_DEPTHS = (3, 4, 6, 8)


def _soft(h: float, strength: float) -> Method:
    return Method(f"h={h:g}, λ={strength:g}", h, penalty=strength)


PENALTY = Experiment(
    name="four-turn-penalty",
    title="4-turn spiral: the penalty is stiff",
    covers=("fig5",),
    about="SGD with the orthogonality penalty over a grid of step sizes h and strengths λ, beside o-CoLod "
    "with h = 0.1. The paper does not print its grid. Runs that leave the finite numbers stay where "
    "they were and are counted.",
    parts=tuple(
        Part(_layers(p), _problem(p), (*(_soft(h, s) for h in _STEPS for s in _PENALTIES), COLOD))
        for p in _PENALTY_DEPTHS
    ),
    runs=10,
    epochs=2000,
    quick=Quick(runs=2, epochs=100, parts=(_layers(4),)),
    claims=(
        *(
            comparison(
                "fig5.best",
                COLOD.name,
                tuple(_soft(h, s).name for h in _STEPS for s in _PENALTIES),
                part=_layers(p),
            )
            for p in _PENALTY_DEPTHS
        ),
        *(
            comparison("fig5.step", _soft(0.01, 0.5).name, (_soft(0.1, 0.5).name,), part=_layers(p))
            for p in _PENALTY_DEPTHS
        ),
    ),
)
