"""Layers that take the weights of many copies as one batch, without `torch.func.vmap`.

In a small network vmap itself takes longer than the layers do, and it adds a bias in passes of their own.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.modules.module import _has_any_global_hook

__all__ = ["layers_in_a_row", "through"]

# What they do to an entry depends on that entry alone.
_ENTRYWISE = (
    *(nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus, nn.Sigmoid, nn.Tanh),
)


def layers_in_a_row(module: nn.Module) -> list[nn.Module] | None:
    """The layers of a module whose forward is one layer after the other.

    Args:
        module: a model.

    Returns:
        The layers, all of which :func:`through` can take; None if a module does anything else.
    """
    if _watched(module):
        return None
    if type(module) is nn.Sequential:
        found: list[nn.Module] = []
        for each in module:
            layers = layers_in_a_row(each)
            if layers is None:
                return None
            found += layers
        return found
    # not isinstance: a subclass, as that of a parametrized layer, may have a forward of its own
    known = type(module) in (nn.Linear, nn.Flatten, *_ENTRYWISE)
    return [module] if known and not getattr(module, "inplace", False) else None


def through(layer: nn.Module, x: Tensor) -> Tensor:
    """The outputs of a layer whose parameters are stacks.

    Args:
        layer: one of :func:`layers_in_a_row`.
        x: an input for each copy, of shape (copies, ...).

    Returns:
        The outputs, of shape (copies, ...).
    """
    if isinstance(layer, nn.Linear):
        return _linear(x, layer.weight, layer.bias)
    if isinstance(layer, nn.Flatten):
        shape = layer(x[0]).shape  # which raises what it raises for one copy
        return x.reshape(len(x), *shape)
    out: Tensor = layer(x)
    return out


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Multiply by Wᵀ and add b, for all copies in one call."""
    if x.dim() < 2:  # one number for each, which torch refuses
        return linear(x[0], weight[0], None if bias is None else bias[0])
    rows = x.flatten(1, -2) if x.dim() > 2 else x.unsqueeze(1)
    out = rows @ weight.mT if bias is None else torch.baddbmm(bias.unsqueeze(1), rows, weight.mT)
    return out.view(*x.shape[:-1], out.shape[-1])


def _watched(module: nn.Module) -> bool:
    """Whether somebody wants to be called where a module is, or has replaced its forward."""
    hooks = module._forward_hooks or module._forward_pre_hooks
    hooks = hooks or module._backward_hooks or module._backward_pre_hooks
    replaced = "forward" in module.__dict__ or module._compiled_call_impl is not None
    return bool(hooks) or replaced or _has_any_global_hook()
