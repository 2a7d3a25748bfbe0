"""What a constraint does to weights that were trained without it: ``python -m docs.measured.pretrained``."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.optim import AdamW

import colangevin as cl
from docs.measured import sheet
from docs.measured.data import digits
from docs.measured.training import accuracy, perceptron, train

__all__ = ["measure", "table"]

RATE = 0.03
#: the hidden layers
HELD = ("0.weight", "2.weight")
CONSTRAINTS: dict[str, Callable[[Tensor], cl.Constraint]] = {
    "`Circle`, twice the largest weight": lambda weight: cl.Circle(2 * weight.abs().max().item()),
    "`Sphere` at the rows' own norms": lambda weight: cl.Sphere(weight.norm(dim=1), slack=False),
    "`Orthogonal`": lambda weight: cl.Orthogonal(),
}


def measure(quick: bool) -> sheet.Numbers:
    """The accuracy of a trained network before and after ``constrain``, and after fine-tuning."""
    settings = {"network": "64-64-64-10, ReLU", "epochs": 1 if quick else 20, "fine-tuning rate": RATE}
    settings |= {"fine-tuning epochs": 1 if quick else 5, "seeds": list(range(1 if quick else 3))}
    rows: dict[str, dict[str, list[float]]] = {
        name: {"before": [], "constrained": [], "tuned": []} for name in CONSTRAINTS
    }
    for seed in settings["seeds"]:
        data = digits(seed)
        torch.manual_seed(seed)
        trained = perceptron(64, 2)
        train(trained, AdamW(trained.parameters(), lr=1e-3), data.x, data.y, epochs=settings["epochs"])
        for name, constraint in CONSTRAINTS.items():
            model = perceptron(64, 2)
            model.load_state_dict(trained.state_dict())
            row = rows[name]
            row["before"].append(accuracy(model, data.x_test, data.y_test))
            rules = {each: constraint(model.get_parameter(each).detach()) for each in HELD}
            groups = cl.constrain(model, rules)
            row["constrained"].append(accuracy(model, data.x_test, data.y_test))
            optimizer = cl.ConstrainedSGD(groups, lr=RATE, momentum=0.9)
            train(model, optimizer, data.x, data.y, epochs=settings["fine-tuning epochs"])
            row["tuned"].append(accuracy(model, data.x_test, data.y_test))
    return {"settings": settings, "rows": rows}


def table(numbers: sheet.Numbers) -> str:
    """A line for each constraint."""
    head = ["test accuracy, %", "trained by AdamW", "after `constrain`", "after fine-tuning"]
    rows = [[name, *(sheet.spread(row[key]) for key in row)] for name, row in numbers["rows"].items()]
    return sheet.markdown(head, rows)


if __name__ == "__main__":
    sheet.main("pretrained", measure, table)
