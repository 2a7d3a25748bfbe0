"""Layers that take the weights of all replicas at once: which models have them, and what they compute."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

import colangevin as cl
from colangevin import replicas as module
from colangevin.stacked_layers import layers_in_a_row
from tests.replicas.models import N


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def every_layer() -> nn.Module:
    inner = nn.Sequential(nn.Linear(6, 5, bias=False), nn.GELU(), nn.Identity(), nn.Softplus(beta=2.0))
    between = (nn.ELU(), nn.SiLU(), nn.LeakyReLU(0.2), nn.Sigmoid(), nn.Tanh(), nn.ReLU())
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), inner, *between, nn.Linear(5, 2))


def rowwise() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.Flatten(0))


@pytest.fixture
def calls_of_vmap(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    calls: list[object] = []
    vmap = module.vmap

    def counted(*arguments: object, **options: object) -> object:
        calls.append(arguments)
        return vmap(*arguments, **options)

    monkeypatch.setattr(module, "vmap", counted)
    return calls


def outcome(replicas: cl.Replicas, x: Tensor, *, per_replica: bool) -> list[Tensor]:
    """Outputs and gradients, of the inputs too."""
    x = x.clone().requires_grad_()
    out = replicas(x, per_replica=per_replica)
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)
    return [out, *torch.autograd.grad((weights * out).sum(), [x, *replicas.parameters()])]


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        *((every_layer, shape) for shape in ((4,), (7, 4), (2, 3, 4), (0, 4))),
        *((rowwise, shape) for shape in ((5, 12), (5, 3, 4))),
        (lambda: nn.Linear(4, 2), (7, 4)),
    ],
)
@pytest.mark.parametrize("per_replica", [False, True])
def test_layers_in_a_row_compute_what_vmap_computes(build, shape, per_replica, calls_of_vmap, monkeypatch):
    replicas = cl.Replicas(lambda: build().double(), N, seed=0)
    lead = (N,) if per_replica else ()
    x = torch.randn(*lead, *shape, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    fast = outcome(replicas, x, per_replica=per_replica)
    assert not calls_of_vmap
    monkeypatch.setattr(module, "layers_in_a_row", lambda model: None)
    slow = outcome(replicas, x, per_replica=per_replica)
    assert calls_of_vmap
    for one, other in zip(fast, slow, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_outputs_are_contiguous_as_those_of_one_model():
    replicas = cl.Replicas(every_layer, N, seed=0)
    assert replicas(torch.randn(7, 4)).is_contiguous()


def test_autocast_is_followed():
    replicas = cl.Replicas(lambda: nn.Linear(4, 2), N, seed=0)
    with torch.autocast("cpu", torch.bfloat16):
        assert replicas(torch.randn(7, 4)).dtype == torch.bfloat16


def test_weights_given_to_functional_call_are_taken(calls_of_vmap):
    replicas = cl.Replicas(every_layer, N, seed=0)
    other = cl.Replicas(every_layer, N, seed=1)
    x = torch.randn(7, 4)
    assert torch.equal(functional_call(replicas, dict(other.named_parameters()), (x,)), other(x))
    assert torch.equal(copy.deepcopy(replicas)(x), replicas(x))
    assert not calls_of_vmap


# torch's compiler, as it is imported
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
@pytest.mark.parametrize(
    "change",
    [
        lambda model: model.append(nn.Dropout()),
        lambda model: model.append(nn.ReLU(inplace=True)),
        lambda model: model.append(Doubled(2, 2)),
        lambda model: model.append(nn.LayerNorm(2)),
        lambda model: nn.utils.parametrizations.weight_norm(model[0]),
        lambda model: model[0].register_forward_hook(lambda layer, inputs, output: 2 * output),
        lambda model: model[0].register_forward_pre_hook(lambda layer, inputs: (2 * inputs[0],)),
        lambda model: setattr(model[0], "forward", lambda x: x),
        lambda model: model[0].compile(),
    ],
)
def test_whatever_does_something_else_runs_under_vmap(change):
    model = every_layer()
    assert layers_in_a_row(model) is not None
    change(model)
    assert layers_in_a_row(model) is None


def test_a_hook_on_every_module_is_called():
    replicas = cl.Replicas(every_layer, N, seed=0)
    seen: list[str] = []
    hook = nn.modules.module.register_module_forward_hook(lambda layer, *_: seen.append(type(layer).__name__))
    with hook:
        replicas(torch.randn(7, 4))
    assert seen.count("Linear") == 3


def test_a_subclass_of_a_layer_keeps_its_own_forward():
    replicas = cl.Replicas(lambda: nn.Sequential(Doubled(4, 2)), N, seed=0)
    x = torch.randn(7, 4)
    torch.testing.assert_close(replicas(x)[1], replicas[1](x))


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.Flatten(-2)), (3,)),
        (lambda: nn.Sequential(nn.Linear(3, 4), nn.Flatten(-3, -2)), (5, 3)),
        (lambda: nn.Linear(1, 4), ()),
        (lambda: nn.Linear(1, 4, bias=False), ()),
    ],
)
def test_what_a_model_refuses_its_replicas_refuse_alike(build, shape):
    errors = []
    for model in (build(), cl.Replicas(build, 1, seed=0), cl.Replicas(build, N, seed=0)):
        with pytest.raises((RuntimeError, IndexError)) as raised:
            model(torch.randn(shape))
        errors.append((type(raised.value), str(raised.value)))
    assert len(set(errors)) == 1


def test_one_number_may_be_flattened():
    def build() -> nn.Module:
        return nn.Sequential(nn.Flatten(0, -1), nn.Linear(1, 4))

    replicas = cl.Replicas(build, N, seed=0)
    x = torch.randn(())
    torch.testing.assert_close(replicas(x), torch.stack([replicas[i](x) for i in range(N)]))
