r"""The temperature and the weight decay with which a loss samples the posterior.

With N data of likelihood $p(y_i \mid \theta)$ and a Gaussian prior of variance $\sigma^2$, the posterior at
temperature T is $e^{-U(\theta)/T}$ with $U = \sum_i \ell_i(\theta) + |\theta|^2/(2\sigma^2)$ and
$\ell_i = -\log p(y_i \mid \theta)$. The loss with its weight decay is $V = sU$. The scale s is 1/N for a mean
over all data or over a batch, B/N for a sum over a batch of B, and 1 for a sum over all data. The optimizers
sample $e^{-V/\tau}$, so $\tau = sT$.
"""

from colangevin.errors import ConstraintError

__all__ = ["posterior_temperature", "prior_weight_decay"]


def posterior_temperature(
    data: int, T: float = 1.0, *, reduction: str = "mean", batch: int | None = None
) -> float:
    r"""The `temperature` to give an optimizer so that it samples the Bayes posterior of N data.

    Call it instead of working out how the loss is scaled. The posterior at temperature T is $e^{-U/T}$, the
    loss with its weight decay is $V = sU$ with s = 1/N for a mean, and the optimizers sample $e^{-V/\tau}$:
    so $\tau = sT$.

    Args:
        data: N, how many data the whole training set has.
        T: 1 for the Bayes posterior, below 1 for a cold one.
        reduction: of the loss, `"mean"` or `"sum"`, as in torch.
        batch: how many data a summed loss sees in a step; None for N. A mean does not depend on it.

    Returns:
        T / N for a mean, T B / N for a sum.

    Raises:
        ConstraintError: for a number or a reduction that means nothing.

    Examples:
        >>> cl.posterior_temperature(60_000)
        1.6666666666666667e-05
        >>> cl.posterior_temperature(1000, 0.1, reduction="sum", batch=10)
        0.001
    """
    if isinstance(T, bool) or not isinstance(T, int | float) or not 0 <= T < float("inf"):
        raise ConstraintError(f"T={T!r}: must be finite and >= 0; 1 is the Bayes posterior.")
    return _scale(data, reduction, batch) * T


def prior_weight_decay(
    data: int, deviation: float, *, reduction: str = "mean", batch: int | None = None
) -> float:
    r"""The `weight_decay` to give an optimizer for a Gaussian prior of mean 0 on the weights.

    The negative logarithm of the prior is $|\theta|^2 / (2\sigma^2)$. It is scaled as the loss is, by s,
    which is 1/N for a mean over N data. Weight decay is its derivative: $s / \sigma^2$ times the weight.

    Args:
        data: N, how many data the whole training set has.
        deviation: the prior's standard deviation $\sigma$.
        reduction: of the loss, `"mean"` or `"sum"`, as in torch.
        batch: how many data a summed loss sees in a step; None for N. A mean does not depend on it.

    Returns:
        1 / (σ² N) for a mean, B / (σ² N) for a sum.

    Raises:
        ConstraintError: for a number or a reduction that means nothing.

    Examples:
        >>> cl.prior_weight_decay(1000, 0.5)
        0.004
        >>> model = nn.Linear(4, 1)
        >>> tau, decay = cl.posterior_temperature(1000), cl.prior_weight_decay(1000, 1.0)
        >>> optimizer = cl.CoLod(model.named_parameters(), 0.01, temperature=tau, weight_decay=decay)
    """
    if (
        isinstance(deviation, bool)
        or not isinstance(deviation, int | float)
        or not 0 < deviation < float("inf")
    ):
        raise ConstraintError(f"deviation={deviation!r}: must be positive and finite.")
    return _scale(data, reduction, batch) / deviation**2


def _scale(data: int, reduction: str, batch: int | None) -> float:
    """The scale s of the loss: 1/N for a mean, B/N for a sum."""
    if reduction not in ("mean", "sum"):
        raise ConstraintError(f"reduction={reduction!r}: must be 'mean' or 'sum', as the loss has it.")
    if isinstance(data, bool) or not isinstance(data, int) or data < 1:
        raise ConstraintError(f"data={data!r}: must be the number of training data, at least 1.")
    if batch is None:
        batch = data
    if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= data:
        raise ConstraintError(f"batch={batch!r}: must be between 1 and data={data}.")
    return (1 if reduction == "mean" else batch) / data
