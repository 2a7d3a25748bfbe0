"""The paper's 4-turn spiral setting, whose quasi-Newton loop loses runs, must lose none here."""

import os
import time

import pytest
import torch
from torch import Tensor

import colangevin as cl
from tests.gpu import spiral_runs

H, DEPTHS, RUNS, TEMPERATURES = 0.1, range(2, 9), 10, (0.0, 1e-6)
EPOCHS = int(os.environ.get("COLANGEVIN_SPIRAL_EPOCHS", "2000"))


def setting(device: str):
    torch.manual_seed(0)
    depths = [depth for depth in DEPTHS for _ in range(RUNS)]
    stacks = [spiral_runs.build(depths, device) for _ in TEMPERATURES]
    sets = [spiral_runs.data(len(depths), device) for _ in TEMPERATURES]
    return stacks, sets, spiral_runs.Gradients(stacks, sets)


def accuracy_table(stacks, sets) -> str:
    lines = []
    for tau, stack, part in zip(TEMPERATURES, stacks, sets, strict=True):
        reached = spiral_runs.accuracy(stack, part).cpu()
        for depth in DEPTHS:
            values = reached[torch.tensor(stack.depths) == depth]
            lines.append(f"tau {tau:g} depth {depth}: {100 * values.mean():.1f} +- {100 * values.std():.1f}")
    return "\n".join(lines)


@pytest.mark.gpu
def test_o_colod_ends_every_run_finite_and_orthonormal():
    stacks, sets, gradients = setting("cuda")
    groups = []
    for tau, stack in zip(TEMPERATURES, stacks, strict=True):
        for weight in stack.hidden:
            constrained = {"constraint": cl.Orthogonal(), "replicas": weight.shape[0]}
            groups.append({"params": [weight], "temperature": tau, **constrained})
        groups.append({"params": stack.free, "temperature": tau})
    optimizer = cl.CoLod(groups, lr=H, seed=0)
    start = time.perf_counter()
    worst = 0.0
    for epoch in range(EPOCHS):
        for rows in spiral_runs.epoch_rows(stacks, torch.device("cuda")):
            gradients(rows)
            optimizer.step()
        if epoch % 100 == 99:
            worst = max(worst, *cl.diagnostics.violation(optimizer).values())
    seconds = time.perf_counter() - start
    finite = torch.cat([spiral_runs.finite_replicas(stack) for stack in stacks])
    print(f"\no-CoLod: {int((~finite).sum())} of {len(finite)} runs not finite after {EPOCHS} epochs", end="")
    print(f" ({seconds:.0f} s); largest |Q^T Q - I| {worst:.1e}\n{accuracy_table(stacks, sets)}")
    assert bool(finite.all())
    assert worst <= 5e-6


def quasi_newton_step(stacks: list[spiral_runs.Stack], identity: Tensor) -> None:
    """Algorithm 1 of the paper with K = 5 and no look at whether it converged."""
    for tau, stack in zip(TEMPERATURES, stacks, strict=True):
        for parameter in (*stack.hidden, *stack.free):
            moved = parameter - H * parameter.grad
            if tau:
                moved += (2 * tau * H) ** 0.5 * torch.randn_like(moved)
            if any(parameter is weight for weight in stack.hidden):
                for _ in range(5):
                    moved = moved - 0.5 * parameter @ (moved.mT @ moved - identity)
            parameter.copy_(moved)


@pytest.mark.gpu
def test_five_quasi_newton_iterations_lose_runs():
    stacks, _, gradients = setting("cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        quasi_newton_step(stacks, torch.eye(spiral_runs.WIDTH, device="cuda"))
    for _ in range(EPOCHS):
        for rows in spiral_runs.epoch_rows(stacks, torch.device("cuda")):
            gradients(rows)
            graph.replay()
    finite = torch.cat([spiral_runs.finite_replicas(stack) for stack in stacks])
    print(f"\nplain quasi-Newton, 5 iterations: {int((~finite).sum())} of {len(finite)} runs not finite")
    assert int((~finite).sum()) > 1
