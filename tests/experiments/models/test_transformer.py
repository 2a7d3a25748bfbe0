import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from colangevin.experiments.models.transformer import Transformer, _Attention, _positions


def small(**options):
    torch.manual_seed(0)
    return Transformer(11, width=8, hidden=6, **options)


def test_transformer_of_the_paper():
    model = Transformer(10_000)
    shapes = {name: tuple(weight.shape) for name, weight in model.named_parameters() if weight.dim() > 1}
    assert shapes.pop("embedding.weight") == shapes.pop("output.weight") == (10_000, 200)
    assert shapes == {
        f"layers.{layer}.{name}": shape
        for layer in (0, 1)
        for name, shape in {
            "attention.inputs.weight": (600, 200),
            "attention.output.weight": (200, 200),
            "linear1.weight": (200, 200),
            "linear2.weight": (200, 200),
        }.items()
    }
    assert float(model.embedding.weight.detach().abs().max()) <= 0.1 * (1 + 1e-6)


def test_a_prediction_does_not_see_what_comes_after_it():
    model = small().eval()
    words = torch.arange(7).unsqueeze(0)
    changed = words.clone()
    changed[0, 4] = 10
    before, after = model(words), model(changed)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_words_that_fill_the_vocabulary_up_cannot_come_and_change_no_gradient():
    model, words, targets = small(dropout=0.0), torch.arange(7).unsqueeze(0), torch.arange(3, 10).unsqueeze(0)
    logits = model(words)
    assert logits.shape == (1, 7, 16)
    assert torch.equal(logits.exp() == 0, (torch.arange(16) >= 11).expand_as(logits))
    kept = cross_entropy(logits[..., :11].flatten(0, 1), targets.flatten())
    filled = cross_entropy(logits.flatten(0, 1), targets.flatten())
    assert torch.equal(filled, kept)
    weights = list(model.parameters())
    expected = torch.autograd.grad(kept, weights, retain_graph=True)
    for grad, right in zip(torch.autograd.grad(filled, weights), expected, strict=True):
        torch.testing.assert_close(grad, right)


def test_the_order_of_words_matters():
    model = small().eval()
    one, other = model(torch.tensor([[1, 2, 3]])), model(torch.tensor([[2, 1, 3]]))
    assert not torch.allclose(one[:, 2], other[:, 2])


@pytest.mark.parametrize("scale", [True, False])
def test_layers_are_those_of_torch(scale):
    ours = small(dropout=0.0, scale=scale)
    theirs = nn.TransformerEncoderLayer(8, 2, 6, dropout=0.0, batch_first=True)
    mine = ours.layers[0]
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(mine.attention.inputs.weight)
        theirs.self_attn.in_proj_bias.copy_(mine.attention.inputs.bias)
        theirs.self_attn.out_proj.load_state_dict(mine.attention.output.state_dict())
        for name in ("linear1", "linear2", "norm1", "norm2"):
            getattr(theirs, name).load_state_dict(getattr(mine, name).state_dict())
    x = torch.randn(3, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    torch.testing.assert_close(mine(x), theirs(x, src_mask=mask, is_causal=True))


def test_dropout_is_for_training_only():
    model = small(dropout=0.5)
    words = torch.arange(6).unsqueeze(0)
    assert not torch.equal(model(words), model(words))
    model.eval()
    assert torch.equal(model(words), model(words))


def test_attention_starts_as_torchs():
    bound = (6 / (8 + 24)) ** 0.5
    start = _Attention(8, 2, 0.0).inputs.weight.detach()
    assert 0.8 * bound < float(start.abs().max()) <= bound


def test_positions():
    table = _positions(4, 6, torch.device("cpu"))
    assert table.shape == (4, 6)
    assert float(table[2, 0]) == pytest.approx(torch.tensor(2.0).sin().item())
    assert float(table[3, 3]) == pytest.approx(torch.tensor(3 * 10_000 ** (-2 / 6)).cos().item())
