"""The grammar of splitting strings."""

import itertools
import math
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from colangevin import SplittingError
from colangevin.dynamics.splitting import Letter, parse

HALF = 1 / 2


@pytest.mark.parametrize(
    ("text", "segments"),
    [
        ("OBA", [[("O", 1), ("B", 1), ("A", 1)]]),
        ("BOA", [[("B", 1), ("O", 1), ("A", 1)]]),
        ("OBAO", [[("O", HALF), ("B", 1), ("A", 1), ("O", HALF)]]),
        ("BOAA", [[("B", 1), ("O", 1), ("A", HALF), ("A", HALF)]]),
        # the half kicks at the two ends of neighbouring steps see one gradient: they are one kick
        ("BAOAB", [[("B", 1), ("A", HALF), ("O", 1), ("A", HALF)]]),
        ("BOAOB", [[("B", 1), ("O", HALF), ("A", 1), ("O", HALF)]]),
        ("BBAOABB", [[("B", 1), ("A", HALF), ("O", 1), ("A", HALF)]]),
        # neighbouring kicks are one
        ("OBBA", [[("O", 1), ("B", 1), ("A", 1)]]),
        # a kick after a drift starts a segment
        ("ABO", [[("A", 1)], [("B", 1), ("O", 1)]]),
        ("ABOBA", [[("A", HALF)], [("B", HALF), ("O", 1), ("B", HALF), ("A", HALF)]]),
        ("BABO", [[("B", HALF), ("A", 1)], [("B", HALF), ("O", 1)]]),
        ("OABAB", [[("O", 1), ("A", HALF)], [("B", HALF), ("A", HALF)], [("B", HALF)]]),
        ("BAOBAB", [[("B", 2 / 3), ("A", HALF), ("O", 1)], [("B", 1 / 3), ("A", HALF)]]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_parse(text: str, segments: list[list[Letter]]) -> None:
    parsed = parse(text)
    assert parsed.text == text
    assert [list(map(rounded, segment)) for segment in parsed.segments] == [
        list(map(rounded, segment)) for segment in segments
    ]


def rounded(letter: Letter) -> Letter:
    return letter[0], round(letter[1], 12)


valid = st.text("ABO", min_size=3, max_size=12).filter(lambda text: set(text) == set("ABO"))


@given(st.text(max_size=8) | st.text("ABO", max_size=8))
def test_any_string_parses_or_says_why_not(text: str) -> None:
    if set(text) == set("ABO"):
        parse(text)
    else:
        with pytest.raises(SplittingError) as error:
            parse(text)
        assert str(error.value).startswith(f"splitting={text!r}: ")


@given(valid)
def test_shares_of_each_letter_make_a_whole_step(text: str) -> None:
    shares: dict[str, float] = defaultdict(float)
    for segment in parse(text).segments:
        for letter, share in segment:
            shares[letter] += share
    assert all(math.isclose(shares[letter], 1) for letter in "ABO")


@given(valid)
def test_no_kick_uses_a_stale_gradient(text: str) -> None:
    for segment in parse(text).segments:
        letters = "".join(letter for letter, _ in segment)
        drift, kick = letters.find("A"), letters.rfind("B")
        assert drift < 0 or kick < drift


@given(valid)
def test_a_gradient_is_asked_for_only_where_a_kick_follows_a_drift(text: str) -> None:
    segments = parse(text).segments
    for before, after in itertools.pairwise(segments):
        assert after[0][0] == "B"
        assert "A" in {letter for letter, _ in before}


@given(valid)
def test_letters_keep_their_order_up_to_where_the_step_begins(text: str) -> None:
    """Kicks merged, the letters are those of the string, read from its trailing kicks on."""
    body = text.rstrip("B")
    expected = text[len(body) :] + body if text[0] == "B" else text
    while "BB" in expected:
        expected = expected.replace("BB", "B")
    assert "".join(letter for segment in parse(text).segments for letter, _ in segment) == expected


@given(valid)
def test_strings_whose_kicks_come_first_need_one_gradient(text: str) -> None:
    ordered = "".join(sorted(text, key="OBA".index))
    assert len(parse(ordered).segments) == 1


def test_splittings_compare_by_value() -> None:
    assert parse("OBA") == parse("OBA")
    assert parse("OBA") != parse("BOA")
    assert hash(parse("OBA")) == hash(parse("OBA"))
