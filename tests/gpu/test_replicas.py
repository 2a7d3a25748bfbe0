"""Replicas on a CUDA device: an epoch from a graph equals an epoch step by step, and the CPU's."""

import time

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

import colangevin as cl
from colangevin.experiments.data.spirals import two_turn_spiral

POINTS, BATCH, WARM_UP = 100, 2, 3


def shlp() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 500), nn.ReLU(), nn.Linear(500, 1), nn.Flatten(0))


def normed() -> nn.Module:
    """A small CNN with BatchNorm, on the spiral's points spread over an image."""
    return nn.Sequential(
        nn.Linear(2, 36),
        nn.Unflatten(1, (1, 6, 6)),
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 1),
        nn.Flatten(0),
    )


RULES = {
    shlp: {"0.weight": cl.Circle(1.0), "2.weight": cl.Circle(5.0)},
    normed: {nn.Conv2d: cl.Orthogonal(), "0.weight": cl.Sphere(3.0)},
}


class Run:
    """Replicas on spirals of their own; :meth:`epoch` visits the points in the order of a buffer."""

    def __init__(self, build, n: int, device: str, **options) -> None:
        self.replicas = cl.Replicas(build, n, seed=0).to(device)
        groups = self.replicas.constrain(RULES[build])
        self.optimizer = cl.CoLod(groups, **{"lr": 0.05, "temperature": 5e-5, "seed": 0, **options})
        data = [two_turn_spiral(POINTS, generator=torch.Generator().manual_seed(i)) for i in range(n)]
        self.x, self.y = (torch.stack(tensors).to(device) for tensors in zip(*data, strict=True))
        self.order = torch.empty(n, POINTS, dtype=torch.int64, device=device)
        self.shuffle(0)

    def shuffle(self, epoch: int) -> None:
        generator = torch.Generator().manual_seed(epoch)
        self.order.copy_(torch.rand(self.order.shape, generator=generator).argsort(1))

    def epoch(self, steps: int = POINTS // BATCH) -> None:
        for rows in self.order.split(BATCH, dim=1)[:steps]:
            x, y = self.x.gather(1, rows.unsqueeze(2).expand(-1, -1, 2)), self.y.gather(1, rows)
            self.optimizer.zero_grad(set_to_none=False)
            logits = self.replicas(x, per_replica=True)
            losses = binary_cross_entropy_with_logits(logits, y, reduction="none").mean(1)
            losses.sum().backward()
            self.optimizer.step()

    def capture(self, stream: torch.cuda.Stream) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self.epoch()
        return graph

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {name: tensor.cpu() for name, tensor in self.replicas.state_dict().items()}


@pytest.mark.gpu
@pytest.mark.parametrize("build", [shlp, normed])
def test_an_epoch_from_a_graph_equals_one_step_by_step(build):
    ends = []
    for captured in (False, True):
        run = Run(build, 8, "cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            run.epoch(WARM_UP)
            play = run.capture(stream).replay if captured else run.epoch
            for epoch in range(1, 4):
                run.shuffle(epoch)
                play()
        torch.cuda.synchronize()
        ends.append(run.tensors)
    for name, eager in ends[0].items():
        torch.testing.assert_close(ends[1][name], eager, rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.gpu
@pytest.mark.parametrize("sweep", [False, True])
def test_the_device_follows_the_cpu(sweep):
    ends = []
    for device in ("cpu", "cuda"):
        options = {"lr": torch.tensor([0.05, 0.02, 0.0], device=device)} if sweep else {}
        run = Run(shlp, 3, device, **options)
        run.epoch(20)
        ends.append(run.tensors)
    for name, cpu in ends[0].items():
        torch.testing.assert_close(ends[1][name], cpu, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.gpu
def test_a_thousand_runs_from_a_graph(capsys):
    run = Run(shlp, 1000, "cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run.epoch(WARM_UP)
        graph = run.capture(stream)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for epoch in range(20):
            run.shuffle(epoch)
            graph.replay()
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / 20
    with capsys.disabled():
        print(f"\n1,000 SHLPs: {1e3 * seconds:.2f} ms an epoch, {1e4 * seconds:.0f} s for 10,000")
    assert all(bool(tensor.isfinite().all()) for tensor in run.tensors.values())
