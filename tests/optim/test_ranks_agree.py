"""Ranks of a job whose weights or seeds differ are found at the first step, on all ranks and by name."""

import copy
import pickle

import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.optim.checksums import checksums
from tests.ranks import errors_of_ranks, run_ranks

RULES = {"0.weight": cl.Orthogonal(), "2.weight": cl.Circle(2.0)}


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def backward(model):
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.1)


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def edit(parameter):
    """Change the last bit of the last element."""
    parameter.data.view(torch.int32).view(-1)[-1] += 1


def trained(rank, steps=2, seed=None, **options):
    model = network()
    optimizer = cl.CoLod(cl.constrain(model, RULES), 0.1, temperature=0.1, seed=seed, **options)
    for _ in range(steps):
        backward(model)
        optimizer.step()
    return weights(model)


@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks_that_are_alike_stay_so(world_size):
    first, *others = run_ranks(trained, world_size)
    for other in others:
        assert all(map(torch.equal, first, other))


# ---- weights -----------------------------------------------------------------------------------------


def differs(rank, name, wrong, named):
    model = network()
    groups = cl.constrain(model, RULES)
    if not named:
        groups = [{**group, "params": [each for _, each in group["params"]]} for group in groups]
    optimizer = cl.CoLud(groups, 0.1, friction=1.0)
    if rank == wrong:
        edit(model.get_parameter(name))
    backward(model)
    before = weights(model)
    with pytest.raises(cl.ConstraintError) as caught:
        optimizer.step()
    assert all(map(torch.equal, before, weights(model)))
    assert not optimizer.state
    raise caught.value


@pytest.mark.parametrize(("world_size", "wrong"), [(2, 1), (4, 2)])
def test_a_weight_that_differs_in_its_last_bit(world_size, wrong):
    for error in errors_of_ranks(differs, world_size, "2.bias", wrong, True):
        with pytest.raises(
            cl.ConstraintError,
            match=rf"parameter '2.bias' \(2,\): rank {wrong} holds other values than rank 0, so the ranks "
            r"would train different models\. Load the same checkpoint .*DistributedDataParallel.*before the "
            r"first step\. For a chain of its own on each rank, .*independent_ranks\(\)\.$",
        ):
            raise error


def test_a_weight_without_a_name_is_compared_by_its_place():
    for error in errors_of_ranks(differs, 2, "0.weight", 1, False):
        with pytest.raises(
            cl.ConstraintError,
            match=r"'param_groups\[0\]\.params\[0\]' \(3, 4\): rank 1.*under ZeroRedundancyOptimizer or in "
            r"the stages of a pipeline, give these with names",
        ):
            raise error


def apart_after_the_first_step(rank):
    """The ranks are compared once: a later difference is not looked for."""
    model = network()
    optimizer = cl.CoLod(cl.constrain(model, RULES), 0.1)
    backward(model)
    optimizer.step()
    if rank:
        with torch.no_grad():
            model.get_parameter("2.bias").add_(1.0)
    optimizer.step()
    copy.deepcopy(optimizer).step()


def test_ranks_are_compared_once():
    run_ranks(apart_after_the_first_step, 2)


def length_0_first(rank):
    model = network()
    optimizer = cl.CoLod(cl.constrain(model, RULES), torch.tensor(0.0) if rank else 0.0)
    if rank:
        edit(model.get_parameter("2.bias"))
    backward(model)
    optimizer.step()
    model.load_state_dict(network().state_dict())
    cl.constrain(model, RULES)
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    optimizer.step()
    return weights(model)


def test_a_step_of_length_0_may_come_before_weights_are_loaded():
    """As `torch.distributed.checkpoint` takes one, to make the state that it loads into."""
    first, second = run_ranks(length_0_first, 2)
    assert all(map(torch.equal, first, second))


def other_parameters(rank):
    """A name in common, the others of one rank alone or of another shape on each."""
    model = nn.ModuleDict({"common": nn.Linear(2, 2), f"own{rank}": nn.Linear(2, 2)})
    model["resized"] = nn.Linear(2 + rank, 1, bias=False)
    torch.manual_seed(5)
    model["common"].reset_parameters()
    optimizer = cl.CoLod(model.named_parameters(), 0.1)
    backward(model)
    optimizer.step()
    wrapped = nn.ModuleDict({("_orig_mod", "module")[rank]: model})
    if rank:
        edit(model.get_parameter("common.bias"))
    optimizer = cl.CoLod(wrapped.named_parameters(), 0.1)
    backward(wrapped)
    with pytest.raises(
        cl.ConstraintError, match=r"parameter 'common.bias' \(2,\): rank 1 holds other values"
    ):
        optimizer.step()


def test_only_what_several_ranks_have_is_compared_by_its_canonical_name():
    run_ranks(other_parameters, 2)


def several_gradients(rank):
    model = network()
    optimizer = cl.CoLud(cl.constrain(model, RULES), 0.1, friction=1.0, splitting="ABOA")
    if rank:
        edit(model.get_parameter("0.bias"))

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(5, 4)).square().sum()
        loss.backward()
        return loss

    before = weights(model)
    with pytest.raises(cl.ConstraintError, match="rank 1 holds other values than rank 0"):
        optimizer.step(closure)
    assert all(map(torch.equal, before, weights(model)))


def test_a_step_of_several_gradients_changes_nothing_either():
    run_ranks(several_gradients, 2)


# ---- seeds -------------------------------------------------------------------------------------------


