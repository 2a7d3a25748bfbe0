"""A small transformer on Penn Treebank and WikiText-2: bounded weights beside SGD with momentum.

Leimkuhler et al. 2021, Tables 2 and D1, Appendix D.2.
"""

import math
from dataclasses import replace
from typing import Any

from colangevin.experiments.catalogue.baselines import sgd
from colangevin.experiments.catalogue.claims import Claim, Reported
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.parts import NetworkPart
from colangevin.experiments.catalogue.problems import TextProblem

__all__ = ["BEST", "NEAREST", "SEARCH", "TRANSFORMER"]

TREEBANK, WIKITEXT = "Penn Treebank", "WikiText-2"
PTB = TextProblem("ptb", batch=1024)
WIKI = TextProblem("wikitext-2", batch=128)
#: of embedding, output, feed-forward, norm and attention weights: r, r, r_L, r_N, r_A
RADII = (0.5, 0.5, 0.1, 1.0, 1.0)


STEP = 0.4


def colud(name: str, friction: float, radii: tuple[float, ...] = RADII) -> Method:
    """c-CoLud with the paper's step size."""
    return Method(name, STEP, "CoLud", friction=friction, radii=radii)


def colud_rate(name: str, friction: float) -> Method:
    """The same momentum, e^(-γh), with the paper's h as SGD's learning rate, as Fashion-MNIST suggests."""
    momentum = math.exp(-friction * STEP)
    return Method(name, STEP, "ConstrainedSGD", momentum=momentum, radii=RADII)


#: learning rate and momentum: lowest validation loss on Penn Treebank and WikiText-2, Table 2
_TABLE_2 = {
    ("0.1", "0.7"): ("4.87", "5.13"),
    ("0.1", "0.8"): ("4.83", "5.13"),
    ("0.1", "0.9"): ("4.84", "5.13"),
    ("0.2", "0.7"): ("4.83", "5.13"),
    ("0.2", "0.8"): ("4.83", "5.14"),
}
#: with weight decay 1e-4, Table D1, whose upper half repeats the first three rows of Table 2
_TABLE_D1 = {
    ("0.1", "0.7", "1e-4"): ("4.84", "5.01"),
    ("0.1", "0.8", "1e-4"): ("4.77", "5.02"),
    ("0.1", "0.9", "1e-4"): ("4.77", "5.02"),
}
_FREE = tuple(sgd(*options) for options in _TABLE_2)
_DECAYED = tuple(sgd(*options) for options in _TABLE_D1)
BEST_DECAY = _DECAYED[2]
C_COLUD, C_COLUD_ROOM = "c-CoLud", "c-CoLud, r_N=2"
#: gains start half-way to their bound, and move
_ROOM = (*RADII[:3], 2.0, 1.0)
#: the output layer counted among the linear ones
_LINEAR_OUTPUT = (0.5, 0.1, 0.1, 1.0, 1.0)


def _methods(friction: float) -> tuple[Method, ...]:
    return (
        colud(C_COLUD, friction),
        sgd("0.1", "0.9"),
        BEST_DECAY,
        *(method for method in _FREE if method.name != sgd("0.1", "0.9").name),
        *_DECAYED[:2],
        colud(C_COLUD_ROOM, friction, _ROOM),
    )


