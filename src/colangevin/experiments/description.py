"""What an experiment is: data, model, methods, what the paper says about them and how that is tested."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from colangevin.experiments.measures import MEASURES
from colangevin.experiments.names import check_distinct, check_plain, slug

__all__ = [
    "MOST_TRAININGS",
    "Claim",
    "Experiment",
    "ImageProblem",
    "Method",
    "NetworkPart",
    "Part",
    "Problem",
    "Quick",
    "Reported",
    "TextProblem",
]


#: of one experiment, a hundred times those of the paper's largest: what a report can still hold in memory
MOST_TRAININGS = 100_000


@dataclass(frozen=True)
class Method:
    """One way of training: an optimizer of this library with its options, and how the weights start.

    Attributes:
        name: what tables and plots call it.
        lr: step size, h for ``CoLod`` and ``CoLud``, the learning rate for ``ConstrainedSGD``.
        optimizer: class of the optimizer; without constraint and temperature ``CoLod`` is plain SGD.
        friction: of ``CoLud``.
        momentum: of ``ConstrainedSGD``.
        temperature: of the noise.
        weight_decay: on every parameter, as in torch.
        radii: bounds on the entries of weights, None for free ones: of a perceptron's first and last weight;
            of a transformer's embedding, output, feed-forward, norm and attention weights.
        square: a perceptron's weights between hidden layers, or a ResNet's weights but the first: with
            torch's initialisation, an orthogonal one, orthogonal throughout, or so but for the last layer.
        penalty: λ of the penalty λ Σ ‖WᵀW − I‖² on the same weights.
    """

    name: str
    lr: float
    optimizer: Literal["CoLod", "CoLud", "ConstrainedSGD"] = "CoLod"
    friction: float = 0.0
    momentum: float = 0.0
    temperature: float = 0.0
    weight_decay: float = 0.0
    radii: tuple[float, ...] | None = None
    square: Literal["default", "orthogonal start", "orthogonal", "orthogonal but the last"] = "default"
    penalty: float = 0.0

    @property
    def constrained(self) -> bool:
        """Whether it holds any weight on a constraint."""
        return self.radii is not None or self.square in ("orthogonal", "orthogonal but the last")


@dataclass(frozen=True)
class Problem:
    """Data and model.

    Attributes:
        data: name of the data set.
        train: number of training points.
        test: number of test points.
        batch: points of a step, drawn without replacement within an epoch.
        depth: hidden layers.
        width: units of each.
        one_data_set: whether all runs share one data set instead of drawing their own.
        split: of images into those to train on and those to test on, as
            :func:`colangevin.experiments.fashion_mnist.split` has it.
        centred: whether pixels lie between -1 and 1 instead of 0 and 1.
        reduction: of the loss over a batch.
        steps: of an epoch; None for a pass over the training set, without a last batch that is not full: what
            is measured follows it, and would show the noise of a small batch.
    """

    data: Literal["two-turn", "four-turn", "fashion-mnist"]
    train: int
    test: int
    batch: int
    depth: int
    width: int
    one_data_set: bool = False
    split: Literal["drawn", "first", "exchanged"] = "drawn"
    centred: bool = False
    reduction: Literal["mean", "sum"] = "mean"
    steps: int | None = None

    @property
    def steps_of_an_epoch(self) -> int:
        """How many there are."""
        return self.train // self.batch if self.steps is None else self.steps


@dataclass(frozen=True)
class Part:
    """Methods on one problem, all trained together as one batched model."""

    name: str
    problem: Problem
    methods: tuple[Method, ...]

    @property
    def slug(self) -> str:
        """The name as a file name."""
        return slug(self.name)


@dataclass(frozen=True)
class ImageProblem:
    """Images that a ResNet-34 tells apart, padded and cropped, flipped and normalised.

    Attributes:
        data: name of the data set.
        train: number of training images.
        test: number of test images.
        batch: images of a step, drawn without replacement within an epoch; a last batch that is not full is
            left out.
        width: channels of the network's first stage.
        stages: equal parts of the training; the learning rate falls to a tenth from one to the next.
        identities: whether every block of the network starts as its shortcut alone.
    """

    data: Literal["cifar-10"] = "cifar-10"
    train: int = 50_000
    test: int = 10_000
    batch: int = 128
    width: int = 64
    stages: int = 3
    identities: bool = False


@dataclass(frozen=True)
class TextProblem:
    """A text whose next word a transformer of two layers and two heads predicts.

    Attributes:
        data: name of the corpus.
        batch: pieces of text, all equally long, that are read side by side.
        length: words in a row of each that make up a step.
        dropout: probability.
        decay: of the learning rate, after every epoch.
        clip: largest norm of the gradient; 0 for any.
        scale: whether embeddings are multiplied by the root of their width.
        width: of embeddings and feed-forward networks.
        words: of the training text, and a tenth as many of the others; None for all.
    """

    data: Literal["ptb", "wikitext-2"]
    batch: int
    length: int = 35
    dropout: float = 0.2
    decay: float = 1.0
    clip: float = 0.0
    scale: bool = True
    width: int = 200
    words: int | None = None


@dataclass(frozen=True)
class NetworkPart:
    """Methods on one problem whose networks are too large to be stacked: every run is trained by itself."""

    name: str
    problem: ImageProblem | TextProblem
    methods: tuple[Method, ...]

    @property
    def slug(self) -> str:
        """The name as a file name."""
        return slug(self.name)


@dataclass(frozen=True)
class Reported:
    """A number of the paper.

    Attributes:
        method: whose number.
        measure: of what, a name in :data:`colangevin.experiments.measures.MEASURES`.
        text: the number as printed, with its spread.
        part: where; None for the only part.
    """

    method: str
    measure: str
    text: str
    part: str | None = None


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, as a comparison of a method with baselines on the same data.

    Attributes:
        source: figure or table.
        text: the statement in our words.
        measure: what is compared, a name in :data:`colangevin.experiments.measures.MEASURES`.
        method: which the statement is about.
        baselines: what it is compared with; of several the best by its mean.
        better: which direction the statement says.
        paper: the paper's numbers; empty where it prints none.
        part: where; None for the only part.
    """

    source: str
    text: str
    measure: str
    method: str
    baselines: tuple[str, ...]
    better: Literal["higher", "lower"]
    paper: str = ""
    part: str | None = None


