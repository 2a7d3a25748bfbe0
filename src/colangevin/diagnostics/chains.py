"""Averages over correlated draws: autocorrelation time, standard error, and ArviZ for the rest."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from colangevin.extras import extra

__all__ = ["Convergence", "autocorrelation_time", "convergence", "standard_error", "to_arviz"]

_PURPOSE = "Handing chains to ArviZ"


def autocorrelation_time(chains: Tensor) -> float:
    r"""The integrated autocorrelation time, :math:`1 + 2\sum_t \rho_t`, in draws.

    Deviations are from the mean of all chains, so that chains that disagree have a long time. The sum ends at
    the first pair of neighbouring :math:`\rho` whose sum is not positive (Geyer 1992).

    Args:
        chains: one number a draw, of shape (chains, draws).

    Returns:
        The time, at most the number of draws; 1 for a constant.

    Raises:
        ValueError: for another shape.
    """
    x = _checked(chains)
    draws = x.shape[1]
    x = x - x.mean()
    spectrum = torch.fft.rfft(x, n=2 * draws)
    covariance = torch.fft.irfft(spectrum.abs().square(), n=2 * draws)[:, :draws].mean(0) / draws
    if not float(covariance[0]) > 0:
        return 1.0
    rho = covariance / covariance[0]
    pairs = rho[: draws - draws % 2].view(-1, 2).sum(1)  # positive and decreasing for a reversible chain
    negative = torch.nonzero(pairs <= 0)
    end = int(negative[0]) if len(negative) else len(pairs)
    monotone = pairs[:end].cummin(0).values
    return float(min(max(2 * float(monotone.sum()) - 1, 1 / draws), draws))


def standard_error(chains: Tensor) -> float:
    """The standard error of the mean over all draws of all chains, autocorrelation included.

    Args:
        chains: one number a draw, of shape (chains, draws).

    Returns:
        The error; NaN for fewer than four draws.

    Raises:
        ValueError: for another shape.
    """
    x = _checked(chains)
    if x.shape[1] < 4:
        return math.nan
    return math.sqrt(float(x.var()) * autocorrelation_time(x) / x.numel())


def _checked(chains: Tensor) -> Tensor:
    if chains.dim() != 2 or not chains.numel():
        raise ValueError(f"chains: a tensor of shape {tuple(chains.shape)}; must be (chains, draws).")
    return chains.detach().double().cpu()


def to_arviz(chains: Mapping[str, Tensor]) -> Any:
    """Quantities of chains as ArviZ's ``InferenceData``, for its summaries and plots.

    Args:
        chains: by name, each of shape (chains, draws, ...), as :meth:`colangevin.Samples.map` returns them.

    Returns:
        The data, under ``posterior``.

    Raises:
        ValueError: naming a quantity without chains and draws.
    """
    for name, values in chains.items():
        if values.dim() < 2:
            raise ValueError(f"chains['{name}']: shape {tuple(values.shape)}; must be (chains, draws, ...).")
    arviz = _arviz()
    arrays = {name: values.detach().cpu().double().numpy() for name, values in chains.items()}
    with warnings.catch_warnings():
        # ArviZ warns of more chains than draws; with replicas that is usual
        warnings.filterwarnings("ignore", message="More chains")
        return arviz.from_dict(posterior=arrays)


@dataclass(frozen=True)
class Convergence:
    """How well the mean of a quantity is known. For a quantity with several entries, that of the worst.

    Attributes:
        mean: over all draws and entries.
        error: standard error of the mean: the largest standard deviation over the root of ``ess``.
        ess: effective sample size for the mean, the smallest.
        rhat: split R-hat of the ranks (Vehtari et al. 2021), the largest. A single chain is split in half
            first. Above 1.01 the chains do not agree.
        autocorrelation_time: number of draws over ``ess``.
    """

    mean: float
    error: float
    ess: float
    rhat: float
    autocorrelation_time: float


def convergence(chains: Mapping[str, Tensor]) -> dict[str, Convergence]:
    """Effective sample size and split R-hat of quantities, by ArviZ.

    Args:
        chains: by name, each of shape (chains, draws, ...).

    Returns:
        What ArviZ finds, by name.
    """
    arviz = _arviz()
    sizes = arviz.ess(to_arviz(chains), method="mean")
    rhats = arviz.rhat(to_arviz({name: _two_or_more(values) for name, values in chains.items()}))
    found = {}
    for name, values in chains.items():
        flat = values.detach().double().flatten(0, 1)
        ess = float(sizes[name].min())
        spread = float(flat.std(0).max())
        found[name] = Convergence(
            mean=float(flat.mean()),
            error=spread / math.sqrt(ess),
            ess=ess,
            rhat=float(rhats[name].max()),
            autocorrelation_time=len(flat) / ess,
        )
    return found


def _two_or_more(chains: Tensor) -> Tensor:
    """The chains; a single one is cut in half, since R-hat compares chains."""
    if len(chains) > 1:
        return chains
    half = chains.shape[1] // 2
    return torch.cat((chains[:, :half], chains[:, half : 2 * half]))


def _arviz() -> Any:
    extra("numpy", _PURPOSE)  # first: without numpy ArviZ's import fails with an error that names no extra
    with warnings.catch_warnings():
        # once a day ArviZ warns of its next major version
        warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
        warnings.filterwarnings("ignore", message="\nArviZ is undergoing", category=FutureWarning)
        return extra("arviz", _PURPOSE)
