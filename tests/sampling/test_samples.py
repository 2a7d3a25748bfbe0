"""Collecting: whose turn it is, the limit, resuming, chains, predictions; errors by their text."""

import copy

import pytest
import torch
from torch import nn

import colangevin as cl


def perceptron():
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


def wander(model):
    """Change every weight, differently each time."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter))


def collected(model, calls, **options):
    samples = cl.Samples(model, **options)
    taken = []
    for call in range(1, calls + 1):
        wander(model)
        if samples.collect():
            taken.append((call, copy.deepcopy(model)))
    return samples, taken


@pytest.fixture(params=["memory", "disk"])
def place(request, tmp_path):
    return {} if request.param == "memory" else {"folder": tmp_path / "run"}


@pytest.mark.parametrize(
    ("every", "burn_in", "calls"), [(1, 0, [1, 2, 3, 4, 5, 6, 7]), (3, 0, [3, 6]), (2, 3, [5, 7]), (1, 9, [])]
)
def test_whose_turn_it_is(place, every, burn_in, calls):
    samples, taken = collected(perceptron(), 7, every=every, burn_in=burn_in, **place)
    assert [call for call, _ in taken] == calls
    assert len(samples) == len(calls)


def test_samples_are_the_weights_of_their_time(place):
    samples, taken = collected(perceptron(), 6, every=2, **place)
    for sample, (_, model) in zip(samples, taken, strict=True):
        expected = dict(model.named_parameters())
        assert sample.keys() == expected.keys()
        assert all(torch.equal(sample[name], expected[name]) for name in expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_buffers_dtypes_empty_and_single_numbers_are_kept(place, dtype):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.randn((), dtype=dtype))
            self.nothing = nn.Parameter(torch.zeros(0, 3, dtype=dtype))
            self.transposed = nn.Parameter(torch.randn(3, 2, dtype=dtype).T)
            self.register_buffer("count", torch.tensor(3))

        def forward(self, x):
            return x * self.scale

    model = Odd()
    samples = cl.Samples(model, **place)
    samples.collect()
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        assert samples[0][name].dtype == tensor.dtype
        assert torch.equal(samples[0][name], tensor)


def test_at_the_limit_every_second_sample_is_given_up(place):
    model = perceptron()
    size = sum(4 * parameter.numel() for parameter in model.parameters())
    samples, taken = collected(model, 40, limit=5 * size + 1, burn_in=2, **place)
    models = dict(taken)
    assert samples.every == 8
    assert len(samples) * size <= samples.limit
    # what is left is every 8th after the burn-in, over the whole run
    expected = [10, 18, 26, 34]
    assert len(samples) == len(expected)
    for sample, call in zip(samples, expected, strict=True):
        assert torch.equal(sample["0.weight"], models[call][0].weight)


def test_chains_are_replicas(place):
    replicas = cl.Replicas(perceptron, 4, seed=0)
    samples, taken = collected(replicas, 3, **place)
    assert (samples.chains, len(samples)) == (4, 3)
    assert samples.draws("0.weight").shape == (4, 3, 8, 3)
    assert torch.equal(samples.draws("0.weight")[2, 1], taken[1][1][2][0].weight)
    norms = samples.map(lambda weights: weights["2.weight"].norm())
    assert norms.shape == (4, 3)
    assert torch.allclose(norms[3, 2], taken[2][1][3][2].weight.norm())


@pytest.mark.parametrize("chunk", [None, 1, 2, 5])
def test_predictions_are_those_of_the_models(place, chunk):
    model = perceptron()
    samples, taken = collected(model, 5, **place)
    x = torch.randn(7, 3)
    prediction = samples.predict(x, chunk=chunk)
    expected = torch.stack([each(x) for _, each in taken]).detach()
    assert prediction.samples.shape == (1, 5, 7, 2)
    torch.testing.assert_close(prediction.samples[0], expected)
    torch.testing.assert_close(prediction.mean, expected.mean(0))
    torch.testing.assert_close(prediction.variance, expected.var(0))


@pytest.mark.parametrize("chunk", [None, 1, 2])
def test_predictions_of_chains(chunk):
    replicas = cl.Replicas(perceptron, 3, seed=0)
    samples, taken = collected(replicas, 4)
    x = torch.randn(7, 3)
    prediction = samples.predict(x, chunk=chunk, transform=nn.Softmax(-1))
    expected = torch.stack([each(x).softmax(-1) for _, each in taken], dim=1).detach()
    assert prediction.samples.shape == (3, 4, 7, 2)
    torch.testing.assert_close(prediction.samples, expected)
    torch.testing.assert_close(prediction.mean, expected.mean((0, 1)))
    torch.testing.assert_close(prediction.variance, expected.flatten(0, 1).var(0))


def test_predictions_are_in_evaluation_mode_and_leave_the_model_alone():
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    model[2].eval()
    samples, taken = collected(model, 3)
    before = copy.deepcopy(model.state_dict())
    x = torch.randn(9, 3)
    prediction = samples.predict(x)
    expected = torch.stack([each.eval()(x) for _, each in taken]).detach()
    torch.testing.assert_close(prediction.samples[0], expected)
    assert [module.training for module in model] == [True, True, False, True]
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_tied_weights_are_stored_once_and_predict():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
            self.two.weight = self.one.weight

        def forward(self, x):
            return self.two(self.one(x))

    samples, taken = collected(Tied(), 3)
    assert list(samples[0]) == ["one.weight", "one.bias", "two.bias"]
    x = torch.randn(4, 3)
    expected = torch.stack([each(x) for _, each in taken]).detach()
    torch.testing.assert_close(samples.predict(x).samples[0], expected)


def test_a_model_that_vmap_cannot_run_predicts_one_sample_at_a_time():
    class Deciding(nn.Linear):
        def forward(self, x):
            y = super().forward(x)
            return y if y.sum().item() > 0 else -y

    samples, taken = collected(Deciding(3, 1), 3)
    x = torch.randn(5, 3)
    expected = torch.stack([each(x) for _, each in taken]).detach()
    torch.testing.assert_close(samples.predict(x, chunk=1).samples[0], expected)


def test_one_sample_has_no_variance():
    samples, _ = collected(perceptron(), 1)
    assert bool(samples.predict(torch.randn(2, 3)).variance.isnan().all())


def test_a_resumed_run_has_the_samples_of_the_uninterrupted_one(place, tmp_path):
    def run(samples, model, opt, steps):
        for _ in range(steps):
            opt.zero_grad()
            model(torch.ones(4, 3)).square().mean().backward()
            opt.step()
            samples.collect()

    def build():
        torch.manual_seed(0)
        model = perceptron()
        groups = cl.constrain(model, {"0.weight": cl.Circle(1.0)})
        return model, cl.CoLod(groups, 0.1, temperature=0.01, seed=5)

    model, opt = build()
    whole = cl.Samples(model, every=2)
    run(whole, model, opt, 12)

    model, opt = build()
    first = cl.Samples(model, every=2, **place)
    run(first, model, opt, 5)
    torch.save([model.state_dict(), opt.state_dict(), first.state_dict()], tmp_path / "run.pt")
    run(first, model, opt, 4)  # goes on after the checkpoint, and is killed

    model, opt = build()
    states = torch.load(tmp_path / "run.pt", weights_only=True)
    second = cl.Samples.load(place["folder"], model) if place else cl.Samples(model, every=2)
    for part, state in zip((model, opt, second), states, strict=True):
        part.load_state_dict(state)
    assert len(second) == 2
    run(second, model, opt, 7)
    assert second.calls == 12
    assert len(second) == len(whole)
    for one, other in zip(whole, second, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_repr():
    samples, _ = collected(cl.Replicas(perceptron, 2, seed=0), 3)
    assert repr(samples) == "Samples(3 of 2 chains, every=1, burn_in=0, 0.0 MB)"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"every": 0}, ValueError, r"every=0: must be a whole number of calls, at least 1\."),
        ({"burn_in": -1}, ValueError, r"burn_in=-1: must be a whole number of calls, at least 0\."),
        ({"limit": 399}, cl.SamplesError, r"limit=399 bytes: a sample of this model takes 200, and there"),
    ],
)
def test_errors(options, error, message):
    with pytest.raises(error, match=message):
        cl.Samples(perceptron(), **options)


def test_what_is_not_there_is_said():
    samples = cl.Samples(perceptron(), burn_in=3)
    samples.collect()
    none = r"samples: there is none yet; collect\(\) was called 1 times, with burn_in=3 and every=1"
    for use in (lambda: samples.predict(torch.zeros(1, 3)), lambda: samples.draws("0.bias")):
        with pytest.raises(cl.SamplesError, match=none):
            use()
    with pytest.raises(KeyError, match=r"'1\.weight': the samples have 0\.weight, 0\.bias, 2\.weight"):
        samples.draws("1.weight")
    with pytest.raises(IndexError, match=r"samples\[0\]: there are 0 samples"):
        samples[0]
    samples, _ = collected(perceptron(), 1)
    with pytest.raises(ValueError, match=r"chunk=0: must be a whole number of samples, at least 1"):
        samples.predict(torch.zeros(1, 3), chunk=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"calls": None}, "calls=None must be a whole number, at least 0. Load what Samples.state_dict"),
        ({"calls": -1}, "calls=-1 must be"),
        ({"every": 0}, "every=0 must be a whole number, at least 1"),
        ({"every": 1.5}, "every=1.5 must be"),
        ({"taken": 3}, "taken=3 must be a list of calls"),
        ({"taken": [1, "2"]}, r"taken\[1\]='2' must be a whole number, at least 1"),
    ],
)
def test_a_state_that_is_none_changes_nothing(place, change, message):
    samples, _ = collected(perceptron(), 4, **place)
    state = samples.state_dict()
    samples.collect()
    with pytest.raises(cl.SamplesError, match=f"state_dict: {message}"):
        samples.load_state_dict({**state, **change})
    (missing,) = change
    with pytest.raises(cl.SamplesError, match=f"state_dict: {missing}=None must be"):
        samples.load_state_dict({key: value for key, value in state.items() if key != missing})
    assert (samples.calls, len(samples)) == (5, 5)
    samples.load_state_dict(state)
    assert (samples.calls, len(samples)) == (4, 4)


def test_a_state_of_another_model_or_another_place_is_refused(tmp_path):
    here, _ = collected(perceptron(), 2)
    there, _ = collected(perceptron(), 2, folder=tmp_path / "run")
    with pytest.raises(cl.SamplesError, match="state_dict: is of samples in a folder, these are in memory"):
        here.load_state_dict(there.state_dict())
    with pytest.raises(cl.SamplesError, match="state_dict: is of samples in memory, these are in a folder"):
        there.load_state_dict(here.state_dict())
    other = cl.Samples(nn.Sequential(nn.Linear(3, 9), nn.ReLU(), nn.Linear(9, 2)))
    message = (
        r"the stack of samples of tensor '0\.weight' is \(2, 8, 3\), for this model it must be \(2, 9, 3\)"
    )
    with pytest.raises(cl.SamplesError, match=message):
        other.load_state_dict(here.state_dict())
    assert [len(samples) for samples in (here, there, other)] == [2, 2, 0]
