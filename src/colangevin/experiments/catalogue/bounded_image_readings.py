"""Fashion-MNIST in the set-ups that the paper's text leaves open."""

import math
from dataclasses import replace
from typing import Any

from colangevin.experiments.catalogue.baselines import sgd
from colangevin.experiments.catalogue.bounded_images import (
    AHEAD,
    C_COLUD,
    C_RATE,
    DECAYED,
    PROBLEM,
    RADII,
    SGD,
    both_readings,
    of_another_reading,
)
from colangevin.experiments.catalogue.claims import Claim, Reported
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.parts import Part

__all__ = ["READINGS"]

#: the learning rate h², and friction over a time of h² too: momentum e^(-γh²)
C_LONG = Method("c-CoLud, momentum 0.91", 0.09, "ConstrainedSGD", momentum=math.exp(-0.09), radii=RADII)


#: SGD-m with the learning rate and momentum of C_RATE, without its bounds
FAST = sgd("0.3", "0.74")


def _reading(name: str, **changes: Any) -> Part:
    return Part(name, replace(PROBLEM, **changes), (SGD, DECAYED[0], FAST, C_COLUD, C_RATE, C_LONG))


def _ahead(part: Part) -> tuple[Claim, ...]:
    claim = replace(AHEAD, part=part.name)
    return *both_readings(claim), *of_another_reading(
        C_LONG, "h² is the learning rate, with friction over h²", claim
    )


_READINGS = (
    _reading("drawn once"),
    _reading("drawn for each run", one_data_set=False),
    _reading("first 10,000", split="first"),
    _reading("official sets exchanged", split="exchanged"),
    _reading("last batch kept", steps=79),
    _reading("pixels from -1 to 1", centred=True),
)

READINGS = Experiment(
    name="fashion-mnist-readings",
    title="Fashion-MNIST: which reading gives the paper's numbers",
    covers=("fig7-readings",),
    about="The paper's text leaves open which images are trained on, how pixels are scaled, and whether the "
    "last 16 images of an epoch, which fill no batch, are used. 'drawn once' is fashion-mnist itself; every "
    "other reading differs from it in the one thing that it is named after. SGD-m 0.3, 0.74 is 'c-CoLud, lr "
    "0.3' without its bounds. 'c-CoLud, momentum 0.91' keeps the learning rate h² = 0.09 and has friction "
    "over a time of h² as well, e^(-γh²).",
    parts=_READINGS,
    runs=5,
    epochs=400,
    points=20,
    quick=Quick(runs=1, epochs=1),
    claims=tuple(claim for part in _READINGS for claim in _ahead(part)),
    reported=tuple(
        Reported(method.name, measure, text, part.name)
        for part in _READINGS
        for method, accuracy, loss in (
            (SGD, "87.39 ± 0.06", "0.824"),
            (DECAYED[0], "87.47 ± 0.38", "0.531"),
            (C_COLUD, "87.63 ± 0.04", "0.386"),
        )
        for measure, text in (("test accuracy", accuracy), ("test loss", loss))
    ),
)
