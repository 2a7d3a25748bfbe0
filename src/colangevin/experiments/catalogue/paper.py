"""The claims of the paper, each once: where it makes it, our words for it, and the reading it is tested in.

Leimkuhler et al. 2021. An experiment ties its methods to a claim by :func:`comparison`. Comparisons in the
claim's own experiment and reading decide its verdict; those in other readings and searches are evidence.
"""

from dataclasses import dataclass
from typing import Literal

from colangevin.experiments.catalogue.claims import Better, Claim

__all__ = ["PAPER", "MainReading", "PaperClaim", "comparison"]


@dataclass(frozen=True)
class MainReading:
    """The experiment that decides a claim.

    Attributes:
        experiment: its name.
        problem: what is trained on what, in a few words.
        words: how the paper is read in it.
    """

    experiment: str
    problem: str
    words: str


@dataclass(frozen=True)
class PaperClaim:
    """A claim of the paper.

    Attributes:
        key: its identity, beginning with the figure, table or section that makes it.
        source: the same in words.
        text: what is tested, in our words; in brackets what the paper says beyond that.
        measure: what is compared, a name in :data:`colangevin.experiments.catalogue.measures.MEASURES`.
        better: which direction the claim says.
        main: where it is decided.
        numbers: the paper's; empty where it prints none.
        settings: of several whether it is about every one or about their average.
    """

    key: str
    source: str
    text: str
    measure: str
    better: Better
    main: MainReading
    numbers: str = ""
    settings: Literal["every", "average"] = "every"


_TWO = MainReading(
    "two-turn", "2-turn spiral", "every run draws its own data; an epoch is a pass over them, 50 steps"
)
_BOUNDS = MainReading("two-turn-radius", _TWO.problem, "as two-turn, with four bounds on the first weight")
_FOUR = MainReading("four-turn", "4-turn spiral", "every run draws its own data; 2 to 8 hidden layers")
_STIFF = MainReading(
    "four-turn-penalty", _FOUR.problem, "three step sizes and six strengths; 3, 4, 6 and 8 hidden layers"
)
_FASHION = MainReading(
    "fashion-mnist",
    "Fashion-MNIST",
    "c-CoLud by the appendix's formulas: h² = 0.09 is the learning rate, e^(−γh) = 0.74 the momentum; 10,000 "
    "images drawn once, the other 60,000 are the test",
)
_GRID = MainReading("fashion-mnist-grid", _FASHION.problem, _FASHION.words)
_RESNET = MainReading(
    "resnet34", "ResNet-34 on CIFAR-10", "o-CoLud in SGD-m's scale: h² = 0.1 and e^(−γh) = 0.9; 150 epochs"
)
_PLAIN = MainReading("resnet34-overdamped", _RESNET.problem, "h = 0.1 throughout; 150 epochs")
_TEXT = MainReading(
    "transformer",
    "Transformer",
    "batches of 1024 (Penn Treebank) and 128 texts (WikiText-2); c-CoLud's learning rate is h² = 0.16",
)

_ACCURACY, _LOSS, _RISE = "test accuracy", "test loss", "rise of the test loss"
_SHARP, _CURVED, _LOWEST = "sharpest transition", "curvature", "lowest validation loss"

