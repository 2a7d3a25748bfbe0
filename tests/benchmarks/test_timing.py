import time

import pytest

from benchmarks.timing import Timing, alternate, failure


def test_runs_take_turns():
    order = []

    def turn(name):
        order.append(name)
        return [1.0, 1.0]

    names = ("one", "two")
    timings = alternate({n: lambda n=n: turn(n) for n in names}, seconds=60, repeats=6)
    assert order == ["one", "two"] * 3
    assert timings["one"].times == [1.0] * 6


def test_a_slow_run_stops_when_its_time_is_up():
    def slow():
        time.sleep(0.02)
        return [20.0]

    timings = alternate({"slow": slow, "fast": lambda: [0.1]}, seconds=0.05, repeats=40)
    assert 1 <= len(timings["slow"].times) <= 3
    assert len(timings["fast"].times) == 40


def test_a_run_that_raises_leaves_the_others_alone():
    def broken():
        raise ValueError("no\nreally")

    timings = alternate({"broken": broken, "whole": lambda: [1.0]}, seconds=1, repeats=3)
    assert timings["broken"] == Timing(failure="failed: ValueError: no")
    assert timings["whole"].times == [1.0] * 3


def test_a_missing_module_is_not_installed():
    with pytest.raises(ModuleNotFoundError) as raised:
        __import__("no_such_module_anywhere")
    assert failure(raised.value) == "not installed"


def test_summary_is_median_and_fifths():
    assert Timing([float(n) for n in range(11)]).summary() == (5.0, 2.0, 8.0)
    assert Timing([3.0]).summary() == (3.0, 3.0, 3.0)
