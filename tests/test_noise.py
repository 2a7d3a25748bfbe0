"""The noise: standard normal, white in every direction, and a pure function of its key and element."""

import itertools

import pytest
import torch
from scipy import stats
from torch import Tensor

import colangevin as cl
from colangevin import noise
from colangevin.native.library import library
from tests.statistics import RATE, assert_law, assert_mean

CPU = torch.device("cpu")
COUNT = 1 << 20  # standard errors are 0.001
SEED = 7


def draw(*words: int, count: int = COUNT, dtype: torch.dtype = torch.float64) -> Tensor:
    """The noise of one stream of the seed, shape (count,)."""
    return noise.normal([noise.stream(SEED, *words)], (count,), dtype=dtype, device=CPU)[0]


def assert_independent(x: Tensor, y: Tensor) -> None:
    """No correlation of values, nor of squares (Box and Muller's radius is common to two elements)."""
    assert_mean(x * y, 0.0, resolution=0.02)
    assert_mean((x.square() - 1) * (y.square() - 1), 0.0, resolution=0.04)


# ---- law ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_moments_and_law_are_standard_normal(dtype: torch.dtype) -> None:
    x = draw(0, 0, dtype=dtype).double()
    for power, exact in {1: 0, 2: 1, 3: 0, 4: 3}.items():
        assert_mean(x**power, exact, resolution=0.05)
    assert_law(x, stats.norm.cdf, resolution=0.003)


def test_tail_beyond_four_sigma_has_its_weight() -> None:
    x = draw(1, 0, count=4 * COUNT)
    assert_mean((x.abs() > 4).double(), 2 * stats.norm.sf(4), resolution=3e-5)
    assert float(x.abs().max()) < 6.8  # 31 bits: the tail ends at sqrt(64 log 2)


def test_few_elements_of_many_streams_are_standard_normal_too() -> None:
    keys = [noise.stream(SEED, 3, 0, copy) for copy in range(1 << 16)]
    x = noise.normal(keys, (3,), dtype=torch.float64, device=CPU)
    for column in x.unbind(1):
        assert_mean(column, 0, resolution=0.03)
        assert_mean(column.square(), 1, resolution=0.04)
        assert_law(column, stats.norm.cdf, resolution=0.011)
    for one, other in itertools.combinations(x.unbind(1), 2):
        assert_independent(one, other)


# ---- independence ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lag", range(1, 9))
def test_elements_are_independent(lag: int) -> None:
    x = draw(0, 0)
    assert_independent(x[:-lag], x[lag:])


@pytest.mark.parametrize(
    ("words", "others"),
    [
        pytest.param((10, 0, 0, 0, 0), (11, 0, 0, 0, 0), id="step"),
        pytest.param((10, 0, 0, 0, 0), (10, 1, 0, 0, 0), id="parameter"),
        pytest.param((10, 0, 0, 0, 0), (10, 0, 1, 0, 0), id="replica"),
        pytest.param((10, 0, 0, 0, 0), (10, 0, 0, 1, 0), id="segment"),
        pytest.param((10, 0, 0, 0, 0), (10, 0, 0, 0, 1), id="draw"),
        pytest.param((1, 2, 0, 0, 0), (2, 1, 0, 0, 0), id="order of words"),
    ],
)
def test_streams_that_differ_in_a_word_are_independent(
    words: tuple[int, ...], others: tuple[int, ...]
) -> None:
    x, y = draw(*words), draw(*others)
    assert_independent(x, y)
    assert_independent(x[:-1], y[1:])  # nor is one a shift of the other
    assert_independent(x[1:], y[:-1])


def test_consecutive_seeds_are_independent() -> None:
    x, y = (
        noise.normal([noise.stream(seed, 0, 0)], (COUNT,), dtype=torch.float64, device=CPU)[0]
        for seed in (0, 1)
    )
    assert_independent(x, y)


def test_an_optimizer_gives_every_step_parameter_and_replica_its_own_noise() -> None:
    """Free, no gradient, 2 tau h = 1: the weight moves by the noise itself."""
    weights = [torch.zeros(2, 1 << 17, dtype=torch.float64) for _ in range(2)]
    opt = cl.CoLod([{"params": weights, "replicas": 2}], lr=0.5, temperature=1.0, seed=SEED)
    rows = []
    for _ in range(2):
        before = [weight.clone() for weight in weights]
        for weight in weights:
            weight.grad = torch.zeros_like(weight)
        opt.step()
        rows += [row for weight, old in zip(weights, before, strict=True) for row in weight - old]
    for row in rows:
        assert_mean(row.square(), 1.0, resolution=0.02)
    for one, other in itertools.combinations(rows, 2):
        assert_independent(one, other)


