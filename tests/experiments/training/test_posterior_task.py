import math
import urllib.error

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.experiments.catalogue.hmc_distance import COLUD, SPHERES
from colangevin.experiments.catalogue.problems import PosteriorProblem
from colangevin.experiments.data import cifar10, download, hmc_cifar10
from colangevin.experiments.data.sources import DataError
from colangevin.experiments.training.posterior_task import PosteriorTask

CPU = torch.device("cpu")


@pytest.fixture
def make(small_data):
    return lambda run=0, **sizes: PosteriorTask(
        PosteriorProblem(**{"train": 60, "test": 12, "batch": 16, "width": 2, **sizes}), run, 0, CPU
    )


def test_test_images_are_in_the_official_order_as_the_reference_is(make):
    made = make(test=7)
    pixels, classes = cifar10.load()
    x, y = next(iter(made.pieces("test")))
    assert torch.equal(y, classes[60:67])
    assert torch.equal(made.reference, hmc_cifar10.load()[:7])
    expected = (pixels[60:67].float() / 255 - torch.tensor([0.49, 0.48, 0.44]).view(3, 1, 1)) / 0.2
    torch.testing.assert_close(x, expected)


def test_an_epoch_shows_every_image_once_as_it_is(make):
    made = make(batch=15)
    made.begin(1)
    start, rows = torch.zeros((), dtype=torch.long), []
    for size in made.sizes:
        rows.append(made.batch(start, size)[0])
        start += size
    shown = torch.cat(rows).flatten(1)
    assert made.sizes == [15] * 4
    images = ((cifar10.load()[0][:60].float() / 255).transpose(1, 3) - torch.tensor([0.49, 0.48, 0.44])) / 0.2
    nearest = torch.cdist(shown, images.transpose(1, 3).flatten(1)).argmin(1)
    assert sorted(nearest.tolist()) == list(range(60))


def test_the_order_depends_on_run_and_epoch_alone(make):
    orders = []
    for run, epoch in ((0, 1), (0, 1), (0, 2), (1, 1)):
        made = make(run)
        made.begin(epoch)
        orders.append(made.order.tolist())
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[0] != orders[3]


def test_every_filter_that_a_norm_follows_has_the_priors_length(make):
    made = make()
    model = made.model(SPHERES)
    cl.constrain(model, made.rules(SPHERES))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            rows = module.weight.flatten(1)
            expected = math.sqrt(rows.shape[1] / 5)
            torch.testing.assert_close(rows.norm(dim=1), torch.full((len(rows),), expected))
    assert made.rules(COLUD) == {}
    assert "head.weight" not in made.rules(SPHERES)


def test_the_learning_rate_falls_by_half_a_cosine(make):
    made = make()
    rates = [made.learning_rate(epoch, 10) for epoch in range(1, 11)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx((1 + math.cos(0.05 * math.pi)) / 2)
    assert sum(rates) == pytest.approx(5)


def test_predictions_of_hmc_that_are_nowhere_are_asked_for(make, small_data, monkeypatch):
    (small_data / "hmc-cifar10" / "probs.csv").unlink()

    def unreachable(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(download.urllib.request, "urlopen", unreachable)
    with pytest.raises(DataError, match=r"(?s)HMC on CIFAR-10 is not on this machine.*Put the file there"):
        make()
