r"""First moments of the matrix von Mises-Fisher law, density :math:`\propto e^{\mathrm{tr}(F^T Q)}`.

For a diagonal F, by quadrature in one dimension. On V(2, 3) the second column is uniform on the circle normal
to the first, and both circles integrate to Bessel functions:
:math:`Z = \int_{-1}^1 I_0(f_1 s) I_0(f_2 s)\,du` with :math:`s = \sqrt{1 - u^2}`. On SO(3) (Lee 2018,
"Bayesian attitude estimation with the matrix Fisher distribution on SO(3)", Eq. 10) for any order (i, j, k):
:math:`Z = \int_{-1}^1 \frac12 I_0(\frac12(f_i - f_j)(1 - u)) I_0(\frac12(f_i + f_j)(1 + u)) e^{f_k u}\,du`.
Moments are derivatives of log Z.
"""

import numpy as np
from scipy.special import i0, i1

__all__ = ["rotation_moments", "stiefel_moments"]

_NODES, _LENGTHS = np.polynomial.legendre.leggauss(400)


def stiefel_moments(f: tuple[float, float]) -> list[float]:
    """E Q_11 and E Q_22 on V(2, 3), the 3 x 2 matrices with orthonormal columns."""
    s = np.sqrt(1 - _NODES**2)
    weight = _LENGTHS * i0(f[0] * s) * i0(f[1] * s)
    return [float((weight * s * i1(each * s) / i0(each * s)).sum() / weight.sum()) for each in f]


def rotation_moments(f: tuple[float, float, float]) -> list[float]:
    """E Q_11, E Q_22 and E Q_33 on SO(3)."""
    moments = []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        u = _NODES
        weight = (
            _LENGTHS * i0((f[i] - f[j]) * (1 - u) / 2) * i0((f[i] + f[j]) * (1 + u) / 2) * np.exp(f[k] * u)
        )
        moments.append(float((weight * u).sum() / weight.sum()))
    return moments
