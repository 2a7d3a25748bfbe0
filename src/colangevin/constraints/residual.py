"""What is to be 0: the components of a function of each part of a weight, with slack for bounds."""

from collections.abc import Callable

import torch
from torch import Tensor

from colangevin.constraints.linear import Dense, Linear, MatrixFree, sizes
from colangevin.errors import ConstraintError
from colangevin.surroundings import full_precision

__all__ = ["Residual"]

# From so many multiplications for J J^T on, m^2 n, it is applied and not formed. One step with momentum of g
# with m components of n weights, float32, milliseconds of one core, formed against applied. Orthonormal
# columns: m = 136, n = 256 (2^22): 2.5 and 3.8; 300, 576 (2^26): 6.0 and 4.0; 528, 1024 (2^28): 23 and 3.8;
# 1176, 2304 (2^32): 175 and 4.1. Norms of groups of rows of 256 x 256: m = 8 (2^22): 4.4 and 6.5; 16 (2^24):
# 6.1 and 6.2; 32 (2^26): 12 and 6.1; 64 (2^28): 33 and 6.1.
_FORMED = 2**24
# The most entries of a Jacobian that is formed after conjugate gradients failed: 1 GiB in float32.
_LARGEST = 2**28


class Residual:
    r"""The residual :math:`(g(w),\; c(w) + \xi^2)` of a stack of parts, each a row (w, xi) of q.

    Args:
        function: from one flat part of ``size`` entries to a vector, bounds behind equations.
        size: how many entries a part has, without slack.
        batched: whether the function is batched over parts; else there is one part in each call.
        name: of the constraint in an error.
    """

    def __init__(self, function: Callable[[Tensor], Tensor], size: int, *, batched: bool, name: str) -> None:
        self.function = function
        self.name = name
        self.size = size
        self.batched = batched

    @full_precision
    def values(self, q: Tensor) -> Tensor:
        """The components, shape (parts, m)."""
        w, xi = q[:, : self.size], q[:, self.size :]
        value: Tensor = self._batch(self.function)(w)
        if not xi.shape[1]:
            return value
        if xi.shape[1] == value.shape[1]:
            return value + xi.square()
        return value + torch.nn.functional.pad(xi.square(), (value.shape[1] - xi.shape[1], 0))

    @full_precision
    def formed(self, q: Tensor) -> Dense:
        """The derivative at q as matrices."""
        J: Tensor = self._batch(torch.func.jacrev(self.function))(q[:, : self.size])
        return Dense(J.detach(), q[:, self.size :], sizes(q))

    def applied(self, q: Tensor) -> MatrixFree:
        """The derivative at q of one part as products."""
        return MatrixFree(self.function, q[:, : self.size], q[:, self.size :])

    def linear(self, q: Tensor, components: int) -> Linear:
        """The derivative at q, in the form that costs less."""
        if self.batched or components**2 * self.size <= _FORMED:
            return self.formed(q)
        try:
            return self.applied(q)
        except NotImplementedError:  # an operation of g can be differentiated once, and products take twice
            return self.formed(q)

    def sharper(self, linear: Linear, q: Tensor) -> Dense | None:
        """The derivative as matrices, where it was not and there is room for them."""
        if isinstance(linear, Dense) or linear.components * self.size > _LARGEST:
            return None
        return self.formed(q)

    def _batch(self, function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """A function of one part as one of a stack of them."""
        if not self.batched:
            return lambda w: function(w[0]).unsqueeze(0)
        mapped = torch.func.vmap(function)

        def call(w: Tensor) -> Tensor:
            try:
                return mapped(w)
            except RuntimeError as error:
                if "vmap" not in str(error):
                    raise
                raise ConstraintError(
                    f"{self.name}: g cannot be batched over parts of the weight by torch.func.vmap. Write it "
                    "without item(), without if on values and without writing into tensors, or pass "
                    f"over='weight'. torch says: {error}"
                ) from error

        return call
