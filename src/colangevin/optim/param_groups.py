"""``constrain``: which parameters of a model get which constraint."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn

from colangevin.constraints import Circle, Constraint, Free
from colangevin.errors import ConstraintError
from colangevin.optim.guards import warn_at_rest

__all__ = ["Rules", "choose", "constrain", "start"]

Rules = (
    Mapping[str, Constraint | None]
    | Mapping[type[nn.Module], Constraint | None]
    | Mapping[str | type[nn.Module], Constraint | None]
)


def constrain(model: nn.Module, rules: Rules, *, init: bool = True) -> list[dict[str, Any]]:
    """Parameter groups for an optimizer of this library, one for each constraint and one for the rest.

    The first rule that fits a parameter wins; what no rule fits is free.

    Args:
        model: any module.
        rules: maps a glob on parameter names (``"layers.*.weight"``) or a module class (its ``weight``, never
            its bias) to a constraint, or to None for "leave free".
        init: whether to put the weights onto their manifolds in place: orthogonal initialisation, projection
            for spheres without slack and implicit constraints; circles and spheres with slack keep the
            weights and raise when they do not fit. Without it weights are only checked.

    Returns:
        Groups with named parameters.

    Raises:
        ConstraintError: for a rule that fits nothing; InfeasibleError for a weight that does not fit.
        TypeError: for a rule that is neither a glob nor a class, or that leads to no constraint.
    """
    groups = choose(model, rules)
    for group in groups:
        for name, parameter in group["params"]:
            start(group["constraint"], parameter, name, init=init)
    return groups


def choose(model: nn.Module, rules: Rules, *, replicas: int = 0) -> list[dict[str, Any]]:
    """The groups of :func:`constrain`, before anything is done to the weights.

    Args:
        model: any module.
        rules: as there.
        replicas: how many copies its parameters stack along dimension 0, 0 when they are single weights.

    Returns:
        Groups with named parameters.

    Raises:
        ConstraintError: for a rule that fits nothing, or a shape that its constraint cannot hold.
        TypeError: for a rule that is neither a glob nor a class, or that leads to no constraint.
    """
    names = _names(model)
    chosen: dict[Tensor, Constraint] = {}
    for rule, constraint in rules.items():
        if not (constraint is None or isinstance(constraint, Constraint)):
            raise TypeError(
                f"rule {_words(rule)}: {constraint!r} is not a constraint; use one such as "
                "colangevin.Circle(0.05), or None to leave the parameters free."
            )
        fitting = _fitting(model, rule, names)
        if not fitting:
            known = ", ".join(name for aliases in names.values() for name in aliases)
            raise ConstraintError(
                f"rule {_words(rule)} fits no parameter of {type(model).__name__}. "
                f"Its parameters are: {known}."
            )
        for parameter in fitting:
            chosen.setdefault(parameter, constraint or Free())
    groups: dict[Constraint, list[tuple[str, Tensor]]] = {}
    for parameter, aliases in names.items():
        constraint = chosen.get(parameter, Free())
        constraint.check_stack(parameter.shape, bool(replicas), aliases[0])
        groups.setdefault(constraint, []).append((aliases[0], parameter))
    copies = {"replicas": replicas} if replicas else {}
    return [{"params": members, "constraint": each, **copies} for each, members in groups.items()]


def start(
    constraint: Constraint, parameter: Tensor, name: str, *, init: bool, replicas: bool = False
) -> None:
    """Put a parameter onto its manifold, or check that it is there.

    Args:
        constraint: what is to hold it.
        parameter: one weight, or a stack of them along dimension 0.
        name: what to call it in an error.
        init: whether to change it.
        replicas: whether it is such a stack.
    """
    if init:
        constraint.init_(parameter, replicas=replicas, name=name)
    else:
        constraint.check(parameter, replicas=replicas, name=name)
    if isinstance(constraint, Circle):
        warn_at_rest(constraint, parameter, name)


def _names(model: nn.Module) -> dict[Tensor, list[str]]:
    """Every parameter with all its names; tied parameters have several."""
    names: dict[Tensor, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    return names


def _fitting(model: nn.Module, rule: str | type[nn.Module], names: dict[Tensor, list[str]]) -> list[Tensor]:
    """The parameters a rule fits."""
    if isinstance(rule, str):
        return [p for p, aliases in names.items() if any(fnmatchcase(a, rule) for a in aliases)]
    if not (isinstance(rule, type) and issubclass(rule, nn.Module)):
        raise TypeError(f"rule {rule!r}: must be a glob on parameter names or a module class.")
    weights = [getattr(m, "weight", None) for m in model.modules() if isinstance(m, rule)]
    return [weight for weight in weights if isinstance(weight, Tensor) and weight in names]


def _words(rule: str | type[nn.Module]) -> str:
    return rule.__name__ if isinstance(rule, type) else repr(rule)
