import pytest
import torch
from torch import nn

import colangevin as cl
from colangevin.experiments.catalogue.method import Method
from colangevin.experiments.catalogue.problems import ImageProblem
from colangevin.experiments.training.image_task import ImageTask, crop, normalise

CPU = torch.device("cpu")


@pytest.fixture
def make(small_data):
    return lambda run=0, seed=0, **sizes: ImageTask(
        ImageProblem(**{"train": 60, "test": 12, "batch": 16, "width": 4, **sizes}), run, seed, CPU
    )


def test_crops_are_windows_of_the_padded_image_and_flips_mirror_them():
    source = torch.Generator().manual_seed(0)
    pictures = torch.randint(256, (5, 3, 8, 8), generator=source, dtype=torch.uint8)
    shift = torch.tensor([[0, 0], [8, 8], [4, 4], [1, 7], [4, 4]])
    flip = torch.tensor([False, False, False, True, True])
    found = crop(pictures, shift, flip)
    for number in range(5):
        padded = torch.zeros(3, 16, 16, dtype=torch.uint8)
        padded[:, 4:12, 4:12] = pictures[number]
        row, column = shift[number].tolist()
        window = padded[:, row : row + 8, column : column + 8]
        assert torch.equal(found[number], window.flip(-1) if flip[number] else window)
    assert torch.equal(found[2], pictures[2])
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_normalised_by_channel():
    pictures = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
    pictures[0, 1] = 255
    found = normalise(pictures)
    assert found[0, 0, 0, 0].item() == pytest.approx(-0.4914 / 0.2470)
    assert found[0, 1, 1, 1].item() == pytest.approx((1 - 0.4822) / 0.2435)


def epoch(made, number):
    """Rows of the images in the order in which an epoch shows them, and the images."""
    made.begin(number)
    start, shown, classes = torch.zeros((), dtype=torch.long), [], []
    for size in made.sizes:
        x, y = made.batch(start, size)
        shown.append(x)
        classes.append(y)
        start += size
    return torch.cat(shown), torch.cat(classes)


def test_an_epoch_shows_every_image_once(make):
    made = make(batch=15)
    assert made.sizes == [15, 15, 15, 15]
    x, y = epoch(made, 1)
    assert x.shape == (60, 3, 32, 32)
    assert sorted(y.tolist()) == sorted(made.y.tolist())
    assert sorted(made.order.tolist()) == list(range(60))


def test_a_batch_that_is_not_full_is_left_out(make):
    assert make(batch=16).sizes == [16, 16, 16]
    assert make(batch=100).sizes == [60]


def test_order_crops_and_flips_depend_on_run_and_epoch_alone(make):
    x, y = epoch(make(), 3)
    again, classes = epoch(make(), 3)
    assert torch.equal(x, again)
    assert torch.equal(y, classes)
    other, elsewhere = epoch(make(), 4), epoch(make(run=1), 3)
    assert not torch.equal(x, other[0])
    assert not torch.equal(x, elsewhere[0])
    made = make()
    made.begin(1)
    first = made._shift.clone(), made._flip.clone()
    made.begin(2)
    assert not torch.equal(first[0], made._shift)
    assert not torch.equal(first[1], made._flip)


def test_crops_are_drawn_evenly(make):
    made = make()
    shifts = []
    for number in range(1, 41):
        made.begin(number)
        shifts.append(made._shift.clone())
    counts = torch.cat(shifts).flatten().bincount(minlength=9)
    assert len(counts) == 9
    # 4800 draws in 9 places: 533 each, standard deviation 22; a false alarm in a million at five of them
    assert int((counts - 4800 / 9).abs().max()) < 5 * 22


def test_all_runs_share_the_chosen_images(make):
    one, other = make(train=20, test=5), make(run=1, train=20, test=5)
    assert torch.equal(one.x, other.x)
    assert (len(one.y), len(one.y_test)) == (20, 5)
    assert not torch.equal(one.x, make(seed=1, train=20, test=5).x)


def test_test_images_are_those_of_the_test_batch(make):
    made = make()
    x, y = next(iter(made.pieces("test")))
    assert x.shape == (12, 3, 32, 32)
    assert sorted(y.tolist()) == sorted(number % 10 for number in range(12))


def test_learning_rate_falls_in_thirds(make):
    made = make()
    rates = [made.learning_rate(number, 150) for number in (1, 50, 51, 100, 101, 150)]
    assert rates == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    short = [made.learning_rate(number, 24) for number in (8, 9, 16, 17, 24)]
    assert short == pytest.approx([1, 0.1, 0.1, 0.01, 0.01])
    assert make(stages=1).learning_rate(150, 150) == 1


@pytest.mark.parametrize(
    ("square", "free"),
    [("orthogonal", {"stem.weight"}), ("orthogonal but the last", {"stem.weight", "head.weight"})],
)
def test_all_weights_but_the_first_are_held(make, square, free):
    made, method = make(), Method("o", 0.1, square=square)
    model = made.model(method)
    groups = cl.constrain(model, made.rules(method), init="draw")
    held = {name for g in groups if g["constraint"] == cl.Orthogonal() for name, _ in g["params"]}
    matrices = {name for name, weight in model.named_parameters() if weight.dim() > 1}
    assert held == matrices - free
    assert len(held) == 37 - len(free)


def kernels_of(model):
    return [module.weight for module in model.modules() if isinstance(module, nn.Conv2d)]


@pytest.mark.parametrize("identities", [True, False])
def test_blocks_start_as_their_shortcut_alone_where_asked(make, identities):
    torch.manual_seed(0)
    model = make(identities=identities).model(Method("SGD", 0.1)).eval()
    x = torch.rand(2, 4, 8, 8)
    for block in model.blocks:
        shortcut = torch.relu(block.shortcut(x))
        assert torch.equal(block(x), shortcut) == identities
        x = shortcut


def test_kernels_lie_with_their_channels_together(make):
    kernels = kernels_of(make().model(Method("SGD", 0.1)))
    assert all(kernel.is_contiguous(memory_format=torch.channels_last) for kernel in kernels)
