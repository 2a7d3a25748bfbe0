"""Fashion-MNIST: bounded weights in a perceptron with one hidden layer of 1000 units.

Leimkuhler et al. 2021, Figures 7, D5 and Table D2, Appendix D.2.
"""

import math
from dataclasses import replace

from colangevin.experiments.catalogue.baselines import sgd
from colangevin.experiments.catalogue.claims import Claim, Reported
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.paper import comparison
from colangevin.experiments.catalogue.parts import Part
from colangevin.experiments.catalogue.problems import Problem

__all__ = ["FASHION", "GRID"]

PROBLEM = Problem(
    "fashion-mnist", train=10_000, test=60_000, batch=128, depth=1, width=1000, one_data_set=True
)
RADII = (0.05, 0.1)

C_COLUD = Method("c-CoLud", 0.3, "CoLud", friction=1.0, radii=RADII)
#: the same momentum, e^(-γh), with h as SGD's learning rate; in the paper's scale that is h² = 0.3
C_RATE = Method("c-CoLud, lr 0.3", 0.3, "ConstrainedSGD", momentum=math.exp(-0.3), radii=RADII)
SGD = sgd("0.1", "0.8")
DECAYED = tuple(sgd("0.1", "0.8", decay) for decay in ("1e-4", "5e-5", "1e-5"))
_ALL_SGD = (SGD.name, *(method.name for method in DECAYED))


def of_another_reading(method: Method, reading: str, *claims: Claim) -> tuple[Claim, ...]:
    """Claims about c-CoLud, said of another reading of its h."""
    return tuple(replace(claim, reading=reading, method=method.name) for claim in claims)


def both_readings(*claims: Claim) -> tuple[Claim, ...]:
    """Claims about c-CoLud, and the same with h as the learning rate."""
    return *claims, *of_another_reading(C_RATE, "h is the learning rate", *claims)


AHEAD = comparison("fig7.accuracy", C_COLUD.name, (SGD.name,))

FASHION = Experiment(
    name="fashion-mnist",
    title="Fashion-MNIST: bounded weights with momentum",
    covers=("fig7", "figD5"),
    about="One hidden layer of 1000 units, trained on 10,000 images, drawn from all with a fixed seed, and "
    "tested on the other 60,000. Pixels between 0 and 1, 78 batches of 128 an epoch. SGD-m is named by "
    "its learning rate and momentum. c-CoLud has h = 0.3 and γ = 1, and bounds the entries of the first "
    "weight by 0.05 and of the last by 0.1; in SGD's scale its learning rate is h² = 0.09. 'c-CoLud, lr "
    "0.3' reads the paper's h as that learning rate, with the same momentum e^(-γh) = 0.74.",
    parts=(Part("Fashion-MNIST", PROBLEM, (SGD, *DECAYED, C_COLUD, C_RATE)),),
    runs=5,
    epochs=400,
    points=80,
    quick=Quick(runs=1, epochs=2),
    claims=both_readings(
        AHEAD,
        comparison("fig7.decay-accuracy", C_COLUD.name, tuple(method.name for method in DECAYED)),
        comparison("fig7.loss", C_COLUD.name, _ALL_SGD),
        comparison("fig7.overfitting", C_COLUD.name, _ALL_SGD),
        comparison("figD5.weights", C_COLUD.name, (SGD.name,)),
    ),
    reported=(
        Reported(C_COLUD.name, "test accuracy", "87.63 ± 0.04"),
        Reported(C_COLUD.name, "test loss", "0.386"),
        Reported(SGD.name, "test accuracy", "87.39 ± 0.06"),
        Reported(SGD.name, "test loss", "0.824"),
        *(
            Reported(method.name, "test accuracy", text)
            for method, text in zip(DECAYED, ("87.47 ± 0.38", "87.29 ± 0.58", "87.45 ± 0.06"), strict=True)
        ),
        Reported(DECAYED[0].name, "test loss", "0.531"),
    ),
)

#: learning rate, momentum: accuracy and loss without weight decay and with 1e-4, Table D2
_TABLE = {
    ("0.2", "0.8"): ("87.18", "1.06", "84.05", "0.696"),
    ("0.2", "0.7"): ("87.38", "0.890", "87.0", "0.547"),
    ("0.1", "0.9"): ("86.97", "1.133", "85.35", "0.634"),
    ("0.1", "0.8"): ("87.39", "0.824", "87.47", "0.531"),
    ("0.1", "0.7"): ("87.39", "0.750", "87.25", "0.517"),
    ("0.05", "0.95"): ("86.67", "1.226", "85.63", "0.623"),
    ("0.05", "0.9"): ("87.33", "0.837", "86.24", "0.569"),
    ("0.05", "0.8"): ("87.27", "0.719", "87.33", "0.511"),
}
_FREE = tuple(sgd(*options) for options in _TABLE)
_DECAYED = tuple(sgd(*options, "1e-4") for options in _TABLE)

GRID = Experiment(
    name="fashion-mnist-grid",
    title="Fashion-MNIST: the grid of SGD with momentum",
    covers=("tabD2",),
    about="Learning rates and momenta of SGD-m with and without weight decay 1e-4, beside c-CoLud; as in "
    "fashion-mnist.",
    parts=(Part("Fashion-MNIST", PROBLEM, (*_FREE, *_DECAYED, C_COLUD, C_RATE)),),
    runs=5,
    epochs=400,
    points=40,
    quick=Quick(runs=1, epochs=1),
    claims=both_readings(
        comparison("tabD2.accuracy", C_COLUD.name, tuple(method.name for method in _FREE)),
        comparison("tabD2.decay-accuracy", C_COLUD.name, tuple(method.name for method in _DECAYED)),
        comparison("tabD2.loss", C_COLUD.name, tuple(method.name for method in (*_FREE, *_DECAYED))),
    ),
    reported=(
        Reported(C_COLUD.name, "test accuracy", "87.63"),
        Reported(C_COLUD.name, "test loss", "0.386"),
        *(
            Reported(method.name, measure, numbers[i + j])
            for methods, i in ((_FREE, 0), (_DECAYED, 2))
            for method, numbers in zip(methods, _TABLE.values(), strict=True)
            for j, measure in enumerate(("test accuracy", "test loss"))
        ),
    ),
)