def drawn_seeds(rank):
    model = network()
    torch.manual_seed(100 + rank)
    built = cl.CoLod(cl.constrain(model, RULES), 0.1, temperature=0.1)
    late = cl.CoLod(cl.constrain(model, RULES), 0.1)
    for group in late.param_groups:
        group["temperature"] = 0.1
    backward(model)
    late.step()
    given = cl.CoLod(model.parameters(), 0.1, temperature=0.1, seed=rank)
    return [optimizer.param_groups[0]["seed"] for optimizer in (built, late, given)]


def test_ranks_agree_on_a_seed_that_is_drawn():
    """Rank 0's generator governs; a seed that is given is left alone."""
    (built, late, own), other = run_ranks(drawn_seeds, 2)
    assert other == [built, late, 1]
    assert own == 0
    model = network()
    torch.manual_seed(100)
    assert cl.CoLod(model.parameters(), 0.1, temperature=0.1).param_groups[0]["seed"] == built != late


def with_seed_of_its_own(rank, temperature):
    model = network()
    optimizer = cl.CoLod(cl.constrain(model, RULES), 0.1, temperature=temperature, seed=rank)
    backward(model)
    optimizer.step()
    return weights(model)


def test_seeds_that_differ():
    for error in errors_of_ranks(with_seed_of_its_own, 2, 0.1):
        with pytest.raises(
            cl.ConstraintError,
            match=r"seed in param_groups\[0\]: rank 1 has 1, rank 0 has 0, so their noise would differ\. "
            r"Give every rank the same seed, or seed=None.*independent_ranks",
        ):
            raise error


def test_seeds_that_are_not_used_may_differ():
    first, second = run_ranks(with_seed_of_its_own, 2, 0.0)
    assert all(map(torch.equal, first, second))


# ---- independent ranks -------------------------------------------------------------------------------


def chain(rank):
    torch.manual_seed(rank)
    model = nn.Linear(4, 3)
    with cl.independent_ranks():
        groups = cl.constrain(model, {"weight": cl.Orthogonal()}, init="draw")
        built = cl.CoLod(groups, 0.1, temperature=0.1)
        late = cl.CoLod(groups, 0.1)
        replicas = cl.Replicas(lambda: nn.Linear(1, 1), 2)
    for group in late.param_groups:
        group["temperature"] = 0.1
    seeds = []
    # no two ranks do the same: whatever waited for the other rank would fail
    made = (late, copy.deepcopy(late), pickle.loads(pickle.dumps(late))) if rank else (built,)
    for optimizer in made:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = torch.zeros_like(parameter)
        optimizer.step()
        seeds.append(optimizer.param_groups[0]["seed"])
    return model.weight.detach(), replicas.seed, *seeds


def test_independent_ranks_draw_for_themselves_and_are_not_compared():
    first, second = run_ranks(chain, 2)
    assert not torch.equal(first[0], second[0])
    assert len({*first[1:], *second[1:]}) == len(first[1:]) + len(second[1:])


def test_ranks_are_together_again_after_an_error():
    with pytest.raises(ValueError, match="inside"), cl.independent_ranks():
        raise ValueError("inside")
    assert not cl.CoLod(nn.Linear(1, 1).parameters(), 0.1)._independent


# ---- where the check is not made ---------------------------------------------------------------------


def test_a_process_of_its_own_is_asked_once(monkeypatch):
    model = network()
    optimizer = cl.CoLod(cl.constrain(model, RULES), 0.1)
    backward(model)
    optimizer.step()
    monkeypatch.setattr("colangevin.optim.base.check_first_step", None)
    optimizer.step()


def captured(rank):
    model = network()
    optimizer = cl.CoLod(cl.constrain(model, RULES), 0.1)
    if rank:
        edit(model.get_parameter("2.bias"))
    backward(model)
    actual = torch.cuda.is_initialized, torch.cuda.is_current_stream_capturing
    torch.cuda.is_initialized = torch.cuda.is_current_stream_capturing = lambda: True
    optimizer.step()
    torch.cuda.is_initialized, torch.cuda.is_current_stream_capturing = actual
    with pytest.raises(cl.ConstraintError, match="rank 1 holds other values"):
        optimizer.step()


def test_a_capture_is_not_interrupted():
    run_ranks(captured, 2)


def compiled(rank):
    model = network()
    optimizer = cl.CoLod(cl.constrain(model, RULES), 0.1)
    backward(model)
    torch.compile(optimizer.step, backend="eager")()
    assert optimizer._compared
    return weights(model)


def test_a_compiled_step_compares_ranks_untraced():
    first, second = run_ranks(compiled, 2)
    assert all(map(torch.equal, first, second))


# ---- checksums ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.uint8, torch.bool, torch.complex128],
)
def test_checksums_see_every_element_and_the_order(dtype):
    numbers = torch.arange(700_000) % 251
    weight = numbers.to(dtype) if dtype != torch.bool else numbers % 3 == 0
    (known,) = checksums([weight])
    for place in (0, 1, 2**18 - 1, 2**18, 699_999):
        other = weight.clone()
        other[place] = not weight[place] if dtype == torch.bool else weight[place] + 1
        assert checksums([other]) != [known]
    assert checksums([weight.flip(0)]) != [known]
    assert checksums([weight.roll(2**18)]) != [known]
    assert checksums([weight, weight.view(7, -1).t().contiguous().t()]) == [known, known]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.complex64])
def test_checksums_see_an_even_number_of_signs(dtype):
    weight = torch.arange(1, 1025).to(dtype)
    assert checksums([-weight]) != checksums([weight])


def test_checksums_of_little():
    assert checksums([]) == []
    assert checksums([torch.empty(0, 3)]) == [0]
    assert len(set(checksums([torch.tensor(0.0), torch.tensor(-0.0), torch.tensor(1.0)]))) == 3
