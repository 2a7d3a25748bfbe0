import pytest
import torch

from colangevin.experiments import report
from colangevin.experiments.storage.folder import Folder
from colangevin.experiments.training import image_task, posterior_task, runner, text_task
from tests.experiments.conftest import Nobody
from tests.experiments.small_data import lay_out
from tests.experiments.small_run import run_all
from tests.experiments.tiny import experiment, networks, posteriors

CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Results of two experiments, one with three parts on a scale and six runs, and their report."""
    plain = experiment(name="two-turn", title="plain", plane="nothing", claims=(experiment().claims[0],))
    out = tmp_path_factory.mktemp("results")
    for what in (experiment(parts=3, runs=6, named="{} hidden layers"), plain):
        run_all(out, what, picture=20, command=["colangevin", "run", what.name, "--out", "a & b"])
    assert report.write(out) == out / "report.html"
    return out


@pytest.fixture(scope="session")
def unfinished(tmp_path_factory):
    """Networks of which some runs are missing, and their report."""
    out, what = tmp_path_factory.mktemp("unfinished"), networks()
    stored = Folder(out, what.name)
    stored.open(what, CPU, ["colangevin", "run", what.name], resume=False)
    with pytest.MonkeyPatch.context() as patch:
        lay_out(tmp_path_factory.mktemp("data"), patch)
        for module in (image_task, text_task):
            module._load.cache_clear()
        for only in ("pictures: *, run 1", "*: SGD-m, run 2", "words: c-CoLud, run 2"):
            assert runner.run(what, stored, CPU, Nobody(), lambda: False, only)
        for module in (image_task, text_task):
            module._load.cache_clear()
    report.write(out)
    return out


@pytest.fixture(scope="session")
def chains(tmp_path_factory):
    """Chains of a posterior beside SGD, and their report."""
    out = tmp_path_factory.mktemp("chains")
    with pytest.MonkeyPatch.context() as patch:
        lay_out(tmp_path_factory.mktemp("data"), patch)
        posterior_task._load.cache_clear()
        run_all(out, posteriors(runs=3))
        posterior_task._load.cache_clear()
    report.write(out)
    return out
