"""How a network is trained: an optimizer with its options, and what it holds."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Method"]


@dataclass(frozen=True)
class Method:
    """One way of training: an optimizer with its options, and how the weights start.

    Attributes:
        name: what tables and plots call it.
        lr: step size, h for ``CoLod`` and ``CoLud``, the learning rate for the others. A decoder has another
            one for all weights that are no hidden matrices.
        optimizer: class of the optimizer; without constraint and temperature ``CoLod`` is plain SGD.
            ``AdamW`` and ``Muon`` are those of torch, the others those of this library. A decoder's is that
            of its hidden matrices.
        friction: of ``CoLud``.
        splitting: of ``CoLud``.
        momentum: of ``ConstrainedSGD``, ``Muon`` and ``ConstrainedMuon``.
        temperature: of the noise. With a prior, that of the posterior: 1 is the Bayes posterior.
        weight_decay: on every parameter, as in torch; of a decoder, on its hidden matrices.
        prior_variance: of a Gaussian prior on every parameter; 0 for none. With a prior, the optimizer's
            temperature and weight decay follow from the number of training data.
        cycles: how many times the step size falls and the temperature rises; 0 for constant ones.
        radii: bounds on the entries of weights; None for free weights. A perceptron has two, of its first and
            its last weight. A transformer has five, of embedding, output, feed-forward, norm and attention.
        square: whether the weights between a perceptron's hidden layers, or all of a ResNet's but the first,
            are free from torch's initial weights on, free from an orthogonal start on, orthogonal, or
            orthogonal except the last.
        penalty: λ of the penalty λ Σ ‖WᵀW − I‖² on the same weights.
        hidden: what holds the hidden matrices of a decoder, or the kernels of a ResNet-20. On spheres, every
            row or the whole matrix keeps the norm that it starts with; on prior spheres, every row has the
            root mean square of the norm under the prior.
    """

    name: str
    lr: float
    optimizer: Literal[
        "CoLod", "CoLud", "ConstrainedSGD", "ConstrainedAdam", "ConstrainedMuon", "AdamW", "Muon"
    ] = "CoLod"
    friction: float = 0.0
    splitting: Literal["OBA", "BAOAB"] = "OBA"
    momentum: float = 0.0
    temperature: float = 0.0
    weight_decay: float = 0.0
    prior_variance: float = 0.0
    cycles: int = 0
    radii: tuple[float, ...] | None = None
    square: Literal["default", "orthogonal start", "orthogonal", "orthogonal but the last"] = "default"
    penalty: float = 0.0
    hidden: Literal["free", "row spheres", "Frobenius spheres", "prior spheres", "orthogonal"] = "free"

    @property
    def constrained(self) -> bool:
        """Whether it holds any weight on a constraint."""
        square = self.square in ("orthogonal", "orthogonal but the last")
        return self.radii is not None or square or self.hidden != "free"
