"""Losses by Triton's kernels are those of torch, on CUDA or under Triton's interpreter."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from colangevin.experiments.judging.scoring import score

pytest.importorskip("triton")

from colangevin.experiments.judging import scoring_kernels

CASES = [(1, 1), (3, 10), (5, 64), (4, 65), (7, 1000)]


@pytest.fixture(params=["interpreter", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request, monkeypatch):
    if request.param == "interpreter":
        if torch.cuda.is_available():
            pytest.skip("Triton compiles for CUDA here")
        monkeypatch.setattr(scoring_kernels, "_BLOCK", 64)
    return torch.device("cpu" if request.param == "interpreter" else "cuda")


def draw(rows, classes, dtype, device):
    source = torch.Generator().manual_seed(rows * classes)
    logits = 5 * torch.randn(rows, classes, generator=source)
    return logits.to(device, dtype), torch.randint(classes, (rows,), generator=source).to(device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("rows", "classes"), CASES)
def test_losses_hits_and_gradients_are_those_of_torch(rows, classes, dtype, device):
    logits, y = draw(rows, classes, dtype, device)
    weights = torch.linspace(0.5, 1.5, rows, device=device)
    ours, theirs = logits.clone().requires_grad_(), logits.float().requires_grad_()
    losses, hits = scoring_kernels.Scores.apply(ours, y)
    expected = cross_entropy(theirs, y, reduction="none")
    torch.testing.assert_close(losses, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(hits.bool(), logits.argmax(-1) == y)
    (losses * weights).sum().backward()
    (expected * weights).sum().backward()
    assert ours.grad.dtype == dtype
    tolerance = 1e-6 if dtype == torch.float32 else 1e-3
    torch.testing.assert_close(ours.grad.float(), theirs.grad, atol=tolerance, rtol=tolerance)


def test_logits_beyond_the_range_of_exponentials(device):
    logits, y = draw(3, 100, torch.float32, device)
    logits = 1e4 * logits
    losses, _ = scoring_kernels.Scores.apply(logits, y)
    torch.testing.assert_close(losses, cross_entropy(logits, y, reduction="none"))


def test_a_logit_that_is_not_a_number_shows_in_the_loss(device):
    logits, y = draw(2, 10, torch.float32, device)
    logits[0, 3] = float("nan")
    losses, _ = scoring_kernels.Scores.apply(logits, y)
    assert losses.isnan().tolist() == [True, False]


@pytest.mark.gpu
def test_a_score_on_cuda_is_that_on_the_cpu():
    logits, y = draw(60, 10_000, torch.bfloat16, torch.device("cuda"))
    logits.requires_grad_()
    loss, right = score(logits.view(6, 10, -1), y.view(6, 10))
    plain, plain_right = score(logits.detach().cpu().view(6, 10, -1), y.cpu().view(6, 10))
    torch.testing.assert_close(loss.cpu(), plain)
    assert int(right) == int(plain_right)
    (grad,) = torch.autograd.grad(loss, logits)
    twin = logits.detach().float().requires_grad_()
    cross_entropy(twin, y).backward()
    torch.testing.assert_close(grad.float(), twin.grad, atol=1e-6, rtol=1e-2)
