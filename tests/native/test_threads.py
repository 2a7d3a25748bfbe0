"""Threads: any number of them, calls from several at once, and a fork after their use give the same bits."""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

import colangevin as cl
from colangevin.native.library import Library
from tests.native.exercise import programs, run

SPLITTING = "BAOAB"
SECONDS = 60  # after which a child hangs


@pytest.fixture(autouse=True)
def torch_alone() -> Iterator[None]:
    """Torch itself takes one thread: in a child it would wait for others, which a fork does not copy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def alone(native: Library) -> dict[str, Tensor]:
    """What one thread computes."""
    return step(native, threads=1)


def step(native: Library, threads: int) -> dict[str, Tensor]:
    return run(native, programs(noisy=True)[SPLITTING], threads)


def same_bits(found: dict[str, Tensor], expected: dict[str, Tensor]) -> bool:
    return found.keys() == expected.keys() and all(
        torch.equal(values, expected[name]) for name, values in found.items()
    )


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_the_number_of_threads_does_not_change_the_numbers(
    native: Library, alone: dict[str, Tensor], threads: int
) -> None:
    assert same_bits(step(native, threads), alone)


def at_once(work: Callable[[], bool]) -> list[bool]:
    """What four Python threads answer that work at the same time, three times each."""
    answers: list[bool] = []
    together = threading.Barrier(4)

    def repeat() -> None:
        together.wait()
        answers.extend(work() for _ in range(3))

    workers = [threading.Thread(target=repeat) for _ in range(together.parties)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return answers


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_from_several_python_threads_at_once(
    native: Library, alone: dict[str, Tensor], threads: int
) -> None:
    assert at_once(lambda: same_bits(step(native, threads), alone)) == [True] * 12


class Run:
    """An optimizer at work on weights that are several units of work each."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        shape = (130, 300)
        starts = [0.01 * torch.randn(shape, generator=generator) for _ in range(3)]
        self.weights = [torch.nn.Parameter(start) for start in starts]
        self._gradient = torch.randn(shape, generator=generator)
        constraints = (cl.Free(), cl.Circle(1.0), cl.Sphere(1.0))
        groups = [
            {"params": [weight], "constraint": constraint}
            for weight, constraint in zip(self.weights, constraints, strict=True)
        ]
        self._optimizer = cl.CoLud(groups, 0.1, friction=1.0, temperature=0.01, splitting="BAOAB", seed=4)

    def steps(self, count: int, threads: int) -> dict[str, Tensor]:
        """The weights after so many more steps, with so many threads."""
        torch.set_num_threads(threads)
        for _ in range(count):
            for weight in self.weights:
                weight.grad = self._gradient.clone()
            self._optimizer.step()
        torch.set_num_threads(1)
        return {str(number): weight.detach().clone() for number, weight in enumerate(self.weights)}


@pytest.mark.usefixtures("native")
def test_an_optimizer_follows_the_threads_of_torch() -> None:
    expected = Run().steps(4, threads=1)
    run = Run()
    run.steps(1, threads=2)
    run.steps(2, threads=3)
    assert same_bits(run.steps(1, threads=1), expected)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("shape", [(300, 200), (200, 300), (257, 257)])
def test_threads_that_share_an_orthogonal_matrix_do_not_change_its_numbers(shape: tuple[int, int]) -> None:
    """Every entry of a product is added up in one order, however its blocks are shared among threads."""

    def moved(threads: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(3)
        weight = torch.nn.Parameter(torch.nn.init.orthogonal_(torch.empty(shape), generator=generator))
        groups = [{"params": [weight], "constraint": cl.Orthogonal()}]
        optimizer = cl.CoLud(groups, 0.1, friction=1.0, temperature=1e-4, seed=4)
        for _ in range(3):
            weight.grad = 0.05 * torch.randn(shape, generator=generator)
            torch.set_num_threads(threads)
            optimizer.step()
            torch.set_num_threads(1)
        return {"weight": weight.detach()}

    assert same_bits(moved(2), moved(1))
    assert same_bits(moved(3), moved(1))


@pytest.mark.usefixtures("native")
def test_optimizers_in_several_python_threads_at_once() -> None:
    expected = Run().steps(3, threads=1)
    assert at_once(lambda: same_bits(Run().steps(3, threads=2), expected)) == [True] * 12


def in_a_child(work: Callable[[], bool]) -> int:
    """The exit status of a forked child, 0 if the work was right; one that hangs is killed by an alarm."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        status = 1
        try:
            status = 0 if work() else 2
        except BaseException:
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_fork_steps_after_threads_were_used(native: Library, alone: dict[str, Tensor]) -> None:
    if not native.pool:
        pytest.skip("torch has no OpenMP here, so that no threads are used")
    assert same_bits(step(native, threads=2), alone)
    assert in_a_child(lambda: same_bits(step(native, threads=2), alone)) == 0
    assert same_bits(step(native, threads=2), alone)  # the parent goes on with all threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_that_is_wrong_is_noticed() -> None:
    assert in_a_child(lambda: False) != 0


@pytest.mark.usefixtures("native")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_an_optimizer_goes_on_in_a_child_of_a_fork() -> None:
    expected = Run().steps(4, threads=1)
    run = Run()
    run.steps(2, threads=2)
    assert in_a_child(lambda: same_bits(run.steps(2, threads=1), expected)) == 0
    assert same_bits(run.steps(2, threads=2), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_of_a_fork_multiplies_matrices_after_threads_were_used(native: Library) -> None:
    """One matrix that all threads share, and some that each takes alone."""
    if not native.pool:
        pytest.skip("torch has no OpenMP here")
    weights = [torch.nn.Parameter(torch.eye(*shape)) for shape in ((300, 200), (20, 10), (20, 10))]
    optimizer = cl.CoLud([{"params": weights, "constraint": cl.Orthogonal()}], 0.1, friction=1.0)
    for weight in weights:
        weight.grad = torch.linspace(-0.1, 0.1, weight.numel()).view_as(weight)
    torch.set_num_threads(2)
    optimizer.step()

    def moves() -> bool:
        before = [weight[-1, -1].item() for weight in weights]  # sums would be torch's own threads
        optimizer.step()
        return all(weight[-1, -1].item() != last for weight, last in zip(weights, before, strict=True))

    assert in_a_child(moves) == 0
    assert max(cl.diagnostics.violation(optimizer).values()) < 1e-5
