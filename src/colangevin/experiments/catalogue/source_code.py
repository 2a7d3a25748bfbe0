"""A byte-level decoder on C sources: constraints beside AdamW and Muon, each at its best learning rate."""

from dataclasses import replace

from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.parts import NetworkPart
from colangevin.experiments.catalogue.problems import ByteProblem

__all__ = [
    *(
        "ADAMW",
        "ADAM_ROWS",
        "DECODER",
        "FROBENIUS",
        "LONG",
        "METHODS",
        "MUON",
        "ORTHOGONAL",
        "PROBLEM",
        "QUICK",
    ),
    *("ROWS", "SGD_ORTHOGONAL", "SGD_ROWS", "TEXT"),
]

TEXT = "C sources of Linux"
PROBLEM = ByteProblem()

# Learning rates are those with the lowest validation loss in decoder-search.
ADAMW = Method("AdamW", 2e-3, "AdamW", weight_decay=0.1)
MUON = Method("Muon", 0.04, "Muon", momentum=0.95, weight_decay=0.1)
ROWS = Method("Muon on row spheres", 0.08, "ConstrainedMuon", momentum=0.95, hidden="row spheres")
FROBENIUS = replace(ROWS, name="Muon on Frobenius spheres", lr=0.08, hidden="Frobenius spheres")
ORTHOGONAL = replace(ROWS, name="Muon on orthogonal weights", lr=0.02, hidden="orthogonal")
ADAM_ROWS = Method("Adam on row spheres", 2e-3, "ConstrainedAdam", hidden="row spheres")
SGD_ROWS = Method("SGD-m on row spheres", 0.5, "ConstrainedSGD", momentum=0.9, hidden="row spheres")
SGD_ORTHOGONAL = replace(SGD_ROWS, name="SGD-m on orthogonal weights", lr=0.5, hidden="orthogonal")
METHODS = (ADAMW, MUON, ROWS, FROBENIUS, ORTHOGONAL, ADAM_ROWS, SGD_ROWS, SGD_ORTHOGONAL)

QUICK = Quick(
    runs=1,
    epochs=16,
    sizes=(
        *(("data", "python"), ("batch", 8), ("length", 128), ("held_out", 8192)),
        *(("layers", 2), ("width", 64), ("heads", 4)),
    ),
)

_ABOUT = (
    "Decoder of 8 layers of width 512 with RMS norms before attention and perceptron, rotary positions, "
    "heads of 64 and perceptrons of 2048 units: 25 million weights in 48 hidden matrices. It reads 64 pieces "
    "of 1,024 bytes a step for 800 steps. The hidden matrices are trained as the method says; embedding, "
    "output and gains always by Adam with learning rate 8e-3. The learning rate rises over the first "
    "twentieth and falls to 0 after it. AdamW and Muon are those of torch, with weight decay 0.1 on the "
    "hidden matrices; constrained ones have none. Spheres keep the norms that torch's initial weights have, "
    "of every row or of the whole matrix. Validation and test text are half a mebibyte each, of files that "
    "are not trained on; the loss is in bits a byte."
)

_SAID = {
    MUON: (-0.005, "is within 0.005 bits a byte of free Muon with weight decay"),
    ADAMW: (0.04, "is at least 0.04 bits a byte below AdamW"),
}


def _claims(baseline: Method) -> tuple[Claim, ...]:
    """What is said of Muon on spheres beside a baseline."""
    margin, text = _SAID[baseline]
    return tuple(
        Claim(
            "not in the paper",
            f"{method.name} {text}, {measure}.",
            measure,
            method.name,
            (baseline.name,),
            "lower",
            margin=margin,
        )
        for measure in ("validation bits", "test bits")
        for method in (ROWS, FROBENIUS)
    )


DECODER = Experiment(
    name="decoder",
    title="Decoder of 25 million weights on C sources: constraints beside AdamW and Muon",
    covers=("decoder-rows", "decoder-frobenius"),
    about=f"{_ABOUT} Every method has the best of the learning rates, by validation on another seed "
    "(decoder-search).",
    parts=(NetworkPart(TEXT, PROBLEM, METHODS),),
    runs=3,
    epochs=80,
    points=8,
    seed=1,
    quick=QUICK,
    claims=tuple(claim for baseline in (MUON, ADAMW) for claim in _claims(baseline)),
)

LONG = replace(
    DECODER,
    name="decoder-long",
    title="Decoder of 25 million weights on C sources: three times as many steps",
    covers=("decoder-2400",),
    about=f"As decoder, but for 2,400 steps: free Muon and Muon on both kinds of spheres. {_ABOUT}",
    parts=(NetworkPart(TEXT, PROBLEM, (MUON, ROWS, FROBENIUS)),),
    runs=1,
    epochs=240,
    points=24,
    claims=_claims(MUON),
)