#: every claim, in the order of the experiments
PAPER: tuple[PaperClaim, ...] = (
    PaperClaim("fig1.accuracy", "Figures 1, 2",
               "C-SGLD is more accurate than SGD, with and without weight decay.",
               _ACCURACY, "higher", _TWO, "91.7 % against 81 %, one run"),
    PaperClaim("fig1.decay-accuracy", "Figure 1",
               "SGD is more accurate without weight decay than with it (the paper: decay does not help).",
               _ACCURACY, "higher", _TWO),
    PaperClaim("fig1.decay-loss", "Figure 1",
               "With weight decay SGD's test loss rises less from its lowest.",
               _RISE, "lower", _TWO),
    PaperClaim("fig1.constraint-loss", "Figure 1",
               "C-SGD's test loss rises less from its lowest than SGD's.",
               _RISE, "lower", _TWO),
    PaperClaim("fig2.constraint-accuracy", "Figures 1, 2",
               "C-SGD is more accurate than SGD, with and without weight decay.",
               _ACCURACY, "higher", _TWO),
    PaperClaim("fig2.constraint-loss", "Figure 2",
               "C-SGD has a lower test loss than SGD, with and without weight decay.",
               _LOSS, "lower", _TWO),
    PaperClaim("fig2.loss", "Figure 2",
               "C-SGLD has a lower test loss than SGD, with and without weight decay.",
               _LOSS, "lower", _TWO),
    PaperClaim("fig3.transitions", "Figure 3",
               "C-SGLD's transitions between the classes are less sharp than SGD's.",
               _SHARP, "lower", _TWO),
    PaperClaim("fig3.bound", "Figure 3",
               "The smaller the bound on the first weight, the less sharp the transitions.",
               _SHARP, "lower", _BOUNDS),
    PaperClaim("tab1.decay", "Table 1",
               "Weight decay lowers the curvature of the boundary.",
               _CURVED, "lower", _TWO, "51.1 against 519"),
    PaperClaim("tab1.constraint", "Table 1",
               "The constraint alone is below SGD with weight decay.",
               _CURVED, "lower", _TWO, "9.38 against 51.1"),
    PaperClaim("tab1.noise", "Table 1",
               "Noise alone is below SGD with weight decay.",
               _CURVED, "lower", _TWO, "8.73 against 51.1"),
    PaperClaim("tab1.both", "Table 1",
               "Constraint and noise together are below SGD with weight decay.",
               _CURVED, "lower", _TWO, "6.08 against 51.1"),
    PaperClaim("tab1.both-constraint", "Table 1",
               "Constraint and noise together are below the constraint alone.",
               _CURVED, "lower", _TWO, "6.08 against 9.38"),
    PaperClaim("tab1.both-noise", "Table 1",
               "Constraint and noise together are below noise alone.",
               _CURVED, "lower", _TWO, "6.08 against 8.73"),
    PaperClaim("tabD3.temperature", "Table D3",
               "C-SGLD has the lowest curvature at τ = 5e-5.",
               _CURVED, "lower", _TWO, "6.08 against 7.06"),
    PaperClaim("figD4.temperature", "Figure D4",
               "C-SGLD is most accurate at τ = 5e-5.",
               _ACCURACY, "higher", _TWO),
    PaperClaim("fig4.accuracy", "Figure 4",
               "With more than 3 hidden layers o-CoLod is more accurate than the best of SGD, SGD from an "
               "orthogonal start and SGD with the penalty.",
               _ACCURACY, "higher", _FOUR),
    PaperClaim("figD2.speed", "Figure D2",
               "A small temperature speeds o-CoLod's training up, on average over the depths.",
               "test accuracy over training", "higher", _FOUR, settings="average"),
    PaperClaim("figD2.accuracy", "Figure D2",
               "A small temperature makes o-CoLod more accurate, on average over the depths (the paper: "
               "often).",
               _ACCURACY, "higher", _FOUR, settings="average"),
    PaperClaim("fig5.best", "Figure 5",
               "o-CoLod is more accurate than SGD with the penalty at its best strength and step size, at "
               "every depth.",
               _ACCURACY, "higher", _STIFF),
    PaperClaim("fig5.step", "Figure 5",
               "With a strong penalty, λ = 0.5, SGD is more accurate at h = 0.01 than at h = 0.1, at every "
               "depth (the paper: the step has to be lowered).",
               _ACCURACY, "higher", _STIFF),
    PaperClaim("fig7.accuracy", "Figure 7",
               "c-CoLud is more accurate than SGD-m.",
               _ACCURACY, "higher", _FASHION, "87.63 % against 87.39 %"),
    PaperClaim("fig7.decay-accuracy", "Figure 7",
               "c-CoLud is more accurate than SGD-m at its best weight decay.",
               _ACCURACY, "higher", _FASHION, "87.63 % against 87.47 %"),
    PaperClaim("fig7.loss", "Figure 7",
               "c-CoLud has a lower test loss than SGD-m, with and without weight decay.",
               _LOSS, "lower", _FASHION, "0.386 against 0.531"),
    PaperClaim("fig7.overfitting", "Section 4.2",
               "c-CoLud's test loss rises less from its lowest than SGD-m's, with and without weight decay "
               "(the paper: no signs of overfitting).",
               _RISE, "lower", _FASHION),
    PaperClaim("figD5.weights", "Figure D5",
               "The largest weight of the output layer ends smaller with c-CoLud than with SGD-m.",
               "largest output weight", "lower", _FASHION),
    PaperClaim("tabD2.accuracy", "Table D2",
               "c-CoLud is more accurate than SGD-m at its best rate and momentum.",
               _ACCURACY, "higher", _GRID, "87.63 % against 87.39 %"),
    PaperClaim("tabD2.decay-accuracy", "Table D2",
               "c-CoLud is more accurate than SGD-m with weight decay at its best rate and momentum.",
               _ACCURACY, "higher", _GRID, "87.63 % against 87.47 %"),
    PaperClaim("tabD2.loss", "Table D2",
               "c-CoLud has a lower test loss than every SGD-m of the grid.",
               _LOSS, "lower", _GRID, "0.386 against 0.511"),
    PaperClaim("fig6.accuracy", "Figure 6",
               "o-CoLud is more accurate than SGD-m without weight decay.",
               _ACCURACY, "higher", _RESNET),
    PaperClaim("fig6.loss", "Figure 6",
               "o-CoLud has a lower test loss than SGD-m without weight decay.",
               _LOSS, "lower", _RESNET),
    PaperClaim("D1.start", "Appendix D.1",
               "From an orthogonal start SGD-m is less accurate.",
               _ACCURACY, "lower", _RESNET),
    PaperClaim("figD3.accuracy", "Figure D3",
               "o-CoLod ends more accurate than SGD.",
               _ACCURACY, "higher", _PLAIN),
    PaperClaim("figD3.overfitting", "Figure D3",
               "o-CoLod's test loss rises less from its lowest than SGD's.",
               _RISE, "lower", _PLAIN),
    PaperClaim("figD3.loss", "Appendix D.1",
               "o-CoLod ends with a lower test loss than SGD (the paper: throughout training).",
               _LOSS, "lower", _PLAIN),
    PaperClaim("tab2.ptb", "Table 2",
               "On Penn Treebank c-CoLud has a lower validation loss than SGD-m at its best.",
               _LOWEST, "lower", _TEXT, "4.81 against 4.83"),
    PaperClaim("tabD1.ptb", "Table D1",
               "On Penn Treebank c-CoLud has a higher validation loss than SGD-m at its best weight decay.",
               _LOWEST, "higher", _TEXT, "4.81 against 4.77"),
    PaperClaim("tab2.wikitext", "Table 2",
               "On WikiText-2 c-CoLud has a lower validation loss than SGD-m at its best.",
               _LOWEST, "lower", _TEXT, "5.09 against 5.13"),
    PaperClaim("tabD1.wikitext", "Table D1",
               "On WikiText-2 c-CoLud has a higher validation loss than SGD-m at its best weight decay.",
               _LOWEST, "higher", _TEXT, "5.09 against 5.01"),
)  # fmt: skip

_BY_KEY = {claim.key: claim for claim in PAPER}


def comparison(
    key: str, method: str, baselines: tuple[str, ...], *, part: str | None = None, reading: str = ""
) -> Claim:
    """A claim of the paper as a comparison between methods of an experiment.

    Args:
        key: of the claim.
        method: which it is about.
        baselines: what it is compared with; of several the best.
        part: where; None for the only part.
        reading: how the paper is read, where that is not the claim's main reading.

    Returns:
        The comparison.

    Raises:
        KeyError: when the paper makes no such claim.
    """
    if key not in _BY_KEY:
        raise KeyError(f"the paper makes no claim {key!r}; its claims are {', '.join(_BY_KEY)}")
    claim = _BY_KEY[key]
    return Claim(
        claim.source,
        claim.text,
        claim.measure,
        method,
        baselines,
        claim.better,
        claim.numbers,
        part,
        of=key,
        reading=reading,
    )
