"""What several experiments compare their methods with."""

from colangevin.experiments.catalogue.method import Method

__all__ = ["sgd"]


def sgd(lr: str, momentum: str, decay: str = "0") -> Method:
    """SGD with momentum, named by its options."""
    suffix = "" if decay == "0" else f", WD {decay}"
    return Method(
        f"SGD-m {lr}, {momentum}{suffix}",
        float(lr),
        "ConstrainedSGD",
        momentum=float(momentum),
        weight_decay=float(decay),
    )
