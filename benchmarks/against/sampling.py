"""Effective samples a second of two versions, in turns."""

import time
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

import colangevin as cl
from benchmarks.against.version import Ask, serve
from benchmarks.sampling.__main__ import RUNS
from benchmarks.sampling.samplers import Chains

__all__ = ["compare"]

_TURNS = 4
_BURN = 20  # steps of new chains that are not counted


class _Sampling:
    """The chains that were asked for last, and what was observed of them."""

    def __init__(self) -> None:
        self.number = -1
        self.chains: Chains
        self.draws: list[Tensor]
        self.spent: float

    def turn(self, number: int, seconds: float) -> dict[str, Any]:
        if number != self.number:
            self._begin(number)
        step, observe = self.chains
        begun = time.perf_counter()
        while (spent := time.perf_counter() - begun) < seconds:
            step()
            self.draws.append(observe())
        self.spent += spent
        found = cl.diagnostics.convergence({"x": torch.stack(self.draws, dim=1)})["x"]
        return {
            "mean": found.mean,
            "error": found.error,
            "ess": found.ess,
            "spent": self.spent,
            "draws": len(self.draws),
        }

    def _begin(self, number: int) -> None:
        target, sampler = RUNS[number]
        assert sampler.begin is not None
        self.number, self.draws, self.spent = number, [], 0.0
        self.chains = sampler.begin(target, sampler.chains)
        for _ in range(_BURN):
            self.chains[0]()


def compare(other: Ask, this: Ask, only: str, seconds: float) -> None:
    """Run our samplers and print averages, effective samples and draws a second, and their ratios.

    Args:
        other: a version.
        this: this one.
        only: a glob that the names of target and sampler have to match, as "S²*, 64".
        seconds: for each version of each sampler.
    """
    print(_line("target", "sampler", "", "average", "draws/s", "ESS/s"), flush=True)
    for number, (target, sampler) in enumerate(RUNS):
        name = f"{sampler.method}, {sampler.chains}"
        if sampler.library != "colangevin" or not fnmatchcase(f"{target.name}: {name}", only):
            continue
        for _ in range(_TURNS):
            found = [ask(number, seconds / _TURNS) for ask in (other, this)]
        rates = [(each["draws"] / each["spent"], each["ess"] / each["spent"]) for each in found]
        for version, each, rate in zip(("other", "this"), found, rates, strict=True):
            average = f"{each['mean']:.4f} ± {each['error']:.4f}"
            print(_line(target.name, name, version, average, *(f"{value:.0f}" for value in rate)))
        ratios = (f"{now / before:.2f}" for before, now in zip(*rates, strict=True))
        print(_line(target.name, name, "this/other", "", *ratios), flush=True)


def _line(target: str, sampler: str, version: str, average: str, draws: str, ess: str) -> str:
    return f"{target:46s} {sampler:18s} {version:10s} {average:>17s} {draws:>8s} {ess:>7s}"


if __name__ == "__main__":
    serve(_Sampling().turn)
