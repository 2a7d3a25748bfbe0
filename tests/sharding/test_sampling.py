"""What people do with an optimizer beside stepping, where its parameters are sharded."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import colangevin as cl
from colangevin.sharded import whole
from tests.sharding.cases import constraints, spread
from tests.sharding.simulated import simulate

WEIGHTS = constraints(7, 5, torch.float32)


def means(place: Any = torch.clone) -> dict[str, Tensor]:
    parameters = {name: nn.Parameter(place(weight)) for name, (_, weight) in WEIGHTS.items()}
    groups = [
        {"params": [(name, parameters[name])], "constraint": constraint}
        for name, (constraint, _) in WEIGHTS.items()
    ]
    optimizer = cl.CoLud(groups, 0.1, friction=1.0, temperature=1e-2, seed=1)
    mean = cl.RunningMean(optimizer, decay=0.5)
    for _ in range(3):
        for parameter, (_, weight) in zip(parameters.values(), WEIGHTS.values(), strict=True):
            parameter.grad = place(weight)
        optimizer.step()
        mean.update()
    found = mean.weights()
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(found[name])
    return {name: whole(parameter.detach()).clone() for name, parameter in parameters.items()}


@pytest.mark.parametrize("cut", ["rows", "columns", "rows and columns"])
def test_running_means_are_those_of_one_process_and_fit_the_parameters(cut: str) -> None:
    for found in simulate(lambda rank: means(lambda tensor: spread(tensor, cut, 4)), 4):
        for name, mean in means().items():
            torch.testing.assert_close(found[name], mean, rtol=1e-6, atol=1e-6)


def test_samples_of_a_sharded_model_are_refused() -> None:
    def build(rank: int) -> None:
        model = nn.Linear(4, 3)
        model.weight = nn.Parameter(spread(model.weight.detach(), "rows", 2))
        message = r"parameter 'weight' \(3, 4\) is a DTensor.*full_state_dict=True before each collect"
        with pytest.raises(cl.SamplesError, match=message):
            cl.Samples(model)

    simulate(build, 2)
