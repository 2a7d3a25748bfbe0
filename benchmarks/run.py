"""Run the benchmarks of a device, ``python -m benchmarks.run --device cpu``."""

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from benchmarks import growth, ours, workloads
from benchmarks.bandwidth import copy_bandwidth
from benchmarks.contender import Contender
from benchmarks.imports import NAME as IMPORTS
from benchmarks.imports import measure_imports
from benchmarks.machine import machine
from benchmarks.measure import Budget, measure
from benchmarks.muon import BATCHED, CONSTRAINED
from benchmarks.noise import NORMALS, RANDN
from benchmarks.ours_by_adam import ADAM, CHANNELS_LAST, KEPT_NORMS
from benchmarks.ours_on_layers import GENERAL_ENTRIES, GENERAL_ROWS, GENERAL_WEIGHT, PLANES_AND_SQUARES
from benchmarks.parametrizations import GEOTORCH, TORCH
from benchmarks.riemannian import GEOOPT_CANONICAL, GEOOPT_EUCLIDEAN, POGO
from benchmarks.sheet import FOLDER, Row, Sheet
from benchmarks.timing import VARIANTS, failure
from benchmarks.torch_optimizers import ADAMW_FOREACH, ADAMW_FUSED, MUON, SGD_FOREACH, SGD_FUSED
from benchmarks.training import NAME as TRAINING
from benchmarks.training import measure_training
from benchmarks.workloads import Workload

__all__ = ["main"]

_TORCH = (SGD_FUSED, SGD_FOREACH, ADAMW_FUSED, ADAMW_FOREACH)
_ELEMENTWISE = (*_TORCH, *ours.ELEMENTWISE, RANDN)
# on CUDA noise is made inside a step, and its kernel has no form without one
_ELEMENTWISE_CPU = (*_ELEMENTWISE, NORMALS)
_ADAM_CPU = tuple(each for each in ADAM if each.method != "Adam, norms of weights kept")
_LAYER = (SGD_FUSED, SGD_FOREACH, *PLANES_AND_SQUARES)
_STIEFEL = (GEOOPT_EUCLIDEAN, GEOOPT_CANONICAL, POGO)
_ORTHOGONAL = (SGD_FUSED, SGD_FOREACH, ADAMW_FUSED, ours.ORTHOGONAL, MUON, *_STIEFEL)


@dataclass(frozen=True)
class Section:
    """A workload and its contenders."""

    workload: Workload
    contenders: Sequence[Contender]
    budget: Budget
    variants: int  # how many of the device's


def _cpu_sections(seconds: float) -> list[Section]:
    """What a CPU is measured on. Methods that take minutes a step have small kernels only."""
    short, long = Budget(0.0, seconds, 200), Budget(4 * seconds, 2 * seconds, 50)
    grown = Budget(0.0, seconds / 4, 30)
    peers = (SGD_FOREACH, ours.ORTHOGONAL, MUON, GEOOPT_EUCLIDEAN, POGO)
    small = (SGD_FOREACH, ours.ORTHOGONAL, GEOOPT_EUCLIDEAN, POGO)
    return [
        Section(workloads.PERCEPTRON, (*_ELEMENTWISE_CPU, *_ADAM_CPU), short, 1),
        Section(workloads.SQUARES, (SGD_FUSED, SGD_FOREACH, *ours.SPHERES), short, 1),
        Section(workloads.LAYER, _LAYER, short, 1),
        Section(workloads.MLP, (*_ELEMENTWISE_CPU, *_ADAM_CPU), short, 1),
        Section(workloads.TEN, _ELEMENTWISE_CPU, Budget(0.0, seconds, 2000), 1),
        Section(
            workloads.GENERAL_SQUARE,
            (SGD_FOREACH, GENERAL_ROWS, GENERAL_WEIGHT),
            short,
            1,
        ),
        Section(
            workloads.GENERAL_LAYER,
            (SGD_FOREACH, GENERAL_ROWS, GENERAL_ENTRIES),
            short,
            1,
        ),
        Section(workloads.THOUSAND, small, Budget(seconds, 2 * seconds, 50), 1),
        Section(workloads.RESNET34, peers, long, 1),
        Section(
            workloads.RESNET34_LARGE_STEPS, (SGD_FOREACH, ours.ORTHOGONAL, GEOOPT_EUCLIDEAN, POGO), long, 1
        ),
        Section(
            workloads.RESNET34_STAGE1, (*_ORTHOGONAL, *TORCH, *GEOTORCH), Budget(seconds, seconds, 200), 1
        ),
        *_growth((10**5, 10**6, 10**7), (64, 128, 256, 512, 1024), (1, 10, 100), SGD_FOREACH, peers, grown),
    ]


