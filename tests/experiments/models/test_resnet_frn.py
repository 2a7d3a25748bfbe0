import torch
from torch.nn.functional import conv2d, linear

from colangevin.experiments.models.resnet_frn import FilterResponseNorm, ResNet20FRN


def layer(x, weights, name, stride=1):
    """A layer of the published code, from its own words: a "same" convolution, then the norm."""
    kernel = weights[f"{name}.conv.weight"]
    size = x.shape[-1]
    out = -(-size // stride)
    total = max((out - 1) * stride + kernel.shape[-1] - size, 0)
    before = total // 2
    padded = x.new_zeros(*x.shape[:2], size + total, size + total)
    padded[..., before : before + size, before : before + size] = x
    x = conv2d(padded, kernel, weights[f"{name}.conv.bias"], stride)
    x = x / (x.square().mean((2, 3), keepdim=True) + 1e-6).sqrt()
    gain, bias, threshold = (weights[f"{name}.norm.{each}"] for each in ("weight", "bias", "threshold"))
    return torch.maximum(gain * x + bias, threshold)


def swish(x):
    return x * torch.sigmoid(x)


def transcribed(x, weights):
    """The network line by line, in float64."""
    x = swish(layer(x, weights, "stem"))
    for number in range(9):
        name, stride = f"blocks.{number}", 2 if number in (3, 6) else 1
        y = swish(layer(x, weights, f"{name}.first", stride))
        y = layer(y, weights, f"{name}.second")
        if number in (3, 6):
            x = layer(x, weights, f"{name}.shortcut", stride)
        x = swish(x + y)
    return linear(x.mean((2, 3)), weights["head.weight"], weights["head.bias"])


def unlike_its_start(model):
    """Every weight moved, so that none that is forgotten goes unnoticed."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return model


def test_it_is_the_published_network():
    model = unlike_its_start(ResNet20FRN(width=3).double())
    x = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(model(x), transcribed(x, model.state_dict()), rtol=1e-10, atol=1e-10)


def test_it_has_the_sizes_of_its_name():
    model = ResNet20FRN()
    kernels = [
        name for name, weight in model.named_parameters() if weight.dim() == 4 and weight.shape[-1] == 3
    ]
    assert len(kernels) == 19  # and the last linear layer
    assert sum(weight.numel() for weight in model.parameters()) == 274_042
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_it_starts_as_the_published_one():
    torch.manual_seed(0)
    model = ResNet20FRN()
    for name, weight in model.named_parameters():
        if name.endswith("norm.weight"):
            assert bool((weight == 1).all())
        elif weight.dim() in (1, 3):
            assert bool((weight == 0).all())
        else:
            inputs = weight[0].numel()
            assert abs(float(weight.detach().std()) * (inputs / 2) ** 0.5 - 1) < 0.12


def test_images_of_a_batch_do_not_see_each_other():
    model = unlike_its_start(ResNet20FRN(width=4).double())
    x = torch.randn(3, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(model(x)[1:2], model(x[1:2]))


def test_a_norm_forgets_the_scale_of_its_input():
    norm, x = FilterResponseNorm(2), torch.randn(1, 2, 8, 8)
    torch.testing.assert_close(norm(5 * x), norm(x), rtol=1e-4, atol=1e-4)
    norm.threshold.data[:] = 0.5
    assert float(norm(x).detach().min()) == 0.5