@dataclass(frozen=True)
class Quick:
    """A small form of an experiment.

    Attributes:
        runs: of every method.
        epochs: of every training.
        parts: that are trained; None for all.
        sizes: of their problems that differ, by name.
    """

    runs: int
    epochs: int
    parts: tuple[str, ...] | None = None
    sizes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Experiment:
    """Some figures and tables of the paper that come from the same trainings.

    Attributes:
        name: on the command line.
        title: in a line.
        covers: figures and tables, as ``fig4`` and ``tabD2``; each is a name on the command line too.
        about: what is done and where the paper leaves a choice, in a few sentences.
        parts: what is trained; the same methods in all of them, which the report compares by their place.
        runs: repetitions of every method.
        epochs: of every training.
        claims: what the paper says.
        reported: the numbers it prints.
        plane: what to look at of classifiers in the plane: nothing, pictures, or also the curvature of their
            decision boundary and the gradients of their prediction.
        quick: the small form.
        points: how many times a training is measured, evenly spaced, the end included.
        seed: of data, initial weights, batches and noise.
    """

    name: str
    title: str
    covers: tuple[str, ...]
    about: str
    parts: tuple[Part | NetworkPart, ...]
    runs: int
    epochs: int
    claims: tuple[Claim, ...]
    quick: Quick
    reported: tuple[Reported, ...] = ()
    plane: Literal["nothing", "pictures", "curvature"] = "nothing"
    points: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        for name in (self.name, *self.covers):
            check_plain(name)
        check_distinct("part", [part.name for part in self.parts])
        for part in self.parts:
            check_distinct("method", [method.name for method in part.methods])
        if len({len(part.methods) for part in self.parts}) > 1:
            raise ValueError("all parts must have equally many methods, which are compared by their place")
        if min(self.runs, self.epochs, self.points) < 1:
            raise ValueError("runs, epochs and points must be at least 1")
        trainings = self.runs * sum(len(part.methods) for part in self.parts)
        if trainings > MOST_TRAININGS:
            raise ValueError(
                f"runs {self.runs:,} of every method are {trainings:,} trainings; at most "
                f"{MOST_TRAININGS:,} fit in one folder. Choose fewer runs."
            )
        for claim in self.claims:
            self._check_measured(claim.measure, claim.part, claim.method, *claim.baselines)
            if not claim.baselines:
                raise ValueError(f"a claim about {claim.method!r} has no baseline")
        for number in self.reported:
            self._check_measured(number.measure, number.part, number.method)

    def _check_measured(self, measure: str, part: str | None, *methods: str) -> None:
        """That a claim or a number is about what there is."""
        if measure not in MEASURES:
            raise ValueError(f"measure {measure!r} must be one of {', '.join(MEASURES)}")
        if part is not None and part not in [each.name for each in self.parts]:
            raise ValueError(f"a claim or number is about part {part!r}, which is not there")
        known = [method.name for method in self.part(part).methods]
        for method in methods:
            if method not in known:
                raise ValueError(f"a claim or number is about method {method!r}, which is not there")

    def part(self, name: str | None) -> Part | NetworkPart:
        """The part of that name, or the first for None."""
        return next(part for part in self.parts if name in (None, part.name))

    def resized(self, runs: int | None, epochs: int | None, *, quick: bool) -> "Experiment":
        """The experiment in another size: the small form when ``quick``, and then what is given."""
        small = self
        if quick:
            parts = self.parts
            if self.quick.parts is not None:
                parts = tuple(part for part in parts if part.name in self.quick.parts)
            sizes: dict[str, Any] = dict(self.quick.sizes)
            parts = tuple(_resized(part, **sizes) for part in parts)
            names = {None, *(part.name for part in parts)}
            small = replace(
                self,
                parts=parts,
                runs=self.quick.runs,
                epochs=self.quick.epochs,
                claims=tuple(claim for claim in self.claims if claim.part in names),
                reported=tuple(each for each in self.reported if each.part in names),
            )
        return replace(small, runs=runs or small.runs, epochs=epochs or small.epochs)


def _resized(part: Part | NetworkPart, **sizes: Any) -> Part | NetworkPart:
    # in two branches, of which each keeps the kind of its problem
    if isinstance(part, Part):
        return replace(part, problem=replace(part.problem, **sizes))
    return replace(part, problem=replace(part.problem, **sizes))
