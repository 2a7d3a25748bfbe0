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
    r"""How many draws of a chain are worth one independent draw.

    It is the integrated autocorrelation time, $1 + 2\sum_t \rho_t$, in draws. Deviations are from the mean of
    all chains, so that chains that disagree have a long time. The sum ends at the first pair of neighbouring
    $\rho$ whose sum is not positive (Geyer 1992).

    Args:
        chains: one number a draw, of shape (chains, draws).

    Returns:
        The time, at most the number of draws; 1 for a constant.

    Raises:
        ValueError: for another shape.

    Examples:
        >>> steps = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))
        >>> independent = cl.diagnostics.autocorrelation_time(steps)
        >>> walk = cl.diagnostics.autocorrelation_time(steps.cumsum(dim=1))
        >>> 0.5 < independent < 2, walk > 10
        (True, True)
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
    r"""The standard error of a mean over correlated draws: give it with every average over a run.

    It is that of the mean over all draws of all chains, $\sqrt{s^2 t / n}$ with the variance $s^2$ of n draws
    and their autocorrelation time t.

    Args:
        chains: one number a draw, of shape (chains, draws).

    Returns:
        The error; NaN for fewer than four draws.

    Raises:
        ValueError: for another shape.

    Examples:
        >>> draws = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))
        >>> error = cl.diagnostics.standard_error(draws)
        >>> 0.5 < error / (1 / 4000**0.5) < 2
        True
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
    """Hand chains to ArviZ, for its summaries and plots.

    Args:
        chains: by name, each of shape (chains, draws, ...), as `colangevin.Samples.map` returns them.

    Returns:
        ArviZ's `InferenceData`, with the quantities under `posterior`.

    Raises:
        ValueError: naming a quantity without chains and draws.

    Examples:
        >>> data = cl.diagnostics.to_arviz({"loss": torch.zeros(2, 100)})
        >>> dict(data.posterior.sizes)
        {'chain': 2, 'draw': 100}
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
    """How well chains know the mean of a quantity; `convergence` finds it.

    For a quantity with several entries it is that of the worst.

    Attributes:
        mean: over all draws and entries.
        error: standard error of the mean: the largest standard deviation over the root of `ess`.
        ess: effective sample size for the mean, the smallest.
        rhat: split R-hat of the ranks (Vehtari et al. 2021), the largest. A single chain is split in half
            first. Above 1.01 the chains do not agree.
        autocorrelation_time: number of draws over `ess`.

    Examples:
        >>> draws = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))
        >>> found = cl.diagnostics.convergence({"loss": draws})["loss"]
        >>> isinstance(found, cl.diagnostics.Convergence), found.rhat < 1.05
        (True, True)
    """

    mean: float
    error: float
    ess: float
    rhat: float
    autocorrelation_time: float


def convergence(chains: Mapping[str, Tensor]) -> dict[str, Convergence]:
    """Ask whether chains agree and how many independent draws they are worth.

    It gives the effective sample size and the split R-hat of quantities, by ArviZ. An R-hat above 1.01 says
    that chains disagree: run longer, or burn in longer.

    Args:
        chains: by name, each of shape (chains, draws, ...).

    Returns:
        What ArviZ finds, by name.

    Examples:
        >>> draws = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0))
        >>> apart = draws + 10 * torch.arange(4).view(4, 1)
        >>> found = cl.diagnostics.convergence({"together": draws, "apart": apart})
        >>> found["together"].rhat < 1.05, found["apart"].rhat > 1.5
        (True, True)
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
