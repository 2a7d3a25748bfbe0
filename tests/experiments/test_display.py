import io

import numpy as np
from rich.console import Console

from colangevin.experiments.catalogue.jobs import jobs
from colangevin.experiments.display import Screen
from tests.experiments.tiny import experiment, networks


def shown(screen):
    """The bars on the screen: what they say, and how far they are."""
    return [(task.description, task.completed, task.total) for task in screen.progress.tasks]


def curves(accuracy):
    return {name: np.full((1, 1, 1), accuracy) for name in ("test_accuracy", "test_loss", "train_accuracy")}


def test_jobs_that_run_at_once_have_bars_that_go_when_they_are_done():
    what = networks(runs=2, epochs=3)
    first, second, third, *_ = jobs(what)
    screen = Screen(what, Console(quiet=True))
    screen.begin(first, 0)
    screen.begin(second, 1)
    screen.advanced(first, 2)
    assert shown(screen)[1:] == [(f"{first.name}, epochs", 2, 3), (f"{second.name}, epochs", 1, 3)]
    screen.advanced(second, 3)
    screen.begin(third, 0)
    assert shown(screen) == [("jobs", 2, 8), (f"{first.name}, epochs", 2, 3), (f"{third.name}, epochs", 0, 3)]


def test_a_job_that_is_taken_up_again_keeps_its_bar():
    what = networks(runs=2, epochs=3)
    first, second, *_ = jobs(what)
    screen = Screen(what, Console(quiet=True))
    screen.begin(first, 0)
    screen.advanced(first, 2)
    screen.begin(second, 0)
    screen.begin(first, 1)
    assert shown(screen) == [
        ("jobs", 1, 8), (f"{first.name}, epochs", 1, 3), (f"{second.name}, epochs", 0, 3)
    ]  # fmt: skip


def test_a_download_is_shown_after_bars_are_gone():
    what = networks(runs=2, epochs=3)
    first, second, third, *_ = jobs(what)
    screen = Screen(what, Console(quiet=True))
    for job in (first, second, third):
        screen.begin(job, 3)
    screen.downloading("ptb", 1, 10)
    screen.downloading("ptb", 4, 10)
    assert shown(screen)[-1] == ("ptb, bytes", 4, 10)


def test_the_table_is_of_the_job_that_was_measured_last():
    what = networks(runs=2, epochs=3)
    pictures, _, words, *_ = jobs(what)
    screen = Screen(what, Console(quiet=True))
    screen.begin(pictures, 0)
    screen.begin(words, 0)
    screen.measured(words, curves(0.25))
    screen.measured(pictures, curves(0.5))
    text = io.StringIO()
    Console(width=100, file=text).print(screen)
    assert "tiny networks, pictures" in text.getvalue()
    assert "50.0" in text.getvalue()
    assert "25.0" not in text.getvalue()


def test_boundaries_of_jobs_at_once_are_kept_apart():
    what = experiment(parts=2)
    screen = Screen(what, Console(quiet=True))
    for job, done in zip(jobs(what), (3, 5), strict=True):
        screen.looking(job, done, 8)
    assert shown(screen) == [("part 1, decision boundaries", 3, 8), ("part 2, decision boundaries", 5, 8)]
