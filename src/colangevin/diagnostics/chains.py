"""Averages over chains that remember: autocorrelation, standard errors, and ArviZ for the rest."""

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

    Deviations are taken from the mean of all chains, so that chains that disagree have a long one. The sum
    ends where neighbouring pairs of :math:`\rho` are no longer positive (Geyer 1992).

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
    """The standard error of the mean of all draws of all chains, their autocorrelation counted.

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
        warnings.filterwarnings("ignore", message="More chains")  # replicas are many, and meant to be
        return arviz.from_dict(posterior=arrays)


@dataclass(frozen=True)
class Convergence:
    """What is known of a quantity's mean, its worst entry for quantities that have several.

    Attributes:
        mean: over all draws and entries.
        error: its standard error, the standard deviation over the root of ``ess``.
        ess: effective sample size for the mean.
        rhat: split R-hat of the ranks (Vehtari et al. 2021), of a single chain that of its halves; above 1.01
            the chains do not agree.
        autocorrelation_time: draws for one effective one.
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
    """The chains, or the halves of a single one: R-hat compares chains."""
    if len(chains) > 1:
        return chains
    half = chains.shape[1] // 2
    return torch.cat((chains[:, :half], chains[:, half : 2 * half]))


def _arviz() -> Any:
    extra("numpy", _PURPOSE)  # first: an ArviZ without it would fail on its own import
    with warnings.catch_warnings():
        # it speaks of its next major version, once a day
        warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
        warnings.filterwarnings("ignore", message="\nArviZ is undergoing", category=FutureWarning)
        return extra("arviz", _PURPOSE)