def _cuda_sections(seconds: float) -> list[Section]:
    """What a CUDA device is measured on."""
    short, long = Budget(0.0, seconds / 2, 200), Budget(4 * seconds, 2 * seconds, 60)
    grown = Budget(0.0, seconds / 4, 60)
    peers = (SGD_FUSED, ours.ORTHOGONAL, MUON, GEOOPT_EUCLIDEAN, POGO)
    return [
        Section(workloads.GPT2_SMALL, (*_ELEMENTWISE, *ADAM, *KEPT_NORMS), short, 3),
        Section(workloads.KERNELS, (SGD_FUSED, *CHANNELS_LAST), short, 3),
        Section(workloads.LARGE_SQUARE, (SGD_FUSED, *PLANES_AND_SQUARES[1:]), short, 3),
        Section(workloads.MLP, _ELEMENTWISE, short, 3),
        Section(workloads.RESNET34, _ORTHOGONAL, long, 3),
        Section(workloads.RESNET34_LARGE_STEPS, (SGD_FUSED, ours.ORTHOGONAL, *_STIEFEL), long, 3),
        Section(workloads.DECODER, (SGD_FUSED, BATCHED, MUON, *CONSTRAINED), short, 3),
        Section(workloads.LARGE_MATRICES, (SGD_FUSED, ours.ORTHOGONAL, MUON), short, 1),
        Section(workloads.LARGE_SQUARE, (SGD_FUSED, ours.ORTHOGONAL, MUON), short, 1),
        *_growth(
            (10**6, 10**7, 10**8, 10**9),
            (64, 128, 256, 512, 1024, 2048, 4096),
            (1, 10, 100, 1000),
            SGD_FUSED,
            peers,
            grown,
        ),
        Section(
            workloads.RESNET34_PARAMETRIZED,
            (SGD_FUSED, *TORCH, *GEOTORCH),
            Budget(seconds, 2 * seconds, 10),
            1,
        ),
    ]


def _quick_sections() -> list[Section]:
    """Everything once at a size that takes seconds, to see that it runs."""
    budget = Budget(0.2, 0.05, 3)
    small = Workload("small", ((8, 6), (8,), (4, 8)))
    general = Workload("small general", ((64, 8),))
    kernels = Workload("small kernels", ((8, 3, 3, 3), (4, 8, 1, 1)), orthonormal=True, drift=5)
    return [
        Section(small, (*_ELEMENTWISE_CPU, *ADAM, *KEPT_NORMS), budget, 1),
        Section(Workload("small filters", ((8, 3, 3, 3),)), (SGD_FOREACH, *CHANNELS_LAST), budget, 1),
        Section(Workload("small layer", ((8, 6),)), _LAYER, budget, 1),
        Section(
            general,
            (
                SGD_FOREACH,
                GENERAL_ROWS,
                GENERAL_ENTRIES,
                GENERAL_WEIGHT,
            ),
            budget,
            1,
        ),
        Section(
            Workload("small matrices", ((8, 6), (6, 8))), (SGD_FOREACH, BATCHED, *CONSTRAINED), budget, 1
        ),
        Section(kernels, (*_ORTHOGONAL, *TORCH, *GEOTORCH), budget, 1),
        *_growth((100, 1000), (4, 8), (1, 3), SGD_FOREACH, _ORTHOGONAL, budget),
    ]


