import pytest

pytest.importorskip("typer", reason="needs the extra 'experiments'")


@pytest.fixture
def small_grid(monkeypatch):
    from colangevin.experiments.judging import plane

    monkeypatch.setattr(plane, "GRID", 60)
    monkeypatch.setattr(plane, "PICTURE", 12)


@pytest.fixture
def small_data(tmp_path_factory, monkeypatch):
    """Small data sets where the experiments look for them."""
    from colangevin.experiments.training import image_task, posterior_task, text_task
    from tests.experiments.small_data import lay_out

    folder = tmp_path_factory.mktemp("data")
    lay_out(folder, monkeypatch)
    for module in (image_task, posterior_task, text_task):
        module._load.cache_clear()
    yield folder
    for module in (image_task, posterior_task, text_task):
        module._load.cache_clear()


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """The files of the tiny fig4 that ran in a process of its own, uninterrupted."""
    from tests.experiments.command_line import contents, finish, start

    out = tmp_path_factory.mktemp("whole")
    status, text = finish(start("run", "fig4", "--out", out))
    assert status == 0, text
    return contents(out / "four-turn")


class Nobody:
    """A watcher that remembers what it was told."""

    def __init__(self):
        self.told = []

    def damaged(self, why):
        self.told.append(("damaged", why))

    def begin(self, job, epoch):
        self.told.append(("begin", job.name, epoch))

    def advanced(self, job, epoch):
        self.told.append(("epoch", epoch))

    def measured(self, job, curves):
        self.told.append(("measured", len(curves["test_loss"])))

    def looking(self, job, done, total):
        pass

    def downloading(self, name, done, total):
        pass


@pytest.fixture
def nobody():
    return Nobody()
