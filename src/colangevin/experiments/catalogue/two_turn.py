"""The 2-turn spiral: bounded weights and noise in a perceptron with one hidden layer of 500 units.

Leimkuhler et al. 2021, Figures 1, 2, 3, D4 and Tables 1, D3, Appendix D.2 and D.3.
"""

from colangevin.experiments.catalogue.claims import Claim, Reported
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
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

FAR_AHEAD = Claim(
    "Figure 1",
    "Constraint and noise together are far more accurate than SGD.",
    "test accuracy",
    C_SGLD.name,
    (SGD.name,),
    "higher",
    "91.7 % against 81 %, one run",
)

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


def _lower_curvature(source: str, text: str, method: str, baseline: str) -> Claim:
    numbers = f"{CURVATURES[method][0]} against {CURVATURES[baseline][0]}"
    return Claim(source, text, "curvature", method, (baseline,), "lower", numbers)


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
        FAR_AHEAD,
        Claim(
            "Figure 1",
            "Weight decay does not make SGD more accurate (to hold, SGD has to be ahead).",
            "test accuracy",
            SGD.name,
            (SGD_WD.name,),
            "higher",
        ),
        Claim(
            "Figure 1",
            "Weight decay gives SGD a steadier test loss.",
            "rise of the test loss",
            SGD_WD.name,
            (SGD.name,),
            "lower",
        ),
        Claim(
            "Figure 1",
            "The constraint alone keeps the test loss steady.",
            "rise of the test loss",
            C_SGD.name,
            (SGD.name,),
            "lower",
        ),
        *(
            Claim(
                "Figure 2",
                f"{method.name.split()[0]} has the better {measure} than SGD with and without weight decay.",
                measure,
                method.name,
                (SGD.name, SGD_WD.name),
                better,  # type: ignore[arg-type]
            )
            for method in (C_SGD, C_SGLD)
            for measure, better in (("test accuracy", "higher"), ("test loss", "lower"))
        ),
        Claim(
            "Figure 3",
            "Transitions between the classes are less sharp with constraint and noise.",
            "sharpest transition",
            C_SGLD.name,
            (SGD.name,),
            "lower",
        ),
        _lower_curvature("Table 1", "Weight decay lowers the curvature.", SGD_WD.name, SGD.name),
        _lower_curvature("Table 1", "The constraint lowers it further.", C_SGD.name, SGD_WD.name),
        _lower_curvature("Table 1", "Noise lowers it further.", SGLD.name, SGD_WD.name),
        _lower_curvature("Table 1", "Both together are below the constraint alone.", C_SGLD.name, C_SGD.name),
        _lower_curvature("Table 1", "Both together are below the noise alone.", C_SGLD.name, SGLD.name),
        *(
            _lower_curvature("Table D3", f"τ = 5e-5 has lower curvature than {other}.", C_SGLD.name, name)
            for other, name in (
                ("τ = 0", C_SGD.name),
                *((f"τ = {t}", c_sgld(t).name) for t in TEMPERATURES if t != "5e-5"),
            )
        ),
        Claim(
            "Figure D4",
            "τ = 5e-5 is the most accurate temperature.",
            "test accuracy",
            C_SGLD.name,
            (C_SGD.name, *(c_sgld(t).name for t in TEMPERATURES if t != "5e-5")),
            "higher",
        ),
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
