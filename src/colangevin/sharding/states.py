"""The state of sharded parameters: DTensors that lie as the parameters do, there from the beginning.

A checkpoint of many ranks needs the same keys on every rank, also where a rank holds no element of a
parameter.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from colangevin.constraints import Constraint
from colangevin.dynamics import Dynamics
from colangevin.sharded import whole
from colangevin.sharding.layout import Layout, layout_of
from colangevin.step.entry import state_shape

if TYPE_CHECKING:
    from colangevin.optim.base import ConstrainedOptimizer

__all__ = ["begin_states", "begun", "like", "wrapped"]


def begin_states(optimizer: "ConstrainedOptimizer") -> None:
    """Make the state of every parameter of an optimizer, unless it has one.

    Args:
        optimizer: has a sharded parameter.
    """
    for number, group in enumerate(optimizer.param_groups):
        dynamics = optimizer._dynamics(group, f"param_groups[{number}]")
        for unit in optimizer._units(number):
            if unit.first.requires_grad and unit.first not in optimizer.state:
                optimizer.state[unit.first] = begun(unit.weight, group["constraint"], dynamics)


@torch.no_grad()
def begun(parameter: Tensor, constraint: Constraint, dynamics: Dynamics) -> dict[str, Any]:
    """The state of a parameter before its first step.

    Args:
        parameter: a DTensor or, beside DTensors in an optimizer, a plain one.
        constraint: what holds it.
        dynamics: of its group.

    Returns:
        ``step`` and, where steps have them, moments and ``position``.
    """
    manifold = constraint.on(parameter.shape)
    dtype = dynamics.precision(manifold, parameter.dtype)
    shape = state_shape(manifold, tuple(parameter.shape), 1)
    device = parameter.device
    state: dict[str, Any] = {"step": torch.zeros((), dtype=torch.int64, device=device)}
    made: dict[str, Tensor] = {}
    if manifold.stored(parameter.dtype) and parameter.numel():
        weight = whole(parameter.detach()).unsqueeze(0).to(dtype)
        made["position"] = manifold.lift(weight).reshape(shape)
    for key in dynamics.kept(manifold):
        made[key] = torch.zeros((), dtype=dtype, device=device).expand(shape)
    for key, value in made.items():
        state[key] = like(value, parameter) if isinstance(parameter, DTensor) else value.contiguous()
    return state


def like(value: Tensor, parameter: DTensor) -> DTensor:
    """A tensor of the state as a DTensor that lies as its parameter does.

    Args:
        value: a whole one, the same on every process, or a DTensor.
        parameter: of the state.

    Returns:
        The DTensor; nothing is sent, unless the value lay in another way.
    """
    mesh = parameter.device_mesh
    layout = layout_of(parameter, f"a parameter of shape {tuple(parameter.shape)}").of_state(value.shape)
    if isinstance(value, DTensor) and value.device_mesh == mesh and value.placements == layout.placements:
        return value
    slices = layout.region(mesh.get_coordinate() or ()).slices
    return wrapped(whole(value)[slices].clone(memory_format=torch.contiguous_format), layout, mesh)


def wrapped(part: Tensor, layout: Layout, mesh: DeviceMesh) -> DTensor:
    """A part of a tensor as the DTensor that it is part of.

    Args:
        part: what this process holds.
        layout: of the tensor.
        mesh: that it lies on.

    Returns:
        The DTensor, over the same memory.
    """
    strides = [1]
    for n in reversed(layout.whole[1:]):
        strides.append(strides[-1] * max(1, n))
    made: DTensor = DTensor.from_local(
        part,
        mesh,
        layout.placements,
        run_check=False,
        shape=torch.Size(layout.whole),
        stride=tuple(reversed(strides[: len(layout.whole)])),
    )
    return made
