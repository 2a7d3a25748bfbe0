import pytest

pytest.importorskip("typer", reason="needs the extra 'experiments'")


@pytest.fixture
def small_grid(monkeypatch):
    from colangevin.experiments import plane

    monkeypatch.setattr(plane, "GRID", 60)
    monkeypatch.setattr(plane, "PICTURE", 12)


class Nobody:
    """A watcher that remembers what it was told."""

    def __init__(self):
        self.told = []

    def begin(self, part, epoch):
        self.told.append(("begin", part.name, epoch))

    def advanced(self, epoch):
        self.told.append(("epoch", epoch))

    def measured(self, curves):
        self.told.append(("measured", len(curves["test_loss"])))

    def looking(self, done, total):
        pass

    def downloading(self, name, done, total):
        pass


@pytest.fixture
def nobody():
    return Nobody()
