"""Numbers of a network that chains have to agree on, if they sample one posterior."""

import torch
from torch import Tensor, nn

from colangevin.experiments.judging.chains import TRACES

__all__ = ["traced"]

# Entries of a kernel, the first and the last: any two would do.
_PLACES = (0, -1)
# Test images whose right class is looked at.
_IMAGES = 8


@torch.no_grad()
def traced(model: nn.Module, probabilities: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Numbers in weight space and in function space, as the network is now.

    Args:
        model: the network.
        probabilities: that it predicts, of shape (images, classes).
        labels: the right classes.

    Returns:
        Of every kernel the norm and two entries; of some images the logarithm of the probability of the right
        class, and of all their mean. Each by name, of shape (numbers,), on the CPU.
    """
    kernels = [module.weight for module in model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    entries = [kernel.flatten()[place] for kernel in kernels for place in _PLACES]
    own = probabilities.gather(1, labels.unsqueeze(1)).squeeze(1).double()
    logs = own.clamp_min(torch.finfo(torch.float32).tiny).log()
    found = (
        torch.stack([kernel.norm() for kernel in kernels]),
        torch.stack(entries),
        torch.cat([logs[:_IMAGES], logs.mean().unsqueeze(0)]),
    )
    return {name: numbers.float().cpu() for name, numbers in zip(TRACES, found, strict=True)}
