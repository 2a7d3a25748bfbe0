"""What a network has to learn: the data, and the size of the network."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["ByteProblem", "ImageProblem", "NetworkProblem", "PosteriorProblem", "Problem", "TextProblem"]


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
            :func:`colangevin.experiments.data.fashion_mnist.split` has it.
        centred: whether pixels lie between -1 and 1 instead of 0 and 1.
        reduction: of the loss over a batch.
        steps: of an epoch; None for one pass over the training set. The pass leaves out a last batch that is
            not full: measurements follow the last step, and would show the noise of a small batch.
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
class ByteProblem:
    """A text whose next byte a decoder predicts.

    Attributes:
        data: name of the text.
        batch: pieces of text of a step, each from a place that is drawn.
        length: bytes of a piece.
        steps: of an epoch, during which the learning rate stays the same.
        held_out: bytes of the validation text, and of the test text.
        layers: of the decoder.
        width: of its embeddings.
        heads: of its attention.
        rest_rate: learning rate of Adam, for all weights that are no hidden matrices.
    """

    data: Literal["linux-c", "python"] = "linux-c"
    batch: int = 64
    length: int = 1024
    steps: int = 10
    held_out: int = 2**19
    layers: int = 8
    width: int = 512
    heads: int = 8
    rest_rate: float = 8e-3


@dataclass(frozen=True)
class PosteriorProblem:
    """Images for a ResNet-20 with filter response normalisation, whose posterior HMC has sampled.

    Nothing is cropped or flipped: the posterior is that of the images as they are.

    Attributes:
        data: name of the data set.
        train: number of training images, the first of the official ones.
        test: number of test images, the first of the official ones, for which there are HMC's predictions.
        batch: images of a step, drawn without replacement within an epoch; a last batch that is not full is
            left out.
        width: channels of the network's first stage.
        start: per cent of the epochs that SGD takes before a sampler begins.
        start_rate: learning rate of that SGD, which falls to 0.
        start_momentum: of that SGD.
        burn_in: per cent of the epochs after which a sampler's predictions are averaged.
    """

    data: Literal["cifar-10"] = "cifar-10"
    train: int = 50_000
    test: int = 10_000
    batch: int = 256
    width: int = 16
    start: int = 5
    start_rate: float = 0.1
    start_momentum: float = 0.9
    burn_in: int = 30

    def start_epochs(self, epochs: int) -> int:
        """How many epochs of a training SGD takes before a sampler begins, at least one."""
        return max(1, self.start * epochs // 100)

    def burnt_in(self, epoch: int, epochs: int) -> bool:
        """Whether the state after an epoch is a sample."""
        return 100 * epoch > self.burn_in * epochs

    @property
    def gradients_of_an_epoch(self) -> int:
        """How many gradients of single images an epoch takes."""
        batch = min(self.batch, self.train)
        return self.train // batch * batch


#: what is trained run by run
NetworkProblem = ImageProblem | TextProblem | ByteProblem | PosteriorProblem
