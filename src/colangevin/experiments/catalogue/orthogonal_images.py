"""ResNet-34 on CIFAR-10: orthogonal kernels beside SGD with momentum, weight decay and a penalty.

Leimkuhler et al. 2021, Figures 6 and D3, Appendix D.1.
"""

from dataclasses import replace

from colangevin.experiments.catalogue.claims import Claim
from colangevin.experiments.catalogue.experiment import Experiment, Quick
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.paper import comparison
from colangevin.experiments.catalogue.parts import NetworkPart
from colangevin.experiments.catalogue.problems import ImageProblem

__all__ = ["IDENTITIES", "RESNET", "SHORT"]

PROBLEM = ImageProblem()
LR, MOMENTUM = 0.1, 0.9


def sgd(name: str, *, decay: float = 0.0, penalty: float = 0.0) -> Method:
    """SGD with momentum, at the paper's learning rate."""
    return Method(
        name, LR, "ConstrainedSGD", momentum=MOMENTUM, weight_decay=decay, penalty=penalty, square="default"
    )


SGD = sgd("SGD-m")
DECAYED = sgd("SGD-m, WD 5e-4", decay=5e-4)
MILDLY = sgd("SGD-m, WD 1e-4", decay=1e-4)
START = replace(SGD, name="SGD-m, orthogonal start", square="orthogonal start")
#: h² = 0.1 and exp(-γh) = 0.9
COLUD = replace(SGD, name="o-CoLud", square="orthogonal")
FREE_LAST = replace(SGD, name="o-CoLud, last layer free", square="orthogonal but the last")
#: γ as printed; h² = 0.1 makes the momentum 0.85 at first
PRINTED = Method("o-CoLud, γ=0.5", LR**0.5, "CoLud", friction=0.5, square="orthogonal")


def soft(strength: str) -> Method:
    """SGD with momentum and the orthogonality penalty."""
    return sgd(f"SGD-m, penalty λ={strength}", penalty=float(strength))


#: the most accurate in the search below, of two the one with the lower test loss
SOFT = soft("1e-2")

ALL = (SGD, DECAYED, COLUD, SOFT, MILDLY, START, FREE_LAST, PRINTED)
_ABOUT = (
    "ResNet-34 with BatchNorm and a 3 by 3 stem, batches of 128, images padded by 4 and cropped, "
    "flipped and normalised; learning rate 0.1, a tenth of it after a third of the training and a "
    "hundredth after two thirds, momentum 0.9. All weights but the first convolution's are orthogonal "
    "(o-CoLud, in SGD's scale: h² is the learning rate, exp(-γh) the momentum), those of the last layer "
    "too unless it says otherwise, pushed towards it by λ Σ ‖WᵀW − I‖² (penalty) or started there. "
    "With γ = 0.5, as printed, the momentum is not SGD's 0.9 but 0.85, 0.95 and 0.98 in the three thirds. "
    "The paper does not print its weight decay. All methods of a run share batches, crops and, where they "
    "can, initial weights; the training loss is that of an epoch's steps."
)
QUICK = Quick(runs=1, epochs=2, sizes=(("train", 384), ("test", 400), ("batch", 32), ("width", 16)))


_TUNED = (DECAYED.name, MILDLY.name, SOFT.name)


def _claims(reading: str = "", part: str | None = None) -> tuple[Claim, ...]:
    """Of Figure 6 and the appendix, and of what they leave out."""
    return (
        comparison("fig6.accuracy", COLUD.name, (SGD.name,), part=part, reading=reading),
        comparison("fig6.loss", COLUD.name, (SGD.name,), part=part, reading=reading),
        comparison("D1.start", START.name, (SGD.name,), part=part, reading=reading),
        Claim(
            "not in the paper",
            "o-CoLud is more accurate than SGD-m at its best weight decay or penalty.",
            "test accuracy",
            COLUD.name,
            _TUNED,
            "higher",
            part=part,
        ),
    )


RESNET = Experiment(
    name="resnet34",
    title="ResNet-34 on CIFAR-10: orthogonal kernels",
    covers=("fig6",),
    about=_ABOUT,
    parts=(NetworkPart("CIFAR-10", PROBLEM, ALL),),
    runs=5,
    epochs=150,
    points=150,
    quick=QUICK,
    claims=_claims(),
)

SHORT = Experiment(
    name="resnet34-short",
    title="ResNet-34 on CIFAR-10: orthogonal kernels, 24 epochs",
    covers=("fig6-short",),
    about="As resnet34, with the same shape of schedule in 24 epochs, on all images and on 20,000 of them. "
    + _ABOUT,
    parts=(
        NetworkPart("50,000 images", PROBLEM, ALL),
        NetworkPart("20,000 images", replace(PROBLEM, train=20_000), ALL),
    ),
    runs=5,
    epochs=24,
    points=24,
    quick=replace(QUICK, parts=("20,000 images",)),
    claims=tuple(
        claim for part in ("50,000 images", "20,000 images") for claim in _claims("24 epochs", part)
    ),
)

IDENTITIES = Experiment(
    name="resnet34-identities",
    title="ResNet-34 on CIFAR-10: orthogonal kernels, blocks that start as identities",
    covers=("fig6-identities",),
    about="As resnet34-short on 20,000 images, but the gains of every block's last BatchNorm start at 0, so "
    "that a block starts as its shortcut alone. " + _ABOUT,
    parts=(NetworkPart("20,000 images", replace(PROBLEM, train=20_000, identities=True), ALL),),
    runs=5,
    epochs=24,
    points=24,
    quick=QUICK,
    claims=_claims("24 epochs on 20,000 images, blocks that start as identities"),
)
