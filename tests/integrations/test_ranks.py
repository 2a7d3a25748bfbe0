"""Lightning with several processes: ranks that would train different models are found."""

import pytest
import torch

import colangevin as cl
from tests.integrations.small_training import LIGHTNING_WARNINGS, batches, dynamics, network, same

pytestmark = [
    *LIGHTNING_WARNINGS,
    # of Python 3.12 and later: Lightning forks, and torch has threads
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


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


def drawn(net):
    cl.constrain(net, {"4.weight": cl.Orthogonal()}, init="draw")


def set_apart(net):
    torch.nn.init.orthogonal_(net[4].weight)


def started_by(lit, start):
    """A module whose ranks start a weight after Lightning has broadcast weights, with a seed for each."""

    class Started(lit.Lit):
        def configure_optimizers(self):
            torch.manual_seed(self.global_rank)
            start(self.net)
            return dynamics(self.net)

    return Started()


@pytest.mark.parametrize("callbacks", [True, False])
def test_lightning_stops_when_ranks_have_other_weights(lit, tmp_path, callbacks):
    """The callback says so at the start of the training, the optimizer at its first step."""
    given = [lit.ConstraintCallback()] if callbacks else []
    trainer = lit.trainer(tmp_path, *given, strategy="ddp_fork", devices=2)
    with pytest.raises(
        Exception, match=r"parameter '4.weight' \(5, 5\): rank 1 holds other values than rank 0"
    ):
        trainer.fit(started_by(lit, set_apart), batches(6))


def test_lightning_goes_on_when_ranks_draw_weights(lit, tmp_path):
    trainer = lit.trainer(tmp_path, lit.ConstraintCallback(), strategy="ddp_fork", devices=2)
    trainer.fit(started_by(lit, drawn), batches(6))
