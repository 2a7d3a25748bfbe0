"""What a step of orthogonal matrices costs each of many devices: ``python -m docs.measured.many_devices``.

Counted, not timed: bytes by ``colangevin.sharding.traffic``, which the tests compare with what is sent, and
products by their sizes. Every matrix is cut along dimension 0, as ``fully_shard`` cuts it.
"""

import math
from typing import Any

import torch

import colangevin as cl
from colangevin.sharding import traffic
from colangevin.sharding.layout import Layout
from colangevin.sharding.owners import owners, work
from colangevin.sharding.ways import way
from docs.measured import sheet

__all__ = ["measure", "table"]

#: by name: shapes of the matrices of a layer, and how many layers
MODELS: dict[str, tuple[list[tuple[int, int]], int]] = {
    "GPT-2 small": ([(2304, 768), (768, 768), (3072, 768), (768, 3072)], 12),
    "Llama, width 4096": ([(4096, 4096)] * 4 + [(11008, 4096)] * 2 + [(4096, 11008)], 32),
}
RANKS = (1, 2, 4, 8, 16, 32, 64, 256)
WORD = torch.float32.itemsize
# Newton iterations of a step of usual size; each is one product of s x s matrices.
ITERATIONS = 5
# What is assumed of the devices, for the share of a training step: bytes a second that a device sends to
# others, products of matrices in float32 accuracy, and of training, in multiply-adds a second.
LINK, FLOAT32_RATE, TRAINING_RATE = 50e9, 50e12, 200e12
TOKENS = 8192  # that a device trains on in a step


def measure(quick: bool) -> sheet.Numbers:
    """Bytes and products of each rank, for every model and number of ranks."""
    ranks = RANKS[:3] if quick else RANKS
    settings: dict[str, Any] = {"link": LINK, "float32": FLOAT32_RATE, "training": TRAINING_RATE}
    settings |= {"tokens": TOKENS, "iterations": ITERATIONS}
    rows = {model: {str(count): _costs(model, count) for count in ranks} for model in MODELS}
    return {"settings": settings, "rows": rows}


def _costs(model: str, ranks: int) -> dict[str, float]:
    layer, layers = MODELS[model]
    shapes = layer * layers
    manifolds = [cl.Orthogonal().on(shape) for shape in shapes]
    layouts = [Layout(shape, (ranks,), ((0, 1),)) for shape in shapes]
    together = [way(*pair) == "together" for pair in zip(layouts, manifolds, strict=True)]
    chosen = owners([0 if each else work(m) for each, m in zip(together, manifolds, strict=True)], ranks)
    sent, load = 0.0, [0.0] * ranks
    for manifold, layout, each, owner in zip(manifolds, layouts, together, chosen, strict=True):
        counted = traffic.together if each else traffic.owned
        sent += counted(manifold, layout, torch.float32, momentum=True) if ranks > 1 else 0.0
        r, s = max(layout.whole), min(layout.whole)
        if each:
            load = [before + 4 * r * s * s / ranks + ITERATIONS * s**3 for before in load]
        else:
            load[owner] += 4 * r * s * s + ITERATIONS * s**3
    weights = sum(map(math.prod, shapes))
    return {
        "bytes": sent,
        # momentum to the owners, updates back
        "dion": 2 * WORD * weights / ranks * (ranks - 1) / ranks,
        "products": max(load),
        "ideal": sum(4 * max(s) * min(s) ** 2 + ITERATIONS * min(s) ** 3 for s in shapes) / ranks,
        "training": 3 * weights * TOKENS,
    }


def table(numbers: sheet.Numbers) -> str:
    """A line for each model and number of ranks."""
    settings, lines = numbers["settings"], []
    for model, rows in numbers["rows"].items():
        for ranks, row in rows.items():
            seconds = row["bytes"] / settings["link"] + row["products"] / settings["float32"]
            training = row["training"] / settings["training"]
            lines.append(
                [
                    f"{model}, {ranks}",
                    f"{row['bytes'] / 1e6:,.1f}",
                    f"{row['dion'] / 1e6:,.1f}",
                    f"{row['products'] / 1e9:,.1f}",
                    f"{row['products'] / row['ideal']:.2f}",
                    f"{100 * seconds / (seconds + training):.1f}",
                ]
            )
    head = [
        "model, ranks",
        "MB sent",
        "MB of dion's scheme",
        "10⁹ multiply-adds",
        "× ideal share",
        "% of a step",
    ]
    return sheet.markdown(head, lines)


if __name__ == "__main__":
    sheet.main("many_devices", measure, table)
