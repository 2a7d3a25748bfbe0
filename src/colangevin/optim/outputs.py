"""Outputs: the layers of which dimension 1 of the weight, and not dimension 0, counts the outputs."""

from torch import Tensor, nn

__all__ = ["transposed_groups"]

_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def transposed_groups(model: nn.Module) -> dict[Tensor, int]:
    """The weights of shape (in, out / groups, ...) in a model.

    Args:
        model: any module.

    Returns:
        The number of groups by weight. A weight that layers of both kinds share is left out.
    """
    found: dict[Tensor, int] = {}
    ordinary: set[Tensor] = set()
    for module in model.modules():
        weight = module._parameters.get("weight")
        if weight is None:
            continue
        if groups := _groups(module):
            found[weight] = groups
        else:
            ordinary.add(weight)
    return {weight: groups for weight, groups in found.items() if weight not in ordinary}


def _groups(module: nn.Module) -> int:
    """The number of groups of a layer whose weight is transposed; 0 for any other."""
    if isinstance(module, _TRANSPOSED):
        return module.groups
    # Conv1D of transformers has weight (in, out). By name, since importing it takes seconds.
    kinds = [kind for kind in type(module).__mro__ if kind.__name__ == "Conv1D"]
    return int(any(kind.__module__.split(".")[0] == "transformers" for kind in kinds))
