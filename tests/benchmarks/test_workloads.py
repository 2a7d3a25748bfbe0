from collections import Counter

import pytest
import torch

from benchmarks import growth, workloads
from benchmarks.contender import Gradients, matrices, orthogonality
from colangevin.experiments.models.resnet import ResNet34


def test_gpt2_small_has_its_tensors_and_weights():
    assert len(workloads.GPT2_SMALL.shapes) == 148
    assert workloads.GPT2_SMALL.weights == 124_439_808


def test_kernels_are_those_of_the_network():
    kernels = [p.shape for p in ResNet34().parameters() if p.dim() == 4]
    assert Counter(map(tuple, kernels)) == Counter(workloads.RESNET34.shapes)
    assert len(workloads.RESNET34.shapes) == 36


def test_network_maps_images_to_logits():
    assert ResNet34().eval()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


def test_perceptron_of_the_cpu_has_12_tensors():
    assert len(workloads.PERCEPTRON.shapes) == 12
    assert workloads.PERCEPTRON.weights == 2_898_210


@pytest.mark.parametrize(
    ("workload", "tensors", "weights"),
    [(workloads.SQUARES, 11, 2_883_584), (workloads.TEN, 3, 10), (workloads.THOUSAND, 1000, 10_000_000)],
    ids=lambda value: getattr(value, "name", None),
)
def test_workloads_have_the_sizes_that_their_names_say(workload, tensors, weights):
    assert len(workload.shapes) == tensors
    assert workload.weights == weights


@pytest.mark.parametrize("number", [100, 4096**2, 10**8])
def test_growth_has_as_many_weights_as_it_says(number):
    (workload,) = growth.circles([number])
    assert workload.weights == number
    assert workload.name.endswith(f": {number}")


def test_orthonormal_workloads_start_so():
    start = workloads.RESNET34_STAGE1.start(torch.device("cpu"))
    assert orthogonality(start) < 5e-6


def test_orthogonality_sees_the_largest_error():
    error = orthogonality([torch.eye(3), 1.1 * torch.eye(2, 5), torch.eye(4, 2)])
    assert error == pytest.approx(0.21, abs=1e-6)
    assert orthogonality([torch.full((2, 2), torch.nan), torch.eye(2)]) != 0
    assert torch.tensor(orthogonality([torch.full((2, 2), torch.nan), torch.eye(2)])).isnan()


def test_gradients_are_fresh_and_of_the_size_asked_for():
    torch.manual_seed(0)
    weights = [torch.zeros(50, 30), torch.zeros(7)]
    gradients = Gradients(weights, 0.1)
    gradients.attach()
    first = [weight.grad.clone() for weight in weights]
    gradients.refill()
    assert [weight.grad.shape for weight in weights] == [(50, 30), (7,)]
    assert not torch.equal(first[0], weights[0].grad)
    # 1500 normals: their deviation is off by more than 12 % once in 10^10 tries
    assert weights[0].grad.std().item() == pytest.approx(0.1, rel=0.12)
    assert all(weight.grad.data_ptr() % 256 == gradients.buffer.data_ptr() % 256 for weight in weights)


def test_gradients_lie_as_dense_weights_do_and_fit_others():
    kernel = torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)
    part = torch.zeros(60, 60).t()[:2]  # columns of a larger matrix
    gradients = Gradients([kernel, part], 0.1)
    gradients.attach()
    assert kernel.grad.stride() == kernel.stride()
    assert part.grad.shape == part.shape


@pytest.mark.parametrize("tall", [True, False])
def test_matrices_are_flat_copies_turned_as_asked(tall):
    weights = [torch.randn(4, 2, 3, 3), torch.randn(5, 2)]
    shapes = [tuple(matrix.shape) for matrix in matrices(weights, tall=tall)]
    assert shapes == ([(18, 4), (5, 2)] if tall else [(4, 18), (2, 5)])
    matrices(weights, tall=tall)[0].zero_()
    assert weights[0].abs().sum() > 0
