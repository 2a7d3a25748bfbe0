"""One workload, all its contenders, in one go: drift, memory, then every variant in alternation."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.contender import Contender, Run
from benchmarks.machine import version
from benchmarks.sheet import Row
from benchmarks.timing import Timing, Variant, alternate, failure
from benchmarks.workloads import Workload

__all__ = ["Budget", "Measured", "measure", "times"]

_LOOK = 50  # steps of the drift between two looks at the error
_WARM = 3
_TURN = 20  # steps of a turn, fewer when they are slow: every contender should have several turns
_TURNS = 4


@dataclass(frozen=True)
class Budget:
    """What a contender may spend on a workload.

    Attributes:
        drift: seconds for the steps before timing.
        timing: seconds for each variant.
        repeats: timed steps of each variant, at most.
    """

    drift: float
    timing: float
    repeats: int


@dataclass
class Measured:
    """A contender with its run and what is known of it before it is timed."""

    contender: Contender
    run: Run | None = None
    step_seconds: float = 0.0
    note: str = ""
    error: float | None = None
    state_bytes: float | None = None
    peak_mib: float | None = None


def measure(
    workload: Workload,
    contenders: Sequence[Contender],
    variants: Sequence[Variant],
    base: Contender,
    device: torch.device,
    bandwidth: float,
    budget: Budget,
) -> list[Row]:
    """Time contenders on a workload.

    Args:
        workload: the weights.
        contenders: who takes part, the base among them.
        variants: ways to take and time a step.
        base: whose time the others' are compared with.
        device: where.
        bandwidth: of a copy there, in bytes a second.
        budget: of each contender.

    Returns:
        A row for each contender and variant; one that failed has a row that says how.
    """
    start = workload.start(device)
    field = [_set_up(workload, each, start, device, budget) for each in contenders]
    rows = []
    for variant in variants:
        able = [each for each in field if variant.everyone or variant.name in each.contender.also]
        rows += _time(workload, able, variant, base, bandwidth, budget)
    return rows


def _set_up(
    workload: Workload,
    contender: Contender,
    start: list[torch.Tensor],
    device: torch.device,
    budget: Budget,
) -> Measured:
    """Build a run, let it drift, and look at its memory."""
    measured = Measured(contender)
    try:
        before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
        run = contender.build([weight.clone().requires_grad_() for weight in start], workload.size)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        steps = _warm_up(run, device, budget.drift, measured)
        if device.type == "cuda":
            used = torch.cuda.max_memory_allocated() - before
            measured.peak_mib = max(0.0, (used - 2 * 4 * workload.weights) / 2**20)
        steps += _drift(run, workload.drift - steps, budget.drift, measured)
        if workload.drift and run.error is not None:
            measured.note = f"error over {steps} steps"
        kept = sum(tensor.numel() * tensor.element_size() for tensor in run.state())
        measured.state_bytes = kept / workload.weights
        measured.run = run
    except Exception as error:  # whatever a library raises is a result
        measured.note = failure(error)
    return measured


def _warm_up(run: Run, device: torch.device, seconds: float, measured: Measured) -> int:
    """Take the first steps, at least two because the first may compile; return how many."""
    begun = time.perf_counter()
    taken = 0
    while taken < _WARM:
        taken += 1
        run.refill()
        start = time.perf_counter()
        run.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        measured.step_seconds = time.perf_counter() - start
        if taken > 1 and time.perf_counter() - begun > max(seconds, 1.0):
            break
    return taken


def _drift(run: Run, steps: int, seconds: float, measured: Measured) -> int:
    """Take steps while there is time, up to a number, and look at the error; return how many."""
    begun, taken = time.perf_counter(), 0
    while taken < steps and time.perf_counter() - begun + measured.step_seconds < seconds:
        run.refill()
        run.step()
        taken += 1
        if taken % _LOOK == 0:
            _look(run, measured)
    _look(run, measured)
    return taken


def _look(run: Run, measured: Measured) -> None:
    """Keep the worst error seen; NaN is worse than any number."""
    if run.error is None:
        return
    seen = run.error()
    if measured.error is None or not seen <= measured.error:
        measured.error = seen


def _time(
    workload: Workload,
    field: Sequence[Measured],
    variant: Variant,
    base: Contender,
    bandwidth: float,
    budget: Budget,
) -> list[Row]:
    turns, notes = {}, {}
    for each in field:
        method = each.contender.method
        if each.run is None:
            notes[method] = each.note
            continue
        try:
            count = int(budget.timing / _TURNS / max(each.step_seconds, 1e-6))
            step = variant.prepare(each.run)
            turns[method] = partial(variant.turn, each.run, step, max(1, min(_TURN, count)))
        except Exception as error:  # whatever a library raises is a result
            notes[method] = failure(error)
    timings = alternate(turns, seconds=budget.timing, repeats=budget.repeats)
    reference = timings.get(base.method)
    rows = []
    for each in field:
        method = each.contender.method
        if method in notes:
            rows.append(_empty(workload, each, variant, notes[method]))
        else:
            rows.append(_row(workload, each, variant, timings[method], reference, bandwidth))
    return rows


def _empty(workload: Workload, measured: Measured, variant: Variant, note: str) -> Row:
    contender = measured.contender
    found = version(contender.library)
    return Row(workload.name, contender.method, contender.library, found, variant.name, note=note)


def _row(
    workload: Workload,
    measured: Measured,
    variant: Variant,
    timing: Timing,
    reference: Timing | None,
    bandwidth: float,
) -> Row:
    if timing.failure:
        return _empty(workload, measured, variant, timing.failure)
    row = _empty(workload, measured, variant, measured.note)
    assert measured.run is not None
    _look(measured.run, measured)
    times(row, timing, reference)
    if measured.contender.words is not None and row.median_ms:
        floor_ms = 1e3 * 4 * measured.contender.words * workload.weights / bandwidth
        row.floor_share = floor_ms / row.median_ms
    row.error = measured.error
    row.state_bytes_per_weight = measured.state_bytes
    row.peak_mib = measured.peak_mib
    return row


def times(row: Row, timing: Timing, reference: Timing | None) -> None:
    """Write times into a row, beside those of the base.

    Args:
        row: to be completed.
        timing: of a run.
        reference: of the base, in the same variant.
    """
    row.median_ms, row.q20_ms, row.q80_ms = timing.summary()
    row.repeats = len(timing.times)
    if reference is not None and reference.times:
        row.ratio_to_sgd = row.median_ms / reference.summary()[0]
