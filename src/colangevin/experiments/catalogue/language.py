"""A small transformer on Penn Treebank and WikiText-2: bounded weights beside SGD with momentum.

Leimkuhler et al. 2021, Tables 2 and D1, Appendix D.2.
"""

from colangevin.experiments.catalogue.baselines import sgd
from colangevin.experiments.catalogue.claims import Claim, Reported
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.paper import comparison
from colangevin.experiments.catalogue.parts import NetworkPart
from colangevin.experiments.catalogue.problems import TextProblem

__all__ = ["TRANSFORMER"]

TREEBANK, WIKITEXT = "Penn Treebank", "WikiText-2"
PTB = TextProblem("ptb", batch=1024)
WIKI = TextProblem("wikitext-2", batch=128)
#: of embedding, output, feed-forward, norm and attention weights: r, r, r_L, r_N, r_A
RADII = (0.5, 0.5, 0.1, 1.0, 1.0)
STEP = 0.4


def colud(name: str, friction: float, radii: tuple[float, ...] = RADII) -> Method:
    """c-CoLud with the paper's step size."""
    return Method(name, STEP, "CoLud", friction=friction, radii=radii)


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
ROOM = (*RADII[:3], 2.0, 1.0)


def _methods(friction: float) -> tuple[Method, ...]:
    return (
        colud(C_COLUD, friction),
        sgd("0.1", "0.9"),
        BEST_DECAY,
        *(method for method in _FREE if method.name != sgd("0.1", "0.9").name),
        *_DECAYED[:2],
        colud(C_COLUD_ROOM, friction, ROOM),
    )


def claims_of_the_tables(
    corpus: str,
    part: str | None,
    without: tuple[Method, ...] = _FREE,
    with_decay: tuple[Method, ...] = _DECAYED,
    reading: str = "",
) -> tuple[Claim, ...]:
    """Of both tables about a corpus, ``ptb`` or ``wikitext``, and of what they leave out."""
    free, decayed = (tuple(method.name for method in methods) for methods in (without, with_decay))
    return (
        comparison(f"tab2.{corpus}", C_COLUD, free, part=part, reading=reading),
        comparison(f"tabD1.{corpus}", C_COLUD, decayed, part=part, reading=reading),
        Claim(
            "not in the paper",
            "On test data, at the epoch that the validation data choose, c-CoLud is ahead of all SGD-m.",
            "test loss at the lowest validation loss",
            C_COLUD,
            (*free, *decayed),
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
    claims=(
        *claims_of_the_tables("ptb", TREEBANK),
        *claims_of_the_tables("wikitext", WIKITEXT),
    ),
    reported=tuple(
        Reported(name, "lowest validation loss", numbers[number], part)
        for number, part in enumerate((TREEBANK, WIKITEXT))
        for name, numbers in (
            (C_COLUD, ("4.81", "5.09")),
            *((sgd(*options).name, numbers) for options, numbers in (_TABLE_2 | _TABLE_D1).items()),
        )
    ),
)
