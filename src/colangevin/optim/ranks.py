"""Whether the ranks of a distributed job hold the same weights and seeds, asked once at the first step."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
import torch.distributed
from torch import Tensor

from colangevin.dynamics.rates import largest
from colangevin.errors import ConstraintError, label
from colangevin.independence import several
from colangevin.optim.checksums import checksums
from colangevin.optim.names import stripped
from colangevin.sharded import is_sharded, part, refuse_sharded

if TYPE_CHECKING:
    from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["check_first_step", "check_ranks"]

Thing = TypeVar("Thing")


class _Parameter(NamedTuple):
    """What is compared with a parameter of another rank: one of the same name or place, and shape.

    Of DTensors the parts that begin at the same element are compared.
    """

    name: str
    shape: tuple[int, ...]
    named: bool
    start: tuple[int, ...] = ()


class _Group(NamedTuple):
    """What is compared with a group of another rank: one that has the same number and parameters."""

    number: int
    parameters: tuple[_Parameter, ...]
    noise_by: str


class _Held(NamedTuple):
    """What a rank holds."""

    checksums: dict[_Parameter, tuple[str, int]]
    seeds: dict[_Group, int | None]


def check_first_step(optimizer: "ConstrainedOptimizer") -> None:
    """Call :func:`check_ranks` before the first step that moves weights.

    A step with ``lr=0`` is none: ``torch.distributed.checkpoint`` takes one before it loads weights. Nor is
    one that is captured into a CUDA graph, where the host cannot read weights.

    Args:
        optimizer: one of this library's, about to take a step.

    Raises:
        ConstraintError: when no parameter has a gradient, as when the model was sharded in the meantime.
    """
    if not several():
        optimizer._compared = True
        return
    capturing = torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()
    if capturing or not any(largest(group["lr"]) for group in optimizer.param_groups):
        return
    if optimizer._parameters() and all(each.grad is None for each in optimizer._parameters()):
        raise ConstraintError(
            "param_groups: no parameter has a gradient at the first step. If the model was sharded after its "
            "optimizer was built (fully_shard, parallelize_module, distribute_module), the optimizer has "
            "parameters that the model has no longer: build the optimizer after that. Else call backward() "
            "before step()."
        )
    check_ranks(optimizer)


def check_ranks(optimizer: "ConstrainedOptimizer") -> None:
    """Raise unless all ranks hold the same weights, bit for bit, and the same seeds.

    Gradients are averaged over the ranks, weights are not. Ranks that begin with other weights or other noise
    stay apart, and each of their losses falls all the same. All ranks have to call this, and all raise the
    same error. What only some ranks have is not compared: with ``ZeroRedundancyOptimizer`` and as stages of a
    pipeline, ranks move different parameters. Of a DTensor those ranks are compared that hold the same part.
    Outside of a distributed job, and for an optimizer that was built inside of `independent_ranks`, it does
    nothing.

    Args:
        optimizer: one of this library's.

    Raises:
        ConstraintError: naming the parameter or the group, and the rank.
    """
    if several() and not optimizer._independent:
        held = _held(optimizer)
        # what is alike on all ranks, as it should be, is a line from each; only what differs is sent whole
        digest = hashlib.sha256(repr(held).encode()).hexdigest()
        if len(set(_gathered(digest))) > 1:
            _compare(_gathered(held))
    optimizer._compared = True


def _gathered(mine: Thing) -> list[Thing]:
    """What every rank has, in the order of ranks."""
    everyone: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, mine)
    return everyone


def _compare(everyone: Sequence[_Held]) -> None:
    """Raise for the first parameter or seed that differs from that of the first rank which has it."""
    parameters: dict[_Parameter, tuple[int, object]] = {}
    groups: dict[_Group, tuple[int, object]] = {}
    for rank, held in enumerate(everyone):
        for parameter, checksum in held.checksums.items():
            first, known = parameters.setdefault(parameter, (rank, checksum))
            if checksum != known:
                raise ConstraintError(_other_values(parameter, rank, first))
    for rank, held in enumerate(everyone):
        for group, seed in held.seeds.items():
            first, known = groups.setdefault(group, (rank, seed))
            if seed != known:
                raise ConstraintError(
                    f"seed in param_groups[{group.number}]: rank {rank} has {seed!r}, rank {first} has "
                    f"{known!r}, so their noise would differ. Give every rank the same seed, or seed=None: "
                    f"the ranks then draw one together. {_CHAINS}"
                )
    _compare_numbered(everyone)


def _compare_numbered(everyone: Sequence[_Held]) -> None:
    """Raise for different parameters that would get the same noise, since they are known by their numbers."""
    numbered: dict[tuple[int, int | None], tuple[int, _Group]] = {}
    for rank, held in enumerate(everyone):
        for group, seed in held.seeds.items():
            if group.noise_by != "index" or not group.parameters:
                continue
            first, known = numbered.setdefault((group.number, seed), (rank, group))
            if group.parameters != known.parameters:
                raise ConstraintError(
                    f"param_groups[{group.number}]: rank {rank} has other parameters than rank {first} and "
                    "the same seed. Their noise is known by their numbers, so it would repeat. Give them "
                    "with names: groups.names_apart() of colangevin.constrain under ZeroRedundancyOptimizer, "
                    "model.named_parameters() otherwise."
                )


_CHAINS = "For a chain of its own on each rank, build the optimizer inside of colangevin.independent_ranks()."


def _other_values(parameter: _Parameter, rank: int, first: int) -> str:
    advice = (
        "Load the same checkpoint on every rank, or wrap the model in DistributedDataParallel, which sends "
        "rank 0's weights to all, before the first step."
    )
    if not parameter.named:
        advice += (
            " Where ranks have different parameters, as under ZeroRedundancyOptimizer or in the stages of a "
            "pipeline, give these with names: those of the same name are compared."
        )
    return (
        f"{label(parameter.name, parameter.shape)}: rank {rank} holds other values than rank {first}, so the "
        f"ranks would train different models. {advice} {_CHAINS}"
    )


def _held(optimizer: "ConstrainedOptimizer") -> _Held:
    keys: list[_Parameter] = []
    weights: list[Tensor] = []
    seeds: dict[_Group, int | None] = {}
    for number, group in enumerate(optimizer.param_groups):
        for name, weight in zip(optimizer._names(number), group["params"], strict=True):
            refuse_sharded(weight, name)  # one that was cut since the optimizer was built
        named = group.get("param_names") is not None
        found = [
            (_Parameter(stripped(name) if named else name, tuple(weight.shape), named), weight)
            for name, weight in zip(optimizer._names(number), group["params"], strict=True)
            if is_sharded(weight) or not (hasattr(weight, "__tensor_flatten__") or weight.is_meta)
        ]
        held = [(key._replace(start=_start(weight)), part(weight)) for key, weight in found]
        held = [(key, weight) for key, weight in held if weight.numel()]
        keys += [key for key, _ in held]
        weights += [weight for _, weight in held]
        if largest(group["temperature"]):
            seeds[_Group(number, tuple(key for key, _ in found), group["noise_by"])] = group["seed"]
    dtypes = [str(weight.dtype) for weight in weights]
    return _Held(dict(zip(keys, zip(dtypes, checksums(weights), strict=True), strict=True)), seeds)


def _start(weight: Tensor) -> tuple[int, ...]:
    """Where this rank's part of a DTensor begins."""
    if not is_sharded(weight):
        return ()
    from colangevin.sharding.layout import region_of  # imports the modules of DTensors

    return region_of(weight).start