def _claims(
    part: str | None,
    ours: str,
    free: str,
    decayed: str,
    without: tuple[Method, ...] = _FREE,
    with_decay: tuple[Method, ...] = _DECAYED,
) -> tuple[Claim, ...]:
    """Of the tables, with the paper's numbers, and of what they leave out."""
    return (
        Claim(
            "Table 2",
            "c-CoLud has a lower validation loss than SGD-m at its best, without weight decay.",
            "lowest validation loss",
            C_COLUD,
            tuple(method.name for method in without),
            "lower",
            f"{ours} against {free}",
            part,
        ),
        Claim(
            "Table D1",
            "SGD-m with weight decay 1e-4 at its best has a lower validation loss than c-CoLud.",
            "lowest validation loss",
            C_COLUD,
            tuple(method.name for method in with_decay),
            "higher",
            f"{decayed} against {ours}",
            part,
        ),
        Claim(
            "not in the paper",
            "On test data, at the epoch that the validation data choose, c-CoLud is ahead of all SGD-m.",
            "test loss at the lowest validation loss",
            C_COLUD,
            tuple(method.name for method in (*without, *with_decay)),
            "lower",
            part=part,
        ),
        Claim(
            "not in the paper",
            "Room for the gains of the layer norms, r_N = 2, lowers the validation loss.",
            "lowest validation loss",
            C_COLUD_ROOM,
            (C_COLUD,),
            "lower",
            part=part,
        ),
    )


_ABOUT = (
    "Encoder of two layers with two heads and feed-forward networks of 200 units behind a causal "
    "mask, word embeddings 200 wide times √200 and sinusoidal positions, dropout 0.2, in steps of 35 "
    "words. SGD-m is named by its learning rate and momentum. c-CoLud has h = 0.4, γ = 0.5 (Penn "
    "Treebank) or 1 (WikiText-2), and bounds the entries of embedding and output by r = 0.5, of the "
    "feed-forward layers by r_L = 0.1, of the attention by r_A = 1 and of the gains of the layer "
    "norms by r_N = 1. Those gains start at 1, on their bound, where the gradient has no part along "
    "the circle: at temperature 0 they never move. The paper reports the lowest validation loss of "
    "all epochs."
)

TRANSFORMER = Experiment(
    name="transformer",
    title="Transformer on Penn Treebank and WikiText-2: bounded weights",
    covers=("tab2", "tabD1"),
    about=_ABOUT,
    parts=(NetworkPart(TREEBANK, PTB, _methods(0.5)), NetworkPart(WIKITEXT, WIKI, _methods(1.0))),
    runs=5,
    epochs=200,
    points=200,
    quick=Quick(runs=1, epochs=1, parts=(TREEBANK,), sizes=(("batch", 16), ("words", 15_000))),
    claims=(*_claims(TREEBANK, "4.81", "4.83", "4.77"), *_claims(WIKITEXT, "5.09", "5.13", "5.01")),
    reported=tuple(
        Reported(name, "lowest validation loss", numbers[number], part)
        for number, part in enumerate((TREEBANK, WIKITEXT))
        for name, numbers in (
            (C_COLUD, ("4.81", "5.09")),
            *((sgd(*options).name, numbers) for options, numbers in (_TABLE_2 | _TABLE_D1).items()),
        )
    ),
)


def _reading(name: str, ours: Method | None = None, **changes: Any) -> NetworkPart:
    methods = (ours or colud(C_COLUD, 0.5), sgd("0.1", "0.9"), BEST_DECAY)
    return NetworkPart(name, replace(PTB, **changes), methods)


_READINGS = (
    _reading("batch 1024, 35 words, dropout 0.2"),
    _reading("no dropout", dropout=0.0),
    _reading("dropout 0.1", dropout=0.1),
    _reading("batch 256", batch=256),
    _reading("batch of 1024 words", batch=32, length=32),
    _reading("70 words", length=70),
    _reading("learning rate × 0.95 an epoch", decay=0.95),
    _reading("gradient clipped at 0.5", clip=0.5),
    _reading("embedding not scaled", scale=False),
    _reading("output bounded by 0.1", colud(C_COLUD, 0.5, _LINEAR_OUTPUT)),
    _reading("h is a learning rate", colud_rate(C_COLUD, 0.5)),
)

