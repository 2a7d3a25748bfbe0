"""The 2-turn spiral: bounded weights and noise in a perceptron with one hidden layer of 500 units.

Leimkuhler et al. 2021, Figures 1, 2, 3, D4 and Tables 1, D3, Appendix D.2 and D.3.
"""

from colangevin.experiments.catalogue.claims import Reported
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.paper import comparison
from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.catalogue.problems import Problem

__all__ = ["SPIRAL"]

H = 0.05
RADII = (1.0, 5.0)
PROBLEM = Problem("two-turn", train=100, test=2000, batch=2, depth=1, width=500)

SGD = Method("SGD", H)
SGD_WD = Method("SGD, WD 1e-4", H, weight_decay=1e-4)
SGLD = Method("SGLD τ=5e-5", H, temperature=5e-5)
C_SGD = Method("C-SGD", H, radii=RADII)


def c_sgld(temperature: str) -> Method:
    """Bounded weights with noise."""
    return Method(f"C-SGLD τ={temperature}", H, temperature=float(temperature), radii=RADII)


TEMPERATURES = ("1e-6", "5e-6", "1e-5", "5e-5", "1e-4", "5e-4")
C_SGLD = c_sgld("5e-5")
_OTHER_TEMPERATURES = (C_SGD.name, *(c_sgld(t).name for t in TEMPERATURES if t != "5e-5"))

_PLAIN = (SGD.name, SGD_WD.name)
AHEAD = comparison("fig1.accuracy", C_SGLD.name, _PLAIN)

#: mean, standard deviation and maximum of the curvature, Tables 1 and D3
CURVATURES = {
    "SGD": ("519", "4.33e4", "3.26e8"),
    "SGD, WD 1e-4": ("51.1", "3.80e3", "1.14e7"),
    "C-SGD": ("9.38", "317", "5.58e5"),
    "SGLD τ=5e-5": ("8.73", "189", "6.27e5"),
    "C-SGLD τ=1e-6": ("9.01", "273", "1.63e6"),
    "C-SGLD τ=5e-6": ("7.75", "166", "5.86e5"),
    "C-SGLD τ=1e-5": ("7.06", "108", "4.06e5"),
    "C-SGLD τ=5e-5": ("6.08", "40.8", "1.43e5"),
    "C-SGLD τ=1e-4": ("7.62", "178", "9.47e5"),
    "C-SGLD τ=5e-4": ("15.9", "850", "5.07e6"),
}


SPIRAL = Experiment(
    name="two-turn",
    title="2-turn spiral: bounded weights and noise",
    covers=("fig1", "fig2", "fig3", "figD4", "tab1", "tabD3"),
    about="Single hidden layer of 500 units on 100 points of a 2-turn spiral, h = 0.05, batches of 2. Every"
    " run draws its own data; all methods of a run share data, batches and initial weights. The "
    "constrained methods bound the entries of the first weight by 1 and of the last by 5. The "
    "curvature is that of the contour where the prediction is one half, on a grid of 1000 by 1000 "
    "points.",
    parts=(Part("2-turn spiral", PROBLEM, (SGD, SGD_WD, SGLD, C_SGD, *map(c_sgld, TEMPERATURES))),),
    runs=100,
    epochs=10_000,
    plane="curvature",
    quick=Quick(runs=3, epochs=300),
    claims=(
        AHEAD,
        comparison("fig1.decay-accuracy", SGD.name, (SGD_WD.name,)),
        comparison("fig1.decay-loss", SGD_WD.name, (SGD.name,)),
        comparison("fig1.constraint-loss", C_SGD.name, (SGD.name,)),
        comparison("fig2.constraint-accuracy", C_SGD.name, _PLAIN),
        comparison("fig2.constraint-loss", C_SGD.name, _PLAIN),
        comparison("fig2.loss", C_SGLD.name, _PLAIN),
        comparison("fig3.transitions", C_SGLD.name, (SGD.name,)),
        comparison("tab1.decay", SGD_WD.name, (SGD.name,)),
        comparison("tab1.constraint", C_SGD.name, (SGD_WD.name,)),
        comparison("tab1.noise", SGLD.name, (SGD_WD.name,)),
        comparison("tab1.both", C_SGLD.name, (SGD_WD.name,)),
        comparison("tab1.both-constraint", C_SGLD.name, (C_SGD.name,)),
        comparison("tab1.both-noise", C_SGLD.name, (SGLD.name,)),
        comparison("tabD3.temperature", C_SGLD.name, _OTHER_TEMPERATURES),
        comparison("figD4.temperature", C_SGLD.name, _OTHER_TEMPERATURES),
    ),
    reported=(
        Reported(SGD.name, "test accuracy", "81 (one run)"),
        Reported(C_SGLD.name, "test accuracy", "91.7 (one run)"),
        *(
            Reported(method, measure, text)
            for method, numbers in CURVATURES.items()
            for measure, text in zip(("curvature", "curvature std", "curvature max"), numbers, strict=True)
        ),
    ),
)
