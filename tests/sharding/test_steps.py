"""Steps of sharded parameters are those of one process, noise included; bit for bit unless rows are cut."""

import pytest
import torch

from tests.sharding.cases import CUTS, OPTIMIZERS, constraints, spread, trained
from tests.sharding.simulated import simulate


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_constraint_takes_the_step_of_one_process(optimizer: str, ranks: int, cut: str) -> None:
    # 7 rows: uneven parts on 2, 3 and 4 ranks, and an empty one on 8
    weights = constraints(7, 5, torch.float32)
    expected = trained(optimizer, weights)
    for found in simulate(
        lambda rank: trained(optimizer, weights, lambda tensor: spread(tensor, cut, ranks)), ranks
    ):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            if "columns" in cut and name.startswith("Sphere without slack"):
                assert torch.allclose(found[name], value, rtol=0, atol=2e-6), (
                    name
                )  # 16 ulps, for entries of 1
            else:
                assert torch.equal(found[name], value), name