SEARCH = Experiment(
    name="transformer-search",
    title="Transformer on Penn Treebank: which set-up gives the paper's numbers",
    covers=("tab2-search",),
    about="The paper leaves dropout, the length of a step, the learning rate's decay, clipping and "
    "the scale of the embeddings open, and whether its batch of 1024 counts texts or words. "
    "From the plain reading each is changed by itself. An embedding that starts with torch's "
    "standard normal entries does not fit the paper's r = 0.5, so all start in ±0.1. Whether the "
    "output layer counts as linear (r_L = 0.1) or as the rest (r = 0.5) is tried too, and c-CoLud's h as "
    "SGD's learning rate, which is h² otherwise.",
    parts=_READINGS,
    runs=1,
    epochs=200,
    points=100,
    quick=Quick(
        runs=1,
        epochs=1,
        parts=(_READINGS[0].name, _READINGS[4].name),
        sizes=(("batch", 16), ("words", 12_000)),
    ),
    claims=tuple(
        Claim(
            "Table 2",
            "c-CoLud has a lower validation loss than SGD-m without weight decay.",
            "lowest validation loss",
            C_COLUD,
            (sgd("0.1", "0.9").name,),
            "lower",
            "4.81 against 4.84",
            part.name,
        )
        for part in _READINGS
    ),
    reported=tuple(
        Reported(method, "lowest validation loss", text, part.name)
        for part in _READINGS
        for method, text in ((C_COLUD, "4.81"), (sgd("0.1", "0.9").name, "4.84"), (BEST_DECAY.name, "4.77"))
    ),
)

_GENTLE, _LARGE = (tuple(sgd(lr, "0.9", decay) for decay in ("0", "1e-4")) for lr in ("0.1", "0.2"))

NEAREST = Experiment(
    name="transformer-nearest",
    title="Transformer on Penn Treebank: the set-up that comes nearest to the paper",
    covers=("tab2-nearest",),
    about="256 texts a batch, which in transformer-search gave c-CoLud the paper's number, for 200 epochs. "
    "SGD-m with and without weight decay, at the paper's largest learning rate for momentum 0.9 and at "
    "twice that. As transformer otherwise.",
    parts=(
        NetworkPart(
            TREEBANK,
            replace(PTB, batch=256),
            (colud(C_COLUD, 0.5), *_GENTLE, colud(C_COLUD_ROOM, 0.5, _ROOM), *_LARGE),
        ),
    ),
    runs=5,
    epochs=200,
    points=200,
    quick=TRANSFORMER.quick,
    claims=_claims(None, "4.81", "4.83", "4.77", (_GENTLE[0], _LARGE[0]), (_GENTLE[1], _LARGE[1])),
)

_RATES = ("0.2", "0.5", "1.0")
_TUNED_COLUD = tuple(
    Method(f"c-CoLud {lr}, 0.9, r_N=2", float(lr), "ConstrainedSGD", momentum=0.9, radii=_ROOM)
    for lr in _RATES
)
_TUNED_SGD = tuple(sgd(lr, "0.9", decay) for decay in ("0", "1e-4") for lr in _RATES)

BEST = Experiment(
    name="transformer-best",
    title="Transformer on Penn Treebank: every method at its best step",
    covers=("tab2-best",),
    about="Larger steps than in the paper's grids, the same for SGD-m with and without weight decay and for "
    "c-CoLud, whose gains have room to move; all are named by learning rate and momentum in SGD's scale. As "
    "transformer otherwise.",
    parts=(NetworkPart(TREEBANK, PTB, (*_TUNED_COLUD, *_TUNED_SGD)),),
    runs=5,
    epochs=200,
    points=200,
    quick=replace(TRANSFORMER.quick, sizes=(("batch", 16), ("words", 10_000))),
    claims=tuple(
        Claim(
            "not in the paper",
            f"{method.name} has a lower {measure} than SGD-m at its best, weight decay included.",
            measure,
            method.name,
            tuple(each.name for each in _TUNED_SGD),
            "lower",
        )
        for method in _TUNED_COLUD
        for measure in ("lowest validation loss", "test loss at the lowest validation loss")
    ),
)
