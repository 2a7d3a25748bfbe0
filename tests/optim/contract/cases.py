"""What the tests of the optimizers' contract share: a noisy row of the table, and a trip through a file.

The contract is what every optimizer promises as a ``torch.optim.Optimizer``, over the table of ``optim_db``.
What torch's own tests ask of every optimizer besides is in ``torch_contract/``.
"""

import io

import torch

from tests.optim_db import by_id

NOISY = by_id("colud-BAOAB-noisy")


def through_file(value: object) -> object:
    """The value saved and loaded again with ``weights_only=True``."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)
