"""What a worker does, with a mailbox in the same process."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from colangevin.experiments.catalogue.jobs import jobs
from colangevin.experiments.storage.disk import StoreError
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.storage.run_file import RunFile
from colangevin.experiments.sweeps import mailbox as mailboxes
from colangevin.experiments.sweeps import tasks
from colangevin.experiments.sweeps.cluster import ClusterError
from colangevin.experiments.sweeps.mailbox import Mailbox, Reporter
from colangevin.experiments.sweeps.tasks import work
from tests.experiments.conftest import Nobody
from tests.experiments.tiny import experiment

pytestmark = pytest.mark.usefixtures("small_grid")

CPU = torch.device("cpu")


@pytest.fixture
def mailbox(monkeypatch):
    """A mailbox, and a Ray that calls it at once."""
    monkeypatch.setattr(mailboxes, "ray", lambda: SimpleNamespace(get=lambda answer: answer))
    box = Mailbox()
    return box, SimpleNamespace(post=SimpleNamespace(remote=box.post))


def opened(path, what):
    folder = Folder(path, what.name)
    folder.open(what, CPU, ["colangevin"], resume=False)
    return folder


def do(path, what, actor):
    return work(what, jobs(what)[0], path, CPU, torch.get_num_threads(), actor)


def test_a_worker_runs_a_job_and_tells_how_it_went(tmp_path, mailbox):
    box, actor = mailbox
    what = experiment()
    folder = opened(tmp_path, what)
    assert do(tmp_path, what, actor)
    assert folder.done(jobs(what)[0])
    watcher = Nobody()
    for name, news in box.look(False):
        assert name == "part 1"
        for method, values in news:
            getattr(watcher, method)(*values)
    assert watcher.told[0] == ("begin", "part 1", 0)
    assert ("epoch", 4) in watcher.told
    assert ("measured", 1) in watcher.told  # of each curve the last point
    assert box.look(False) == []


def test_a_worker_that_is_asked_to_stop_begins_nothing(tmp_path, mailbox):
    box, actor = mailbox
    box.look(True)
    assert not do(tmp_path, experiment(), actor)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_a_worker_does_not_see_is_named(tmp_path, mailbox):
    message = (
        r"on \S+ finds no \S+four-turn/run\.json\. All machines .* choose one on shared storage with --out"
    )
    with pytest.raises(StoreError, match=message):
        do(tmp_path / "elsewhere", experiment(), mailbox[1])
    assert not list(tmp_path.iterdir())


def test_a_worker_with_other_software_is_named(tmp_path, mailbox):
    what = experiment()
    folder = opened(tmp_path, what)
    RunFile(folder.path).write(dataclasses.replace(folder.run(), torch="1.0"))
    message = (
        r"on \S+ differs from what \S+four-turn was started with:\n    torch: '1\.0' there, .*\nUse machines"
    )
    with pytest.raises(StoreError, match=message):
        do(tmp_path, what, mailbox[1])


def test_news_of_a_kind_between_two_posts_are_the_last(mailbox, monkeypatch):
    box, actor = mailbox
    now = 0.0
    monkeypatch.setattr(mailboxes, "time", SimpleNamespace(monotonic=lambda: now))
    job = jobs(experiment())[0]
    reporter = Reporter(actor, job)
    reporter.advanced(job, 1)
    box.look(True)
    assert not reporter.stopped()  # asked a moment ago
    assert box.look(True) == []
    now = 1.0
    reporter.advanced(job, 2)
    reporter.measured(job, {"test_loss": np.arange(3.0)})
    assert reporter.stopped()
    ((_, news),) = box.look(True)
    assert news[0] == ("advanced", (job, 2))
    assert news[1][1][1]["test_loss"].tolist() == [2.0]


def test_a_job_that_lost_its_workers_is_named_with_what_to_do():
    error = RuntimeError("the worker\n  died")
    lost = tasks._lost(jobs(experiment())[0], error)
    with pytest.raises(
        ClusterError, match=r"part 1: Ray gave it up after 4 workers \(the worker died\)\. Look for"
    ):
        raise lost
