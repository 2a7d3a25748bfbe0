"""Checks of a state dict of samples, before it is loaded."""

from typing import Any

from colangevin.errors import SamplesError
from colangevin.sampling.memory import Weights

__all__ = ["check"]


def check(state_dict: dict[str, Any], weights: Weights, *, in_memory: bool) -> None:
    """Raise unless samples can load a state dict.

    Args:
        state_dict: what :meth:`colangevin.Samples.state_dict` returned.
        weights: of the model.
        in_memory: whether the samples are in memory. The state dict must then hold them.

    Raises:
        SamplesError: naming the entry.
    """
    for name, least in (("calls", 0), ("every", 1)):
        _check_number(f"{name}", state_dict.get(name), least)
    taken = state_dict.get("taken")
    if not isinstance(taken, list):
        raise SamplesError(f"state_dict: taken={taken!r} must be a list of calls. {_SOURCE}")
    for i, call in enumerate(taken):
        _check_number(f"taken[{i}]", call, 1)
    if in_memory and "samples" not in state_dict:
        raise SamplesError(
            "state_dict: is of samples in a folder, these are in memory. Load them by Samples.load(folder, "
            "model), then load the state dict."
        )
    if not in_memory and "samples" in state_dict:
        raise SamplesError(
            "state_dict: is of samples in memory, these are in a folder. Load it into Samples(model) "
            "without a folder."
        )
    if in_memory and taken:
        _check_stacks(state_dict["samples"], {name: (len(taken), *w.shape) for name, w in weights.items()})


_SOURCE = "Load what Samples.state_dict() returned."


def _check_number(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SamplesError(
            f"state_dict: {name}={value!r} must be a whole number, at least {least}. {_SOURCE}"
        )


def _check_stacks(stacks: Weights, expected: dict[str, tuple[int, ...]]) -> None:
    found = {name: tuple(stack.shape) for name, stack in stacks.items()}
    for name in {**expected, **found}:
        there, here = found.get(name, "missing"), expected.get(name, "missing")
        if there != here:
            raise SamplesError(
                f"state_dict: the stack of samples of tensor '{name}' is {there}, for this model it must be "
                f"{here}. Use the model whose weights were collected."
            )