def _growth(
    circles: Sequence[int],
    sides: Sequence[int],
    counts: Sequence[int],
    base: Contender,
    matrices: Sequence[Contender],
    budget: Budget,
) -> list[Section]:
    vectors = (base, ours.CIRCLE, ours.CIRCLE_NOISY)
    return [
        *(Section(each, vectors, budget, 1) for each in growth.circles(circles)),
        *(Section(each, matrices, budget, 1) for each in growth.sides(sides)),
        *(Section(each, matrices, budget, 1) for each in growth.counts(counts)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and store.

    Args:
        arguments: of the command line; those of the process when None.

    Raises:
        SystemExit: when an argument is wrong or there is no such device.
    """
    options = _parse(arguments)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("--device cuda: torch sees no CUDA device here; use --device cpu.")
    begun = time.perf_counter()
    bandwidth = copy_bandwidth(device, 16 if options.quick else 1024 if device.type == "cuda" else 256)
    sheet = Sheet(options.out, device.type, machine(device, bandwidth, options.commit))
    base = SGD_FUSED if device.type == "cuda" else SGD_FOREACH
    jobs: list[tuple[str, Callable[[], list[Row]]]] = []
    if device.type == "cuda":
        budget = Budget(0.0, 2 * options.seconds, 200)
        jobs.append((TRAINING, partial(measure_training, device, budget)))
    for section in _sections(options):
        variants = VARIANTS[device.type][: section.variants]
        about = (section.workload, section.contenders, variants, base, device, bandwidth, section.budget)
        jobs.append((section.workload.name, partial(measure, *about)))
    if device.type == "cpu":
        budget = Budget(0.0, 10 * options.seconds, 1 if options.quick else 5)
        jobs.insert(0, (IMPORTS, partial(measure_imports, budget)))
    print(f"copy bandwidth {bandwidth / 1e9:.0f} GB/s", flush=True)
    for name, job in jobs:
        if time.perf_counter() - begun > options.limit:
            rows = [Row(name, "", "", note=f"not run: the limit of {options.limit:g} s was reached")]
        else:
            rows = _isolated(name, job)
        sheet.add(rows)
        _show(rows, time.perf_counter() - begun)


def _sections(options: argparse.Namespace) -> list[Section]:
    if options.quick:
        return _quick_sections()
    return (_cuda_sections if options.device == "cuda" else _cpu_sections)(options.seconds)


def _isolated(name: str, job: Callable[[], list[Row]]) -> list[Row]:
    """Measure a section. An exception becomes a row; the memory is freed for the next section."""
    try:
        return job()
    except Exception as error:  # a section that fails must not lose the others
        return [Row(name, "", "", note=failure(error))]
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def _show(rows: Sequence[Row], seconds: float) -> None:
    print(f"\n{rows[0].workload}  ({seconds:.0f} s)")
    for row in rows:
        name = f"{row.library:10s} {row.method:38s} {row.variant:9s}"
        if row.median_ms is None:
            print(f"  {name} {row.note}", flush=True)
            continue
        ratio = "" if row.ratio_to_sgd is None else f"{row.ratio_to_sgd:8.2f} x"
        share = "" if row.floor_share is None else f"{row.floor_share:5.0%}"
        error = "" if row.error is None else f"{row.error:.1e}"
        state = "" if row.state_bytes_per_weight is None else f"{row.state_bytes_per_weight:5.1f} B"
        peak = "" if row.peak_mib is None else f"{row.peak_mib:7.0f} MiB"
        spread = f"{row.median_ms:10.3f} ms [{row.q20_ms:.3f}, {row.q80_ms:.3f}] {row.repeats:4d}"
        print(
            f"  {name} {spread} {ratio:>10s} {share:>5s} {error:>8s} {state:>7s} {peak} {row.note}",
            flush=True,
        )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run",
        description="Time constrained steps beside SGD and beside other libraries.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="what to measure")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the CSV")
    parser.add_argument("--seconds", type=float, default=2.0, help="to time one method on one workload")
    parser.add_argument("--limit", type=float, default=450.0, help="seconds after which no section is begun")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that everything runs")
    parser.add_argument("--commit", help="of the code, where git cannot be asked")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
