"""Canonical names of parameters: those of the model itself, whatever has been wrapped around it."""

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from colangevin.errors import ConstraintError

__all__ = ["named", "stripped"]

# Where torch.compile, activation checkpointing, FullyShardedDataParallel and Lightning Fabric keep the module
# that they wrap. Nobody else uses these names.
_RESERVED = frozenset(
    {
        "_orig_mod",
        "_checkpoint_wrapped_module",
        "_fsdp_wrapped_module",
        "_forward_module",
        "_original_module",
    }
)
# These keep it as "module", a name that users give too: here the class decides.
_WRAPPERS = (AveragedModel, nn.DataParallel, DistributedDataParallel)


def named(model: nn.Module) -> dict[Tensor, list[str]]:
    """Every parameter of a model with its canonical names. Tied parameters have several.

    Args:
        model: any module, also one inside of `torch.compile`, `DistributedDataParallel` or
            `AveragedModel`.

    Returns:
        Names by parameter, both in the order of `named_parameters`. If wrappers were all that kept two
        parameters apart, the names are those of torch.

    Raises:
        ConstraintError: for a lazy parameter, which has no shape yet.
    """
    found = list(model.named_parameters(remove_duplicate=False))
    for name, parameter in found:
        if nn.parameter.is_lazy(parameter):
            raise ConstraintError(f"parameter '{name}': has no shape yet. Run the model on one batch first.")
    canonical = [(_canonical(model, name), parameter) for name, parameter in found]
    owner = dict(canonical)
    if any(owner[name] is not parameter for name, parameter in canonical):
        canonical = found
    names: dict[Tensor, list[str]] = {}
    for name, parameter in canonical:
        aliases = names.setdefault(parameter, [])
        if name not in aliases:
            aliases.append(name)
    return names


def stripped(name: str) -> str:
    """A name without the prefixes of wrappers, where only the name is known.

    A user's own module called `module` at the front is taken for a wrapper.

    Args:
        name: of a parameter.

    Returns:
        The canonical name.

    >>> stripped("module._orig_mod.0.weight")
    '0.weight'
    """
    parts = [part for part in name.split(".") if part not in _RESERVED]
    while len(parts) > 1 and parts[0] == "module":
        del parts[0]
    return ".".join(parts)


def _canonical(model: nn.Module, name: str) -> str:
    """A parameter's name without the steps from a wrapper to what it wraps."""
    kept = []
    here: nn.Module | None = model
    for part in name.split("."):
        if part not in _RESERVED and not (part == "module" and isinstance(here, _WRAPPERS)):
            kept.append(part)
        here = None if here is None else here._modules.get(part)
    return ".".join(kept)
