"""The posterior of a logistic regression whose weights lie on a sphere, by three methods.

The direction of the weights is what the data are asked for; their norm is given. The posterior of (w, b),
|w| = r, has no closed form. ``CoLud`` samples it with 32 parallel chains, `mici <https://github.com/matt-graham/
mici>`_ with constrained Hamiltonian Monte Carlo, and for three features a quadrature knows the answer::

    python -m examples.logistic_regression                # three features, with the quadrature
    python -m examples.logistic_regression --features 6   # against mici alone
"""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import colangevin as cl

RADIUS = 3.0
PRIOR = 2.0  # standard deviation of the bias
DATA = 80


@dataclass(frozen=True)
class Moments:
    """Posterior means of (w, b) with their standard errors."""

    mean: Tensor
    error: Tensor


def data(features: int) -> tuple[Tensor, Tensor]:
    """Points and labels of a regression with a direction of its own."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(DATA, features, generator=generator, dtype=torch.float64)
    w = torch.linspace(1, -1, features, dtype=torch.float64)
    p = torch.sigmoid(x @ (RADIUS * w / w.norm()) + 0.5)
    return x, (torch.rand(DATA, generator=generator, dtype=torch.float64) < p).double()


def sample(x: Tensor, y: Tensor, *, chains: int, steps: int, seed: int = 0) -> cl.Samples:
    """Parallel chains of constrained Langevin dynamics; the first fifth is burn-in."""
    replicas = cl.Replicas(lambda: nn.Linear(x.shape[1], 1).double(), chains, seed=seed)
    groups = replicas.constrain({"weight": cl.Sphere(RADIUS, slack=False)})
    for group in groups:
        if isinstance(group["constraint"], cl.Free):
            group["weight_decay"] = cl.prior_weight_decay(len(x), PRIOR)
    tau = cl.posterior_temperature(len(x))
    optimizer = cl.CoLud(groups, 0.4, friction=1.0, temperature=tau, splitting="BAOAB", seed=seed)
    burn_in = steps // 5
    samples = cl.Samples(replicas, every=4, burn_in=burn_in)
    monitor = cl.diagnostics.Monitor(optimizer, every=4, burn_in=burn_in)
    for _ in range(steps):
        optimizer.zero_grad()
        logits = replicas(x).squeeze(-1)
        losses = binary_cross_entropy_with_logits(logits, y.expand_as(logits), reduction="none").mean(1)
        losses.sum().backward()
        monitor.record(loss=losses)
        optimizer.step()
        samples.collect()
    monitor.report().show()
    return samples


def draws(samples: cl.Samples) -> Tensor:
    """(w, b) of every sample, shape (chains, samples, features + 1)."""
    return torch.cat((samples.draws("weight").flatten(2), samples.draws("bias")), dim=2)


def moments(chains: Tensor) -> Moments:
    """Means and standard errors of chains of shape (chains, samples, entries)."""
    errors = [cl.diagnostics.standard_error(each) for each in chains.unbind(2)]
    return Moments(chains.mean((0, 1)), torch.tensor(errors, dtype=torch.float64))


def hamiltonian(x: Tensor, y: Tensor, *, chains: int, iterations: int, seed: int = 0) -> Tensor:
    """The same posterior by mici; (w, b) of every iteration, shape (chains, iterations, features + 1)."""
    import mici

    points, labels = x.numpy(), y.numpy()
    features = points.shape[1]

    def energy(q: np.ndarray) -> float:
        z = points @ q[:-1] + q[-1]
        return float(np.logaddexp(0, z).sum() - labels @ z + q[-1] ** 2 / (2 * PRIOR**2))

    def gradient(q: np.ndarray) -> np.ndarray:
        slope = 1 / (1 + np.exp(-(points @ q[:-1] + q[-1]))) - labels
        return np.append(slope @ points, slope.sum() + q[-1] / PRIOR**2)

    system = mici.systems.DenseConstrainedEuclideanMetricSystem(
        energy,
        lambda q: np.array([q[:-1] @ q[:-1] - RADIUS**2]),
        grad_neg_log_dens=gradient,
        jacob_constr=lambda q: np.append(2 * q[:-1], 0.0)[None],
    )
    integrator = mici.integrators.ConstrainedLeapfrogIntegrator(system)
    generator = np.random.default_rng(seed)
    sampler = mici.samplers.DynamicMultinomialHMC(system, integrator, generator)
    starts = generator.normal(size=(chains, features))
    starts *= RADIUS / np.linalg.norm(starts, axis=1, keepdims=True)
    _, traces, _ = sampler.sample_chains(
        n_warm_up_iter=200,
        n_main_iter=iterations,
        init_states=[np.append(w, 0.0) for w in starts],
        trace_funcs=[lambda state: {"q": state.pos}],
        display_progress=False,
    )
    return torch.from_numpy(np.stack(traces["q"]))


def quadrature(x: Tensor, y: Tensor) -> Tensor:
    """Posterior means for three features: Gauss and Legendre over heights, trapezoids over angle and bias."""
    heights, lengths = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(64))
    angles = torch.arange(128, dtype=torch.float64) * (math.tau / 128)
    u, phi = torch.meshgrid(heights, angles, indexing="ij")
    s = (1 - u.square()).sqrt()
    w = RADIUS * torch.stack((s * phi.cos(), s * phi.sin(), u), dim=-1).reshape(-1, 3)
    area = lengths.unsqueeze(1).expand_as(u).reshape(-1)
    logarithms, biases = [], torch.linspace(-4, 4, 161, dtype=torch.float64)
    for b in biases:
        z = w @ x.T + b
        likelihood = z @ y - torch.nn.functional.softplus(z).sum(1)
        logarithms.append(likelihood - b**2 / (2 * PRIOR**2))
    density = torch.stack(logarithms)
    density = (density - density.max()).exp() * area
    density /= density.sum()
    return torch.cat((density.sum(0) @ w, (density.sum(1) @ biases).unsqueeze(0)))


def show(ours: Moments, theirs: Moments, exact: Tensor | None) -> None:
    """Both means side by side, their distance in standard errors, and the truth where it is known."""
    table = Table(title="posterior means")
    for title in ("", "colangevin", "mici", "distance, errors", "quadrature"):
        table.add_column(title)
    for i in range(len(ours.mean)):
        distance = abs(ours.mean[i] - theirs.mean[i]) / torch.hypot(ours.error[i], theirs.error[i])
        table.add_row(
            "b" if i == len(ours.mean) - 1 else f"w{i + 1}",
            f"{ours.mean[i]:.4f} ± {ours.error[i]:.4f}",
            f"{theirs.mean[i]:.4f} ± {theirs.error[i]:.4f}",
            f"{distance:.2f}",
            "" if exact is None else f"{exact[i]:.4f}",
        )
    Console().print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample by both methods and compare.

    Args:
        arguments: of the command line; those of the process when None.
    """
    parser = argparse.ArgumentParser(prog="python -m examples.logistic_regression")
    parser.add_argument("--features", type=int, default=3, help="with 3 the quadrature runs too")
    parser.add_argument("--steps", type=int, default=5000, help="of each of our chains")
    parser.add_argument("--chains", type=int, default=32, help="how many of ours")
    parser.add_argument("--iterations", type=int, default=1000, help="of each of mici's four chains")
    options = parser.parse_args(arguments)
    x, y = data(options.features)
    ours = moments(draws(sample(x, y, chains=options.chains, steps=options.steps)))
    theirs = moments(hamiltonian(x, y, chains=4, iterations=options.iterations))
    show(ours, theirs, quadrature(x, y) if options.features == 3 else None)


if __name__ == "__main__":
    main()