# ---- purity ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_same_key_gives_the_same_bits(dtype: torch.dtype) -> None:
    assert torch.equal(draw(5, 1, count=1001, dtype=dtype), draw(5, 1, count=1001, dtype=dtype))


def test_global_random_state_is_neither_used_nor_moved() -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = draw(5, 1, count=100)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(1)
    assert torch.equal(draw(5, 1, count=100), first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 2, 7, 1000, 262_143, 262_145, 300_001])
def test_an_element_does_not_depend_on_how_many_follow(count: int, dtype: torch.dtype) -> None:
    """The prefixes end inside and beyond the first block that is worked on at a time."""
    long = draw(5, 1, count=400_003, dtype=dtype)
    assert torch.equal(draw(5, 1, count=count, dtype=dtype), long[:count])


def test_an_element_does_not_depend_on_the_shape_or_on_other_keys() -> None:
    keys = [noise.stream(SEED, 5, i) for i in range(5)]
    together = noise.normal(keys, (33, 1001), dtype=torch.float64, device=CPU)
    for key, part in zip(keys, together, strict=True):
        alone = noise.normal([key], (33 * 1001,), dtype=torch.float64, device=CPU)
        assert torch.equal(alone[0], part.flatten())


def test_shapes_without_elements_or_dimensions() -> None:
    key = noise.stream(SEED, 0)
    assert noise.normal([key], (), dtype=torch.float32, device=CPU).shape == (1,)
    assert noise.normal([key], (0, 3), dtype=torch.float32, device=CPU).shape == (1, 0, 3)


def test_precisions_agree_to_float32_rounding() -> None:
    """In each pair's squared radius and angle, which is what rounding of the bits acts on."""
    single = draw(6, 1, dtype=torch.float32).double().view(-1, 2)
    double = draw(6, 1, dtype=torch.float64).view(-1, 2)
    square, exact = single.square().sum(1), double.square().sum(1)
    eps = torch.finfo(torch.float32).eps
    assert bool(((square - exact).abs() <= 4 * eps * (1 + exact)).all())
    turn = torch.atan2(double[:, 0] * single[:, 1] - double[:, 1] * single[:, 0], (double * single).sum(1))
    assert float(turn[square > 0].abs().max()) <= 4 * eps


