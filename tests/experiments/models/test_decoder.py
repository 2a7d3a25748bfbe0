import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from colangevin.experiments.models.decoder import Decoder, _turned, _turns

TEXT = torch.randint(256, (2, 12), generator=torch.Generator().manual_seed(0))


def small():
    torch.manual_seed(0)
    made = Decoder(16, 2, 2, 12)
    torch.nn.init.normal_(made.output.weight)
    return made


def test_the_hidden_matrices_of_the_experiment():
    with torch.device("meta"):
        model = Decoder(512, 8, 8, 1024)
    weights = dict(model.named_parameters())
    shapes = [tuple(weights[name].shape) for name in model.matrices]
    assert shapes == 8 * [*4 * [(512, 512)], (2048, 512), (512, 2048)]
    assert sum(map(math.prod, shapes)) == 25_165_824
    rest = {name for name in weights if name not in model.matrices}
    assert {name for name in rest if weights[name].dim() == 2} == {"embedding.weight", "output.weight"}


def test_a_prediction_does_not_see_what_comes_after_it():
    model, changed = small(), TEXT.clone()
    changed[:, 7] += 1
    before, after = model(TEXT), model(changed % 256)
    torch.testing.assert_close(before[:, :7], after[:, :7])
    assert not torch.isclose(before[:, 7:], after[:, 7:]).all(2).any()


def test_it_starts_by_knowing_nothing():
    loss = cross_entropy(Decoder(16, 2, 2, 12)(TEXT).flatten(0, 1), TEXT.flatten())
    assert loss.item() == pytest.approx(math.log(256))


def test_attention_depends_on_how_far_apart_bytes_are_and_not_on_where():
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(0)).double()
    turns = _turns(20, 8).double()
    every = _turned(q.expand(20, 8), turns) @ _turned(k.expand(20, 8), turns).T
    for distance in (0, 3, -5):
        diagonal = every.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=1e-5, atol=1e-5)
    assert not torch.isclose(every[0, 0], every[0, 3])
    # a turn changes no length
    torch.testing.assert_close(_turned(q.expand(20, 8), turns).norm(dim=1), q.norm().expand(20))


def test_a_shorter_text_is_read_alike():
    model = small()
    torch.testing.assert_close(model(TEXT)[:, :5], model(TEXT[:, :5]))


def test_heads_are_turned_in_pairs():
    with pytest.raises(ValueError, match="width=12: must be a multiple of twice the heads, 8"):
        Decoder(12, 1, 4, 8)
