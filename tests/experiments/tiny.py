"""An experiment of seconds, with everything that the real ones have."""

from colangevin.experiments.catalogue.claims import Claim, Reported
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.parts import NetworkPart, Part
from colangevin.experiments.catalogue.problems import ImageProblem, PosteriorProblem, Problem, TextProblem

METHODS = (
    Method("SGD", 0.1),
    Method("SGD, WD", 0.1, weight_decay=1e-2),
    Method("start", 0.1, square="orthogonal start"),
    Method("penalty", 0.1, penalty=0.05),
    Method("o-CoLod τ", 0.1, square="orthogonal", temperature=1e-4),
    Method("C-SGLD", 0.1, radii=(1.0, 5.0), temperature=1e-4),
    Method("c-CoLud", 0.3, "CoLud", friction=1.0, radii=(1.0, 5.0)),
    Method("SGD-m", 0.1, "ConstrainedSGD", momentum=0.8),
)


def problem(depth: int = 2, **changes) -> Problem:
    settings = {"data": "two-turn", "train": 20, "test": 30, "batch": 6, "depth": depth, "width": 8}
    return Problem(**{**settings, **changes})


def experiment(
    parts: int = 1, runs: int = 2, epochs: int = 4, named: str = "part {}", **changes
) -> Experiment:
    """Noise, all optimizers, a last batch that is not full; the name is a real one, so that it is found."""
    names = [named.format(number) for number in range(1, parts + 1)]
    claims = (
        Claim(
            "Figure 4", "o-CoLod is better.", "test accuracy", "o-CoLod τ", ("SGD", "start"), "higher", "9 %"
        ),
        Claim("Table 1", "Less curved.", "curvature", "C-SGLD", ("SGD",), "lower", part=names[-1]),
    )
    settings = {
        "name": "four-turn",
        "title": "tiny <spiral>",
        "covers": ("fig4",),
        "about": "For tests.",
        "parts": tuple(Part(name, problem(i + 2), METHODS) for i, name in enumerate(names)),
        "runs": runs,
        "epochs": epochs,
        "claims": claims,
        "quick": Quick(1, 1),
        "reported": (Reported("SGD", "test accuracy", "50 ± 1"),),
        "plane": "curvature",
        "points": 2,
    }
    return Experiment(**{**settings, **changes})


def networks(runs: int = 2, epochs: int = 3, **changes) -> Experiment:
    """Networks that are trained one by one, for the data of ``small_data``; found under a real name."""
    pictures = ImageProblem(train=24, test=6, batch=10, width=2)
    words = TextProblem("ptb", batch=3, length=20, width=8, words=150)
    sgd = Method("SGD-m", 0.1, "ConstrainedSGD", momentum=0.9)
    held = Method("o-CoLud", 0.1, "ConstrainedSGD", momentum=0.9, square="orthogonal")
    bound = Method("c-CoLud", 0.4, "CoLud", friction=0.5, radii=(0.5, 0.5, 0.4, 1.0, 1.0))
    settings = {
        "name": "resnet34",
        "title": "tiny networks",
        "covers": ("fig6",),
        "about": "For tests.",
        "parts": (
            NetworkPart("pictures", pictures, (sgd, held)),
            NetworkPart("words", words, (sgd, bound)),
        ),
        "runs": runs,
        "epochs": epochs,
        "claims": (
            Claim("Figure 6", "Better.", "test accuracy", "o-CoLud", ("SGD-m",), "higher", part="pictures"),
            Claim(
                "Table 2", "Lower.", "lowest validation loss", "c-CoLud", ("SGD-m",), "lower", part="words"
            ),
        ),
        "quick": Quick(1, 1),
        "reported": (Reported("c-CoLud", "lowest validation loss", "4.81", "words"),),
        "points": epochs,
    }
    return Experiment(**{**settings, **changes})


def posteriors(runs: int = 2, epochs: int = 8, **changes) -> Experiment:
    """Chains of a posterior, for the data of ``small_data``; found under a real name."""
    problem = PosteriorProblem(train=24, test=6, batch=12, width=2)
    sgd = Method("SGD", 0.05, "ConstrainedSGD", momentum=0.9, prior_variance=0.2)
    chain = Method(
        "CoLud", 0.1, "CoLud", friction=0.5, splitting="BAOAB", temperature=1.0, prior_variance=0.2
    )
    settings = {
        "name": "hmc-distance",
        "title": "tiny chains",
        "covers": ("hmc",),
        "about": "For tests.",
        "parts": (NetworkPart("images", problem, (sgd, chain)),),
        "runs": runs,
        "epochs": epochs,
        "claims": (Claim("not in the paper", "Nearer.", "total variation", "CoLud", ("SGD",), "lower"),),
        "quick": Quick(1, 1),
        "points": epochs,
    }
    return Experiment(**{**settings, **changes})
