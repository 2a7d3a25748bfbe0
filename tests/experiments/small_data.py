"""Data sets of the real ones' form that a test makes: a few images, a few hundred words."""

import hashlib
import io

import numpy as np

from colangevin.experiments.data import cifar10, corpora, hmc_cifar10


def cifar_batches(images=12):
    """Batches in the binary layout in which every class is a colour, with a little noise."""
    random = np.random.default_rng(0)
    batches = {}
    for name in cifar10.SUMS:
        labels = np.arange(images) % 10
        colours = np.stack([25 * labels, 250 - 25 * labels, 40 * (labels % 5)], axis=1)
        pixels = np.repeat(colours, 1024, axis=1) + random.integers(0, 6, (images, 3072))
        records = np.concatenate([labels[:, None], pixels], axis=1).astype(np.uint8)
        batches[name] = records.tobytes()
    return batches


def corpus_texts(lines=40):
    """Training, validation and test text in which every word decides the next."""
    random = np.random.default_rng(0)
    texts = []
    for length in (lines, lines // 4, lines // 4):
        starts = random.integers(0, 9, length)
        texts.append("".join(" ".join(f"w{(start + k) % 9}" for k in range(12)) + "\n" for start in starts))
    return [text.encode() for text in texts]


def hmc_probabilities(images=12):
    """A file of probabilities in the published form, which favour the class of every image."""
    random = np.random.default_rng(1)
    rows = random.dirichlet(np.ones(10), images) + 2 * np.eye(10)[np.arange(images) % 10]
    order = hmc_cifar10.published_order(images).numpy()
    text = io.BytesIO()
    np.savetxt(text, (rows / rows.sum(1, keepdims=True))[order])
    return text.getvalue()


def sums_of(contents):
    return [hashlib.sha256(content).hexdigest() for content in contents]


def files_in(folder):
    """Names of the files in a folder and those below."""
    return [path.name for path in folder.rglob("*") if not path.is_dir()]


def lay_out(folder, monkeypatch, images=12, lines=40):
    """Small CIFAR-10, predictions of HMC and corpora in a folder that the experiments will find."""
    batches = cifar_batches(images)
    place = folder / "cifar-10" / "cifar-10-batches-bin"
    place.mkdir(parents=True)
    for name, content in batches.items():
        (place / f"{name}.bin").write_bytes(content)
    monkeypatch.setattr(cifar10, "SUMS", dict(zip(batches, sums_of(batches.values()), strict=True)))
    (folder / "hmc-cifar10").mkdir()
    (folder / "hmc-cifar10" / "probs.csv").write_bytes(hmc_probabilities(images))
    monkeypatch.setattr(hmc_cifar10, "SUM", sums_of([hmc_probabilities(images)])[0])
    known = {}
    for name, corpus in corpora.CORPORA.items():
        texts = corpus_texts(lines)
        (folder / name).mkdir()
        for file, content in zip(corpus.files, texts, strict=True):
            (folder / name / file).write_bytes(content)
        known[name] = corpora.Corpus(
            corpus.title, corpus.url, corpus.files, corpus.others, tuple(sums_of(texts))
        )
    monkeypatch.setattr(corpora, "CORPORA", known)
    monkeypatch.setenv("COLANGEVIN_DATA", str(folder))
