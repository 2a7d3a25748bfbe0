"""Sampling on a CUDA device: many chains for little more than the price of one, collected and watched."""

import statistics
import time

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import colangevin as cl
from examples.images import load

pytestmark = pytest.mark.gpu

STEPS, WARM_UP, REPEATS = 200, 20, 5


class Chains:
    """Chains of c-CoLud on the digits, each with the same batches."""

    def __init__(self, count: int, device: str = "cuda") -> None:
        self.images = load("digits", torch.device(device))
        self.replicas = cl.Replicas(self.images.build, count, seed=0).to(device)
        groups = self.replicas.constrain({"0.weight": cl.Circle(1.0), "2.weight": cl.Circle(1.0)})
        tau = cl.posterior_temperature(len(self.images.x))
        self.optimizer = cl.CoLud(groups, 0.3, friction=1.0, temperature=tau, splitting="BAOAB", seed=0)
        self.x, self.y = self.images.x[:100], self.images.y[:100]

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=False)
        logits = self.replicas(self.x)
        labels = self.y.expand(len(self.replicas), -1)
        losses = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        losses.view_as(labels).mean(1).sum().backward()
        self.optimizer.step()

    def seconds(self) -> float:
        """Of so many steps, the device included."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(STEPS):
            self.step()
        torch.cuda.synchronize()
        return time.perf_counter() - start


def test_64_chains_cost_at_most_twice_one(capsys):
    runs = {count: Chains(count) for count in (1, 64)}
    for run in runs.values():
        for _ in range(WARM_UP):
            run.step()
    # in turn, so that what changes on the machine changes for both
    times = {count: [] for count in runs}
    for _ in range(REPEATS):
        for count, run in runs.items():
            times[count].append(run.seconds() / STEPS)
    one, many = (statistics.median(times[count]) for count in (1, 64))
    with capsys.disabled():
        print(f"\n1 chain: {1e3 * one:.3f} ms a step; 64: {1e3 * many:.3f} ms, {many / one:.2f} times")
    assert many <= 2 * one


def test_samples_and_predictions_of_the_device(tmp_path):
    run = Chains(4)
    kept = {
        "memory": cl.Samples(run.replicas, every=2),
        "disk": cl.Samples(run.replicas, folder=tmp_path / "s"),
    }
    for _ in range(6):
        run.step()
        for samples in kept.values():
            samples.collect()
    x = run.images.x_test[:50]
    for samples in kept.values():
        assert samples[-1]["0.weight"].device.type == "cpu"
        assert torch.equal(samples[-1]["0.weight"], run.replicas.get_parameter("0.weight").cpu())
        prediction = samples.predict(x, transform=nn.Softmax(-1))
        assert prediction.samples.device.type == "cuda"
        expected = run.replicas(x).softmax(-1)
        torch.testing.assert_close(prediction.samples[:, -1], expected, rtol=1e-4, atol=1e-5)


def test_a_schedule_moves_a_captured_step():
    """The step is captured once; the temperature is written where the graph reads it."""
    weight = nn.Parameter(torch.zeros(1000, device="cuda"))
    weight.grad = torch.zeros_like(weight)
    tau = torch.tensor(0.5, device="cuda")
    optimizer = cl.CoLod([weight], 0.1, temperature=tau, seed=0)
    schedule = cl.schedules.Cyclical(optimizer, 2, explore=0.5)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        optimizer.step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            optimizer.step()
    for step in range(4):
        before = weight.detach().clone()
        graph.replay()
        assert torch.equal(before, weight) == (step % 2 == 0)
        schedule.step()


def test_recording_does_not_wait_for_the_device(waiting_is_an_error):
    run = Chains(2)
    monitor = cl.diagnostics.Monitor(run.optimizer)
    run.step()
    monitor.record()
    run.step()
    torch.cuda.synchronize()
    with waiting_is_an_error:
        monitor.record()
        run.step()
    assert len(monitor.series()["kinetic[0]"][0]) == 2


def test_the_monitor_agrees_with_the_cpu():
    found = []
    for device in ("cpu", "cuda"):
        run = Chains(2, device)
        monitor = cl.diagnostics.Monitor(run.optimizer)
        for _ in range(5):
            run.step()
            monitor.record()
        found.append(monitor.report().groups[0])
    assert found[0].kinetic.value == pytest.approx(found[1].kinetic.value, rel=1e-3)
    assert found[0].configurational.value == pytest.approx(found[1].configurational.value, rel=1e-2)


@pytest.mark.parametrize("constraint", [cl.Circle(1.0), cl.Sphere(1.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_edited_weight_is_measured_as_it_is(constraint, dtype):
    weight = nn.Parameter(0.1 * torch.randn(4, 8, device="cuda").to(dtype))
    opt = cl.CoLud(
        [{"params": [("w", weight)], "constraint": constraint}], 0.1, friction=1.0, temperature=0.1
    )
    weight.grad = torch.ones_like(weight)
    for _ in range(3):
        opt.step()
    assert cl.diagnostics.violation(opt)["w"] < 1e-6
    with torch.no_grad():
        weight.mul_(0.5)
    assert cl.diagnostics.violation(opt)["w"] < 1e-6
    with torch.no_grad():
        weight.fill_(2.0)
    assert cl.diagnostics.violation(opt)["w"] > 0.5


def test_a_scheduler_moves_the_rates_of_replicas_in_a_captured_step():
    """The third replica stands still from the start, all from the second replay on."""
    replicas = cl.Replicas(lambda: nn.Linear(4, 4), 3, seed=0).to("cuda")
    lr = torch.tensor([0.1, 0.2, 0.0], device="cuda")
    opt = cl.CoLod(replicas.constrain({"weight": cl.Circle(2.0)}), lr)
    for parameter in replicas.parameters():
        parameter.grad = torch.ones_like(parameter)
    scheduler = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: float(n < 1))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        opt.step()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            opt.step()
    moved = []
    for _ in range(2):
        before = [parameter.detach().clone() for parameter in replicas.parameters()]
        graph.replay()
        pairs = list(zip(before, replicas.parameters(), strict=True))
        # a step of length 0 rounds the weights of circles anew
        moved.append(
            [any(float((old - new.detach())[i].abs().max()) > 1e-6 for old, new in pairs) for i in range(3)]
        )
        scheduler.step()
    assert moved == [[True, True, False], [False, False, False]]
