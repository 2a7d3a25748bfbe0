"""Data that come with scikit-learn and with Python: digits, and the help texts of Python as English prose."""

from dataclasses import dataclass
from pydoc_data import topics

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor

__all__ = ["Digits", "Text", "digits", "text"]


@dataclass(frozen=True)
class Digits:
    """Images of 8 x 8 pixels in [0, 1] as rows of 64 numbers, and their labels."""

    x: Tensor
    y: Tensor
    x_validation: Tensor
    y_validation: Tensor
    x_test: Tensor
    y_test: Tensor


def digits(seed: int, *, wrong: float = 0.0) -> Digits:
    """scikit-learn's 1,797 digits: 60 % to train, 15 % to choose by, 25 % to test.

    Args:
        seed: of the split and of the wrong labels.
        wrong: the share of labels, of training and validation data, that a random label replaces.

    Returns:
        The data.
    """
    images, labels = load_digits(return_X_y=True)
    x, x_test, y, y_test = map(
        torch.tensor, train_test_split(images.astype("float32") / 16, labels, random_state=seed)
    )
    generator = torch.Generator().manual_seed(seed)
    replaced = torch.rand(len(y), generator=generator) < wrong
    y[replaced] = torch.randint(10, y[replaced].shape, generator=generator)
    cut = len(x) // 5
    return Digits(x[cut:], y[cut:], x[:cut], y[:cut], x_test, y_test)


@dataclass(frozen=True)
class Text:
    """A text as numbers of characters, in three parts."""

    train: Tensor
    validation: Tensor
    test: Tensor
    characters: int


def text() -> Text:
    """Python's help texts: the first 90 % to train, the next 5 % to choose by, the last 5 % to test."""
    whole = "".join(topics.topics[name] for name in sorted(topics.topics))
    alphabet = sorted(set(whole))
    number = {character: k for k, character in enumerate(alphabet)}
    tokens = torch.tensor([number[character] for character in whole])
    first, second = len(tokens) * 90 // 100, len(tokens) * 95 // 100
    return Text(tokens[:first], tokens[first:second], tokens[second:], len(alphabet))
