import torch
from torch import nn

from colangevin.experiments.models.resnet import ResNet34


def test_resnet_34_has_its_layers_and_weights():
    model = ResNet34()
    kernels = [module for module in model.modules() if isinstance(module, nn.Conv2d)]
    assert len(kernels) == 36  # 33 of 3 x 3 and 3 shortcuts
    assert sum(kernel.kernel_size == (3, 3) for kernel in kernels) == 33
    assert sum(weight.numel() for weight in model.parameters()) == 21_282_122
    assert model.stem.weight.shape == (64, 3, 3, 3)
    assert model.stem.stride == (1, 1)
    assert model.head.weight.shape == (10, 512)


def test_resnet_halves_the_image_three_times():
    model = ResNet34(width=4).eval()
    sizes = []
    for block in model.blocks:
        block.register_forward_hook(lambda module, inputs, output: sizes.append(tuple(output.shape[1:])))
    assert model(torch.randn(2, 3, 32, 32)).shape == (2, 10)
    assert sizes == [(4, 32, 32)] * 3 + [(8, 16, 16)] * 4 + [(16, 8, 8)] * 6 + [(32, 4, 4)] * 3
