"""Ranks that would train different models are found before the first step, by parameter and rank."""

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.integrations.ranks import check_ranks
from tests.integrations.small_training import LIGHTNING_WARNINGS, batches, dynamics, network, same

pytestmark = [
    *LIGHTNING_WARNINGS,
    # of Python 3.12 and later: Lightning forks, and torch has threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def optimizer(seed=0, noise=0, bias=True):
    torch.manual_seed(seed)
    groups = cl.constrain(nn.Linear(3, 2, bias=bias), {"weight": cl.Circle(2.0)})
    return cl.CoLod(groups, 0.1, temperature=0.1, seed=noise)


@pytest.fixture
def job(monkeypatch):
    """A job whose ranks take turns in this process. The last one gets what all have sent."""

    def check(*ranks):
        sent = []

        def collect(everyone, mine):
            sent.append(mine)
            if len(sent) == len(ranks):
                everyone[:] = sent

        distributed = torch.distributed
        monkeypatch.setattr(distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(distributed, "get_world_size", lambda: len(ranks))
        monkeypatch.setattr(distributed, "all_gather_object", collect)
        for each in ranks:
            check_ranks(each)

    return check


def test_ranks_that_are_alike_pass(job):
    job(optimizer(), optimizer(), optimizer())
    check_ranks(optimizer(seed=1))  # and so does a process of its own


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_a_weight_of_a_rank_that_differs_in_its_last_bit(job, name):
    ranks = [optimizer(), optimizer(), optimizer()]
    for group in ranks[2].param_groups:
        for called, parameter in zip(group["param_names"], group["params"], strict=True):
            if called == name:
                parameter.data.view(torch.int32).view(-1)[0] += 1
    shape = {"weight": r"\(2, 3\)", "bias": r"\(2,\)"}[name]
    with pytest.raises(
        cl.ConstraintError,
        match=rf"parameter '{name}' {shape}: rank 2 holds other values than rank 0, so.*Seed",
    ):
        job(*ranks)


def test_seeds_that_differ(job):
    with pytest.raises(
        cl.ConstraintError, match=r"seed in param_groups\[0\]: rank 1 has 5, rank 0 has 0.*seed=None"
    ):
        job(optimizer(noise=0), optimizer(noise=5))


@pytest.mark.parametrize(("first", "second", "rank"), [(True, False, 1), (False, True, 0)])
def test_a_parameter_that_a_rank_does_not_have(job, first, second, rank):
    with pytest.raises(
        cl.ConstraintError,
        match=rf"parameter 'bias' \(2,\): rank {rank} does not have it. Build the same model",
    ):
        job(optimizer(bias=first), optimizer(bias=second))


# ---- in a real job --------------------------------------------------------------------------------------


def test_lightning_with_two_processes(lit, tmp_path):
    """Rank 0 collects, and the ranks end with the same weights."""

    class Distributed(lit.Lit):
        def on_train_end(self):
            torch.save(self.net.state_dict(), tmp_path / f"{self.global_rank}.pt")

    callback = lit.ConstraintCallback(
        every=1, samples=lambda module: cl.Samples(module.net, folder=tmp_path / "samples", every=3)
    )
    lit.trainer(tmp_path, callback, strategy="ddp_fork", devices=2).fit(Distributed(), batches(6))
    ranks = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    assert same(ranks[0].values(), ranks[1].values())
    samples = cl.Samples.load(tmp_path / "samples", network())
    assert len(samples) == 1  # 3 steps on 6 batches
    assert all(torch.equal(samples[0][name], ranks[0][name]) for name in ranks[0])


def test_lightning_stops_when_ranks_draw_other_weights(lit, tmp_path):
    """As constrain(init="draw") in configure_optimizers does: by then the weights have been broadcast."""

    class Apart(lit.Lit):
        def configure_optimizers(self):
            torch.manual_seed(self.global_rank)
            cl.constrain(self.net, {"4.weight": cl.Orthogonal()}, init="draw")
            return dynamics(self.net)

    trainer = lit.trainer(tmp_path, lit.ConstraintCallback(), strategy="ddp_fork", devices=2)
    with pytest.raises(
        Exception, match=r"parameter '4.weight' \(5, 5\): rank 1 holds other values than rank 0"
    ):
        trainer.fit(Apart(), batches(6))
