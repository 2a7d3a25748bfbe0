"""Other libraries' optimizers on the Stiefel manifold.

Both would take a convolution kernel for a batch of 3 x 3 matrices, so each weight is handed to them
flattened, and transposed where they want it so.
"""

from torch import Tensor

from benchmarks.contender import LR, MOMENTUM, Contender, Run, matrices, optimizer_run, orthogonality

__all__ = ["GEOOPT_CANONICAL", "GEOOPT_EUCLIDEAN", "POGO"]


def _geoopt(manifold: str, weights: list[Tensor], size: float) -> Run:
    import geoopt

    stiefel = getattr(geoopt, manifold)()
    points: list[Tensor] = [
        geoopt.ManifoldParameter(matrix, manifold=stiefel) for matrix in matrices(weights, tall=True)
    ]
    optimizer = geoopt.optim.RiemannianSGD(points, lr=LR, momentum=MOMENTUM)
    return optimizer_run(optimizer, points, size, error=lambda: orthogonality(points))


def _geoopt_euclidean(weights: list[Tensor], size: float) -> Run:
    return _geoopt("EuclideanStiefel", weights, size)


def _geoopt_canonical(weights: list[Tensor], size: float) -> Run:
    return _geoopt("CanonicalStiefel", weights, size)


def _pogo(weights: list[Tensor], size: float) -> Run:
    import pogo
    from pogo.base import SGD

    points = [matrix.unsqueeze(0).requires_grad_() for matrix in matrices(weights, tall=False)]
    optimizer = pogo.POGO(points, SGD(momentum=MOMENTUM), lr=LR)
    return optimizer_run(optimizer, points, size, error=lambda: orthogonality([p[0] for p in points]))


GEOOPT_EUCLIDEAN = Contender("RiemannianSGD, EuclideanStiefel", "geoopt", _geoopt_euclidean, 5)
GEOOPT_CANONICAL = Contender("RiemannianSGD, CanonicalStiefel", "geoopt", _geoopt_canonical, 5)
POGO = Contender("POGO", "pogo-torch", _pogo, 5)
