import pytest

from colangevin.experiments.report.settings import Scale, listed, scale


def test_parts_that_differ_in_a_number_are_on_a_scale():
    names = ["2 hidden layers", "3 hidden layers", "1,000 hidden layers"]
    assert scale(names) == Scale("hidden layers", [2, 3, 1000])


@pytest.mark.parametrize(
    "names",
    [
        ["no dropout", "batch 256", "70 words"],
        ["2 layers", "3 units", "4 layers"],
        ["2 layers", "three layers", "4 layers"],
        ["50,000 images", "20,000 images"],  # two points make no curve
        ["2 layers", "2 layers", "3 layers"],
        [],
    ],
)
def test_other_parts_are_categories(names):
    assert scale(names) is None


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["5 hidden layers"], "5 hidden layers"),
        (["5 hidden layers", "7 hidden layers", "8 hidden layers"], "5, 7 and 8 hidden layers"),
        (["Penn Treebank", "WikiText-2"], "Penn Treebank and WikiText-2"),
        (["a", "b", "c", "d"], "4 of 9 settings"),
        (["a, b", "c"], "a, b and c"),
    ],
)
def test_parts_in_words(names, words):
    assert listed(names, 9) == words
