"""Samplers of three libraries behind one face: a function that runs a target for a while.

Each returns what it observed after its burn-in, shape (chains, draws), and the seconds that took. Torch
libraries get their gradients by automatic differentiation, as their users do; mici gets them by hand.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import colangevin as cl
from benchmarks.sampling.targets import Target

__all__ = ["SAMPLERS", "Chains", "Sampler", "stepping"]

Observed = tuple[Tensor, float]
#: what takes a step of all chains, and what observes them
Chains = tuple[Callable[[], None], Callable[[], Tensor]]

_BURN = 0.1  # of the time


@dataclass(frozen=True)
class Sampler:
    """One method of one library.

    Attributes:
        library: its distribution.
        method: its name in the results.
        chains: how many it runs.
        run: from a target, the number of chains and seconds to what it observed.
        begin: from a target and the number of chains to chains, where these take steps one by one.
    """

    library: str
    method: str
    chains: int
    run: Callable[[Any, int, float], Observed]
    begin: Callable[[Any, int], Chains] | None = None


def stepping(library: str, method: str, chains: int, begin: Callable[[Any, int], Chains]) -> Sampler:
    """A sampler whose chains take steps one by one.

    Args:
        library: its distribution.
        method: its name in the results.
        chains: how many it runs.
        begin: from a target and the number of chains to chains.

    Returns:
        The sampler.
    """
    return Sampler(library, method, chains, partial(_run, begin), begin)


def _run(begin: Callable[[Any, int], Chains], target: Any, chains: int, seconds: float) -> Observed:
    """Steps for a tenth of the time, then for the time with an observation after each."""
    step, observe = begin(target, chains)
    begun = time.perf_counter()
    while time.perf_counter() - begun < _BURN * seconds:
        step()
    draws = []
    begun = time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        step()
        draws.append(observe())
    return torch.stack(draws, dim=1), spent


def _ours(splitting: str | None) -> Callable[[Target, int], Chains]:
    def begin(target: Target, chains: int) -> Chains:
        points = nn.Parameter(target.start.repeat(chains, 1, 1))
        constraint: cl.Constraint = cl.Orthogonal()
        if target.shape[1] == 1:  # a column of a sphere is a row of ours
            points = nn.Parameter(target.start.mT.repeat(chains, 1, 1))
            constraint = cl.Sphere(1.0, slack=False)
        groups = [{"params": [("Q", points)], "constraint": constraint, "replicas": chains}]
        if splitting is None:
            optimizer: torch.optim.Optimizer = cl.CoLod(groups, target.step**2 / 2, temperature=1.0, seed=0)
        else:
            optimizer = cl.CoLud(
                groups, target.step, friction=1.5, temperature=1.0, splitting=splitting, seed=0
            )
        slope = target.slope.mT if target.shape[1] == 1 else target.slope

        def step() -> None:
            optimizer.zero_grad()
            (-(points * slope).sum()).backward()
            optimizer.step()

        return step, lambda: target.observe(points.detach())

    return begin


def _geoopt(name: str, **options: float) -> Callable[[Target, int], Chains]:
    def begin(target: Target, chains: int) -> Chains:
        import geoopt

        torch.manual_seed(0)
        np.random.seed(0)  # its acceptance draws from here
        # the one manifold of geoopt that its samplers accept and that holds these matrices
        manifold = geoopt.CanonicalStiefel()
        points = geoopt.ManifoldParameter(target.start.repeat(chains, 1, 1), manifold=manifold)
        sampler = getattr(geoopt.samplers, name)([points], **options)
        slope = target.slope

        def step() -> None:
            sampler.step(lambda: (points * slope).sum())

        return step, lambda: target.observe(points.detach())

    return begin


def _mici(target: Target, chains: int, seconds: float) -> Observed:
    import mici

    rows, columns = target.shape
    slope = target.slope.numpy().reshape(-1)
    upper = np.triu_indices(columns)

    def constraint(q: np.ndarray) -> np.ndarray:
        Q = q.reshape(rows, columns)
        return (Q.T @ Q - np.eye(columns))[upper]

    def jacobian(q: np.ndarray) -> np.ndarray:
        Q = q.reshape(rows, columns)
        J = np.zeros((len(upper[0]), rows, columns))
        for k, (i, j) in enumerate(zip(*upper, strict=True)):
            J[k, :, i] += Q[:, j]
            J[k, :, j] += Q[:, i]
        return J.reshape(len(J), -1)

    system = mici.systems.DenseConstrainedEuclideanMetricSystem(
        lambda q: -slope @ q, constraint, grad_neg_log_dens=lambda q: -slope, jacob_constr=jacobian
    )
    integrator = mici.integrators.ConstrainedLeapfrogIntegrator(system)
    sampler = mici.samplers.DynamicMultinomialHMC(system, integrator, np.random.default_rng(0))

    def sample(states: list[np.ndarray], warm_up: int, iterations: int) -> tuple[list[np.ndarray], Tensor]:
        ends, traces, _ = sampler.sample_chains(
            n_warm_up_iter=warm_up,
            n_main_iter=iterations,
            init_states=states,
            trace_funcs=[lambda state: {"q": state.pos}],
            display_progress=False,
        )
        found = torch.from_numpy(np.stack(traces["q"])).view(chains, -1, rows, columns)
        return [end.pos for end in ends], target.observe(found)

    start = target.start.numpy().reshape(-1)
    states, _ = sample([start.copy() for _ in range(chains)], 200, 1)  # finds the size of its steps
    parts = []
    begun = time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        states, part = sample(states, 0, 50)
        parts.append(part)
    return torch.cat(parts, dim=1), spent


SAMPLERS = (
    stepping("colangevin", "CoLud, BAOAB", 1, _ours("BAOAB")),
    stepping("colangevin", "CoLud, BAOAB", 64, _ours("BAOAB")),
    stepping("colangevin", "CoLod", 64, _ours(None)),
    Sampler("mici", "constrained HMC", 4, _mici),
    stepping("geoopt", "RSGLD", 1, _geoopt("RSGLD", epsilon=0.01)),
    stepping("geoopt", "RSGLD", 64, _geoopt("RSGLD", epsilon=0.01)),
    stepping("geoopt", "SGRHMC, 10 steps", 64, _geoopt("SGRHMC", epsilon=0.01, n_steps=10)),
    stepping("geoopt", "RHMC, 10 steps", 1, _geoopt("RHMC", epsilon=0.1, n_steps=10)),
)
