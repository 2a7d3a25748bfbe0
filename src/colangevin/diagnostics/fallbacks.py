"""How often a projection took another way than the paper's."""

from colangevin.constraints import Orthogonal
from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["fallbacks"]


def fallbacks(optimizer: ConstrainedOptimizer) -> int:
    """How many steps of matrices under orthogonality ended with the polar factor.

    That is where the paper's quasi-Newton iteration does not converge, because the step is too long. Counted
    over all matrices since the optimizer was built; loading a state may begin anew.

    Args:
        optimizer: any optimizer of this library.

    Returns:
        The count; on CUDA, reading it waits for the device.
    """
    held = {id(group["constraint"]): group["constraint"] for group in optimizer.param_groups}
    plain = sum(each.fallbacks for each in held.values() if isinstance(each, Orthogonal))
    plan = optimizer._plan
    return plain + (sum(fused.fallbacks() for fused in plan.fused) if plan is not None else 0)
