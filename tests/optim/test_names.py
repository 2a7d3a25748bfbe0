"""Canonical names: rules, groups and averages speak of the model, whatever is wrapped around it."""

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

import colangevin as cl
from colangevin.optim.names import named, stripped

NAMES = ["0.weight", "0.bias", "1.weight", "1.bias"]


@pytest.fixture
def one_process(tmp_path) -> Iterator[None]:
    """A process group, which DistributedDataParallel asks for."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))


def compiled(net: nn.Module) -> nn.Module:
    return torch.compile(net, backend="eager")


def parts_compiled() -> nn.Module:
    net = model()
    net[0] = compiled(net[0])
    return net


def parts_checkpointed() -> nn.Module:
    net = model()
    net[0] = checkpoint_wrapper(net[0])
    return net


class Fabricated(nn.Module):
    """As Lightning Fabric's wrapper: it has the module twice."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._forward_module = module
        self._original_module = module


WRAPPED: dict[str, Callable[[], nn.Module]] = {
    "nothing": model,
    "AveragedModel": lambda: AveragedModel(model()),
    "compile": lambda: compiled(model()),
    "compiled average": lambda: compiled(AveragedModel(model())),
    "average of compiled": lambda: AveragedModel(compiled(model())),
    "DataParallel": lambda: nn.DataParallel(model()),
    "compiled part": parts_compiled,
    "checkpointed part": parts_checkpointed,
    "Fabric": lambda: Fabricated(model()),
    "compile in place": lambda: (net := model(), net.compile(backend="eager"))[0],
}


@pytest.mark.parametrize("wrapped", WRAPPED)
def test_rules_and_groups_use_canonical_names(wrapped: str) -> None:
    net = WRAPPED[wrapped]()
    groups = cl.constrain(net, {"0.weight": cl.Circle(2.0), nn.Linear: cl.Sphere(5.0)})
    found = {name: group["constraint"] for group in groups for name, _ in group["params"]}
    free = cl.Free()
    assert found == {"0.weight": cl.Circle(2.0), "0.bias": free, "1.weight": cl.Sphere(5.0), "1.bias": free}
    assert [row.name for row in cl.suggest(net).rows] == ["0.weight", "1.weight"]


def test_names_inside_of_distributed_data_parallel(one_process) -> None:
    for net in (DistributedDataParallel(model()), compiled(DistributedDataParallel(model()))):
        assert list(named(net).values()) == [[name] for name in NAMES]
        cl.constrain(net, {"0.*": cl.Circle(2.0)})


def test_an_error_lists_canonical_names() -> None:
    with pytest.raises(cl.ConstraintError, match=f"rule 'module.0.weight' fits .*: {', '.join(NAMES)}"):
        cl.constrain(AveragedModel(model()), {"module.0.weight": cl.Circle(2.0)})


def test_a_module_of_the_users_own_keeps_its_name() -> None:
    net = nn.ModuleDict({"module": nn.Linear(3, 4)})
    assert list(named(net).values()) == [["module.weight"], ["module.bias"]]
    assert list(named(AveragedModel(net)).values()) == [["module.weight"], ["module.bias"]]
    cl.constrain(net, {"module.weight": cl.Circle(2.0)})


def test_names_that_only_a_wrapper_keeps_apart_stay() -> None:
    net = AveragedModel(nn.Linear(3, 4))
    net.weight = nn.Parameter(torch.zeros(2))
    assert list(named(net).values()) == [["weight"], ["module.weight"], ["module.bias"]]


def test_tied_parameters_have_several_names() -> None:
    net = model()
    net[1].weight = net[0].weight
    assert next(iter(named(AveragedModel(net)).values())) == ["0.weight", "1.weight"]


def test_a_lazy_parameter_is_named() -> None:
    message = r"parameter '0\.weight': has no shape yet\. Run the model on one batch first\."
    with pytest.raises(cl.ConstraintError, match=message):
        cl.constrain(nn.Sequential(nn.LazyLinear(3)), {})


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("0.weight", "0.weight"),
        ("module.0.weight", "0.weight"),
        ("_orig_mod.module._orig_mod.0.weight", "0.weight"),
        ("layers.0._checkpoint_wrapped_module.weight", "layers.0.weight"),
        ("a.module.weight", "a.module.weight"),
        ("module", "module"),
    ],
)
def test_a_name_alone_is_stripped(name: str, canonical: str) -> None:
    assert stripped(name) == canonical
