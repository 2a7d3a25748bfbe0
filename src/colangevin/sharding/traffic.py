"""Traffic: how many bytes a process sends for a step of one weight, on each of the ways.

Counted is a step with one gradient and one drift ("OBA"), or an overdamped one, in which nothing unusual
happens: no weight was edited, and every iteration converges. Numbers are means over the processes that hold
the weight. A weight whose parts move alone sends nothing.
"""

import itertools
import math

import torch

from colangevin.constraints import Manifold
from colangevin.constraints.dtypes import state_dtype
from colangevin.constraints.forms import OrthogonalForm
from colangevin.sharding.exchange import padded
from colangevin.sharding.layout import Layout
from colangevin.sharding.region import Region
from colangevin.sharding.ways import summed
from colangevin.step.entry import state_shape

__all__ = ["owned", "summed_bytes", "together"]

_FLOAT64 = 8
# whether a part was edited
_FLAG = Region((1,), (0,), (1,))


def together(
    manifold: Manifold, layout: Layout, dtype: torch.dtype, *, momentum: bool, noisy: bool = False
) -> float:
    """What a process sends where parts move together: a ring sends each byte of a sum 2 (R - 1)/R times.

    Args:
        manifold: of the whole weight.
        layout: of the weight.
        dtype: of the weight.
        momentum: whether steps have one.
        noisy: whether there is noise.

    Returns:
        The bytes.
    """
    ranks = math.prod(layout.mesh[d] for d in summed(layout, manifold))
    return 2 * (ranks - 1) / ranks * summed_bytes(manifold, layout, dtype, momentum=momentum, noisy=noisy)


def summed_bytes(
    manifold: Manifold, layout: Layout, dtype: torch.dtype, *, momentum: bool, noisy: bool = False
) -> float:
    """How many bytes go into the sums over the parts of a weight.

    Args:
        manifold: of the whole weight.
        layout: of the weight.
        dtype: of the weight.
        momentum: whether steps have one.
        noisy: whether there is noise.

    Returns:
        The bytes of a process.
    """
    if not isinstance(manifold.form, OrthogonalForm):
        rows = manifold.configuration_shape[0]
        others = set(layout.cutting) - set(summed(layout, manifold))
        peak = dtype == torch.float64  # which scales rows first
        # the sums of a projection onto the sphere; or those of a drift, and of the projections of a momentum
        numbers = 1 + peak + (2 + (2 + peak) * (1 + noisy)) * momentum
        return numbers * _FLOAT64 * rows / math.prod(layout.mesh[d] for d in others)
    s = min(manifold.configuration_shape)
    square = s * s * state_dtype(dtype).itemsize
    if not momentum:  # the two products of a projection; whether it converged and its result may be trusted
        return 2 * square + 2
    projected = square + 2 * _FLOAT64  # the product, and the sizes before and after
    # a drift: two products, three decisions, and the projection of the momentum; O has another one for noise
    return 2 * square + 3 + projected * (1 + noisy)


def owned(manifold: Manifold, layout: Layout, dtype: torch.dtype, *, momentum: bool, owner: int = 0) -> float:
    """What a process sends where the weight goes to its owner and back, padding included.

    Args:
        manifold: of the whole weight.
        layout: of the weight.
        dtype: of the weight; the gradient has the same.
        momentum: whether steps have one.
        owner: which of the processes steps the weight.

    Returns:
        The bytes.
    """
    kept = momentum + manifold.stored(dtype)
    state_layout = layout.of_state(state_shape(manifold, layout.whole, 1))
    lengths = [range(n) if d in layout.cutting else range(1) for d, n in enumerate(layout.mesh)]
    places = list(itertools.product(*lengths))
    total = 0
    for place in places[:owner] + places[owner + 1 :]:
        weight = padded(layout.region(place), dtype.itemsize)
        state = padded(state_layout.region(place), state_dtype(dtype).itemsize)
        # the flag, weight, gradient and state on the way there, weight and state on the way back
        total += padded(_FLAG, 1) + 2 * weight + kept * state + weight + kept * state
    return total / len(places)
