"""Adam's bias correction where weights that are stacked in one call have taken different numbers of steps."""

import torch
from torch import Tensor, nn

import colangevin as cl


def orthogonal(*lead: int) -> Tensor:
    return torch.linalg.qr(torch.randn(*lead, 4, 4, generator=torch.Generator().manual_seed(sum(lead))))[0]


def trained(groups: list[list[dict[str, object]]], late: nn.Parameter) -> None:
    """Six steps of an optimizer for each list of groups; one parameter's gradients begin at the fourth."""
    optimizers = [cl.ConstrainedAdam(each, 0.05) for each in groups]
    parameters = [p for each in groups for group in each for p in group["params"]]
    for step in range(6):
        for number, parameter in enumerate(sorted(parameters, key=lambda each: each.shape)):
            generator = torch.Generator().manual_seed(10 * step + number)
            late_yet = parameter is late and step < 3
            parameter.grad = None if late_yet else torch.randn(parameter.shape, generator=generator)
        for optimizer in optimizers:
            optimizer.step()


def test_a_matrix_and_replicas_of_its_shape_keep_counts_of_their_own() -> None:
    results = []
    for together in (True, False):
        for first in (0, 1):
            one, many = nn.Parameter(orthogonal()), nn.Parameter(orthogonal(3))
            groups = [
                {"params": [one], "constraint": cl.Orthogonal()},
                {"params": [many], "constraint": cl.Orthogonal(), "replicas": 3},
            ]
            groups = groups[::-1] if first else groups
            trained([groups] if together else [[group] for group in groups], late=one)
            results.append(torch.cat([one.detach()[None], many.detach()]))
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0, atol=1e-5)


def test_replicas_with_rates_of_their_own_may_begin_late() -> None:
    results = []
    for together in (True, False):
        early, late = nn.Parameter(orthogonal(3)), nn.Parameter(orthogonal(3, 1)[:, 0])
        options = {
            "constraint": cl.Orthogonal(),
            "replicas": 3,
            "lr": torch.tensor([0.01, 0.02, 0.05]),
            "weight_decay": torch.tensor([0.0, 0.1, 0.2]),
        }
        parts = [[{"params": [early, late], **options}]]
        if not together:
            parts = [[{"params": [each], **options}] for each in (early, late)]
        trained(parts, late=late)
        results.append(torch.cat([early.detach(), late.detach()]))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-5)
