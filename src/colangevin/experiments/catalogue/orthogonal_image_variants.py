"""ResNet-34 beside its main experiments: the penalty's strength, no momentum, the time of a step."""

from dataclasses import replace

from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.experiment import Experiment
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.orthogonal_images import (
    COLUD,
    DECAYED,
    LR,
    PRINTED,
    PROBLEM,
    QUICK,
    SGD,
    SOFT,
    soft,
)
from colangevin.experiments.catalogue.paper import comparison
from colangevin.experiments.catalogue.parts import NetworkPart

__all__ = ["OVERDAMPED", "PENALTY", "TIME"]

STRENGTHS = ("1e-4", "1e-3", "1e-2", "1e-1")


PENALTY = Experiment(
    name="resnet34-penalty",
    title="ResNet-34 on CIFAR-10: the search for the penalty's strength",
    covers=("fig6-search",),
    about="SGD-m with the orthogonality penalty λ Σ ‖WᵀW − I‖² on all weights but the first, on "
    "20,000 images and 24 epochs, beside o-CoLud. As resnet34 otherwise.",
    parts=(NetworkPart("20,000 images", replace(PROBLEM, train=20_000), (*map(soft, STRENGTHS), COLUD)),),
    runs=2,
    epochs=24,
    points=24,
    quick=QUICK,
    claims=(
        Claim(
            "not in the paper",
            "o-CoLud is more accurate than the penalty at its best strength.",
            "test accuracy",
            COLUD.name,
            tuple(soft(strength).name for strength in STRENGTHS),
            "higher",
        ),
    ),
)

PLAIN = Method("SGD", LR)
COLOD = Method("o-CoLod", LR, square="orthogonal")

OVERDAMPED = Experiment(
    name="resnet34-overdamped",
    title="ResNet-34 on CIFAR-10: orthogonal kernels without momentum",
    covers=("figD3",),
    about="SGD without momentum and o-CoLod at h = 0.1, which does not change; as resnet34 otherwise.",
    parts=(NetworkPart("CIFAR-10", replace(PROBLEM, stages=1), (PLAIN, COLOD)),),
    runs=5,
    epochs=150,
    points=150,
    quick=QUICK,
    claims=(
        comparison("figD3.accuracy", COLOD.name, (PLAIN.name,)),
        comparison("figD3.overfitting", COLOD.name, (PLAIN.name,)),
        comparison("figD3.loss", COLOD.name, (PLAIN.name,)),
    ),
)

TIME = Experiment(
    name="resnet34-time",
    title="ResNet-34 on CIFAR-10: what a step costs",
    covers=("fig6-time",),
    about="Three epochs of each method, for the time of a step alone: the median over all epochs but the "
    "first. The methods take turns, five times, since the first trainings of a process may be faster than "
    "later ones. Processes side by side slow each other, so run nothing else meanwhile.",
    parts=(NetworkPart("CIFAR-10", PROBLEM, (SGD, DECAYED, SOFT, COLUD, PRINTED, COLOD)),),
    runs=5,
    epochs=3,
    points=3,
    quick=replace(QUICK, sizes=(("train", 192), *QUICK.sizes[1:])),
    claims=(
        Claim(
            "not in the paper",
            "A step of o-CoLud takes longer than one of SGD-m; the ratio says how much.",
            "time per step",
            COLUD.name,
            (SGD.name,),
            "higher",
        ),
    ),
)
