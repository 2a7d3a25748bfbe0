import math

import pytest
import torch

from colangevin.experiments.data.spirals import four_turn_spiral, two_turn_spiral

SPIRALS = [
    pytest.param(four_turn_spiral, 2.0, 4, 0.02, id="four-turn"),
    pytest.param(two_turn_spiral, 1.0, 2, 0.05, id="two-turn"),
]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("spiral", "radius", "turns", "noise"), SPIRALS)
class TestSpiral:
    @pytest.mark.parametrize("n", [1, 7, 500])
    def test_shapes_and_balance(self, spiral, radius, turns, noise, n):
        x, y = spiral(n, generator=seeded())
        assert x.shape == (n, 2)
        assert y.shape == (n,)
        assert x.dtype == y.dtype == torch.get_default_dtype()
        assert int((y == 0).sum()) == (n + 1) // 2
        assert int((y == 1).sum()) == n // 2

    def test_without_noise_points_lie_on_their_arm(self, spiral, radius, turns, noise):
        x, y = spiral(400, noise=0.0, generator=seeded())
        distance = torch.linalg.vector_norm(x, dim=1)
        assert bool((distance <= radius * (1 + 1e-6)).all())
        angle = 2 * math.pi * turns * distance / radius + math.pi * y
        arm = distance.unsqueeze(1) * torch.stack((angle.cos(), angle.sin()), dim=1)
        torch.testing.assert_close(x, arm, atol=1e-4, rtol=0)

    def test_points_fill_the_disc_evenly(self, spiral, radius, turns, noise):
        # (distance / radius)^2 = t is uniform; the bound is the Kolmogorov-Smirnov 1e-6 quantile
        x, _ = spiral(4000, noise=0.0, generator=seeded())
        t = (torch.linalg.vector_norm(x, dim=1) / radius).square().sort().values
        uniform = (torch.arange(4000) + 0.5) / 4000
        assert float((t - uniform).abs().max()) < math.sqrt(math.log(2 / 1e-6) / 2 / 4000)

    def test_noise_has_the_stated_size(self, spiral, radius, turns, noise):
        clean, _ = spiral(4000, noise=0.0, generator=seeded())
        noisy, _ = spiral(4000, generator=seeded())
        # the standard deviation of 8000 normals is known to 1 / sqrt(16000); five of those: 6e-7
        assert float((noisy - clean).std()) == pytest.approx(noise, rel=5 / math.sqrt(16000))

    def test_generator_decides_everything(self, spiral, radius, turns, noise):
        first, again = spiral(50, generator=seeded(3)), spiral(50, generator=seeded(3))
        other = spiral(50, generator=seeded(4))
        assert torch.equal(first[0], again[0])
        assert torch.equal(first[1], again[1])
        assert not torch.equal(first[0], other[0])

    def test_default_generator_is_left_alone_when_one_is_given(self, spiral, radius, turns, noise):
        before = torch.get_rng_state()
        spiral(50, generator=seeded())
        assert torch.equal(torch.get_rng_state(), before)
