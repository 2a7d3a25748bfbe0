"""Names that know their parameters, for wrappers that hand on some parameters and the names of all."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from colangevin.errors import ConstraintError

__all__ = ["GivenNames", "taken_names"]


class GivenNames(list[str]):
    """The names of parameters, in order, which also know whose names they are.

    ``torch.distributed.optim.ZeroRedundancyOptimizer`` gives the optimizer of a rank some parameters of a
    group, in another order, and the names of all.

    Args:
        members: names and parameters.
    """

    def __init__(self, members: Iterable[tuple[str, Tensor]]) -> None:
        members = list(members)
        super().__init__(name for name, _ in members)
        self.by_parameter = {parameter: name for name, parameter in members}


def taken_names(group: dict[str, Any]) -> dict[Tensor, str]:
    """The names of a group's parameters where they are not its ``param_names``, one by one.

    In the group a plain list is left, which a state dict may hold.

    Args:
        group: of an optimizer.

    Returns:
        Names by parameter, none where ``param_names`` are in order.

    Raises:
        ConstraintError: for a parameter that has no name.
    """
    names = group.get("param_names")
    if not isinstance(names, GivenNames):
        return {}
    for place, parameter in enumerate(group["params"]):
        if parameter not in names.by_parameter:
            raise ConstraintError(
                f"params[{place}] of shape {tuple(parameter.shape)}: param_names has no name for it. Call "
                "groups.names_apart() after the parameters have got their final form."
            )
    taken = {parameter: names.by_parameter[parameter] for parameter in group["params"]}
    group["param_names"] = list(names)
    return {} if list(taken.values()) == group["param_names"] else taken