@pytest.mark.skipif(library() is None, reason="the native library is not compiled")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 2, 3, 255, 256, 257, 16_385, 100_003])
def test_the_native_library_makes_the_same_numbers(
    count: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the rounding of the angle, of size pi, which is multiplied by the radius."""
    keys = [noise.stream(SEED, 5, i) for i in range(3)]
    native = noise.normal(keys, (count,), dtype=dtype, device=CPU)
    tensor = noise.normal(
        torch.tensor([noise._signed(key) for key in keys]), (count,), dtype=dtype, device=CPU
    )
    assert torch.equal(native, tensor)
    monkeypatch.setattr(noise, "library", lambda: None)
    plain = noise.normal(keys, (count,), dtype=dtype, device=CPU)
    radius = plain.abs().max().clamp_min(1.0)
    assert float((native - plain).abs().max() / radius) <= 4 * torch.finfo(dtype).eps


# ---- bits --------------------------------------------------------------------------------------------


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """The 64-bit words behind a stream, as ``normal`` makes them."""
    seen: list[Tensor] = []
    finalise = noise._finalise

    def listening(*args: Tensor) -> Tensor:
        seen.append(finalise(*args).clone())
        return seen[-1].clone()

    monkeypatch.setattr(noise, "_finalise", listening)
    monkeypatch.setattr(noise, "library", lambda: None)
    draw(8, 2, count=COUNT)
    return torch.cat(seen, dim=1).flatten()


def bit_counts(words: Tensor) -> Tensor:
    """How often each of the 64 bits is set."""
    return torch.stack([(words >> bit & 1).sum() for bit in range(64)]).double()


def assert_balanced(words: Tensor) -> None:
    """Chi-square of the 64 counts against half, two-sided: too even is as wrong as too uneven."""
    n = words.numel()
    chi2 = float(((bit_counts(words) - n / 2).square() / (n / 4)).sum())
    assert stats.chi2.ppf(RATE / 2, 64) < chi2 < stats.chi2.isf(RATE / 2, 64)


def test_bits_are_balanced(words: Tensor) -> None:
    assert_balanced(words)


@pytest.mark.parametrize("lag", [1, 2, 4, 1024])
def test_half_of_the_bits_change_from_one_word_to_another(words: Tensor, lag: int) -> None:
    assert_balanced(words[:-lag] ^ words[lag:])


def test_neighbouring_bits_are_independent(words: Tensor) -> None:
    for shift in (1, 8, 31):
        assert_balanced(words ^ (words >> shift & ((1 << 64 - shift) - 1) | words << 64 - shift))


def test_bytes_are_uniform(words: Tensor) -> None:
    counts = torch.bincount(words.view(torch.uint8).long(), minlength=256)
    assert RATE / 2 < stats.chisquare(counts.numpy()).pvalue < 1 - RATE / 2


def test_power_against_correlated_and_scaled_noise() -> None:
    x, y = draw(0, 0), draw(0, 1)
    with pytest.raises(AssertionError, match="biased"):
        assert_independent(x, y + 0.01 * x)
    with pytest.raises(AssertionError, match="biased"):
        assert_mean((1.01 * x).square(), 1.0, resolution=0.02)
    with pytest.raises(AssertionError, match="wrong law"):
        assert_law(x + 0.01, stats.norm.cdf, resolution=0.003)


@pytest.mark.parametrize("copies", [1, 5, 1000])
def test_keys_of_many_copies_are_those_of_each(copies: int) -> None:
    parameters = [noise.stream(SEED, 9, index) for index in (0, 3)]
    ranges = [range(2, 2 + copies), range(copies)]
    keys = noise.streams(parameters, ranges, 1, 4)
    one_by_one = [
        noise.stream(SEED, 9, index, copy, 1, 4)
        for index, each in zip((0, 3), ranges, strict=True)
        for copy in each
    ]
    assert [int(key) % 2**64 for key in keys] == one_by_one
    together = noise.normal(keys, (3,), dtype=torch.float64, device=CPU)
    assert torch.equal(together, noise.normal(one_by_one, (3,), dtype=torch.float64, device=CPU))


# ---- parts -------------------------------------------------------------------------------------------

WINDOWS = [
    noise.Window(0, 1000, 0),
    noise.Window(7, 1000, 0),
    noise.Window(8, 1, 1),
    noise.Window(3, 1, 17),
    noise.Window(5, 3, 8),
    noise.Window(6, 128, 301),
    noise.Window(2, 999, 4000),
]


@pytest.fixture(params=["native", "torch"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes the noise of a test."""
    if request.param == "torch":
        monkeypatch.setattr(noise, "library", lambda: None)
    elif library() is None:
        pytest.skip("the native library is not compiled")


def elements(window: noise.Window, count: int) -> list[int]:
    """Where the elements of a part are in the whole."""
    return [window.first + i // window.length * window.stride + i % window.length for i in range(count)]


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("many", [False, True], ids=["a list of keys", "a tensor of keys"])
def test_a_part_has_the_noise_of_the_whole(window: noise.Window, dtype: torch.dtype, many: bool) -> None:
    keys = [noise.stream(SEED, 5, i) for i in range(3)]
    given = torch.tensor([noise._signed(key) for key in keys]) if many else keys
    whole = noise.normal(keys, (40_000,), dtype=dtype, device=CPU)
    for count in (0, 1, 2, 37, 1000):
        part = noise.normal(given, (count,), dtype=dtype, device=CPU, window=window)
        assert torch.equal(part, whole[:, elements(window, count)])
        assert part.shape == (3, count)


@pytest.mark.usefixtures("path")
def test_a_part_far_into_a_large_weight() -> None:
    key, first = noise.stream(SEED, 5), (1 << 40) + 1
    part = noise.normal([key], (9,), dtype=torch.float64, device=CPU, window=noise.Window(first, 9, 0))
    further = noise.Window(first + 4, 1, 2)
    one_by_one = noise.normal([key], (3,), dtype=torch.float64, device=CPU, window=further)
    assert torch.equal(one_by_one[0], part[0, 4::2])


@pytest.mark.usefixtures("path")
def test_a_wrong_part_has_other_noise() -> None:
    key = noise.stream(SEED, 5)
    right, wrong = (
        noise.normal([key], (100,), dtype=torch.float64, device=CPU, window=noise.Window(first, 100, 0))
        for first in (8, 9)
    )
    assert not torch.isclose(right, wrong).any()
    assert torch.equal(right[0, 1:], wrong[0, :-1])


def test_windows_on_several_numbers_an_element() -> None:
    window = noise.Window(6, 4, 10)
    assert elements(window.scaled(2, 1), 16) == [2 * i + k for i in elements(window, 8) for k in (0, 1)]
    rows = noise.Window(6, 9, 0)  # of 3 entries, and one number more of slack
    assert elements(rows.scaled(4, 3), 12) == list(range(8, 20))
    assert noise.Window(6, 10**9 + 1, 0).scaled(4, 3).in_one_piece(12)  # longer than the part


@pytest.mark.parametrize("window", [(-1, 3, 5), (0, 0, 5)])
def test_windows_that_are_none(window: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="first must be at least 0, and length at least 1"):
        noise.Window(*window)
