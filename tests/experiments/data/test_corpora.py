import io
import urllib.error

import pytest
import torch

from colangevin.experiments.data import corpora, download
from colangevin.experiments.data.sources import DataError
from tests.experiments.small_data import corpus_texts, lay_out

BOTH = pytest.mark.parametrize("name", list(corpora.CORPORA))


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with both corpora and without a network; its folder for data."""
    lay_out(tmp_path, monkeypatch)

    def unreachable(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(download.urllib.request, "urlopen", unreachable)
    return tmp_path


@BOTH
def test_words_are_numbered_as_they_come(machine, name):
    text = corpora.load(name)
    words = corpus_texts()[0].decode().replace("\n", " <eos> ").split()
    numbers = list(dict.fromkeys(words))
    assert text.train.tolist() == [numbers.index(word) for word in words]
    assert text.words == len(numbers) == 10
    assert len(text.valid) == len(text.test) == 10 * 13
    assert text.train.dtype == torch.long


@BOTH
def test_other_names_of_the_files_are_known(machine, name):
    corpus = corpora.CORPORA[name]
    expected = corpora.load(name)
    for file, other in zip(corpus.files, corpus.others, strict=True):
        (machine / name / file).rename(machine / name / other)
    assert torch.equal(corpora.load(name).test, expected.test)


def test_a_changed_text_is_refused_by_name(machine):
    with (machine / "ptb" / "ptb.valid.txt").open("a") as file:
        file.write("more\n")
    with pytest.raises(DataError, match=r"ptb.valid.txt: .* have SHA-256 .*Penn Treebank's are"):
        corpora.load("ptb")


@BOTH
def test_nowhere_and_no_network_says_what_to_do(machine, name):
    corpus = corpora.CORPORA[name]
    (machine / name / corpus.files[2]).unlink()
    with pytest.raises(DataError) as caught:
        corpora.load(name)
    text = str(caught.value)
    assert f"{corpus.title} is not on this machine" in text
    assert "no network" in text
    assert str(machine / name / corpus.files[2]) in text
    assert f"COLANGEVIN_DATA to a folder that has them in {name}/" in text


def test_what_is_missing_is_downloaded_and_checked(machine, monkeypatch):
    gone = machine / "ptb" / "ptb.test.txt"
    content = gone.read_bytes()
    gone.unlink()

    class Answer(io.BytesIO):
        headers = {"Content-Length": "9"}  # noqa: RUF012

    monkeypatch.setattr(download.urllib.request, "urlopen", lambda url, timeout: Answer(b"other"))
    with pytest.raises(DataError, match=r"lstm/master/data/ptb.test.txt: .*SHA-256"):
        corpora.load("ptb")
    assert not gone.exists()
    told = []
    monkeypatch.setattr(download.urllib.request, "urlopen", lambda url, timeout: Answer(content))
    corpora.load("ptb", lambda *news: told.append(news))
    assert told == [("ptb.test.txt", len(content), 9)]
    assert gone.read_bytes() == content
