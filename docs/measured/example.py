"""The README shows this example, from the imports on: ``python -m docs.measured.example``."""

# ruff: noqa: D103 (an example for a page is as short as a user would write it)

import torch
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import colangevin as cl

images, labels = load_digits(return_X_y=True)
split = train_test_split(images.astype("float32") / 16, labels, random_state=0)
x, x_test, y, y_test = map(torch.tensor, split)
torch.manual_seed(0)
wrong = torch.rand(len(y)) < 0.4
y[wrong] = torch.randint(10, y[wrong].shape)  # 40 % of the training labels are random


def accuracy(make_optimizer):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 500), nn.ReLU(), nn.Linear(500, 10))
    optimizer = make_optimizer(model)
    for _ in range(60):
        for batch in torch.randperm(len(x)).split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
    return (model(x_test).argmax(1) == y_test).float().mean().item()


def bounded(model):  # no weight grows beyond 1.5 times the largest initial one
    groups = cl.constrain(model, {"0.weight": cl.Circle(0.19), "2.weight": cl.Circle(0.067)})
    return cl.ConstrainedSGD(groups, lr=0.1, momentum=0.9)


sgd = accuracy(lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
adamw = accuracy(lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3))
print(f"test accuracy: SGD {sgd:.1%}, AdamW {adamw:.1%}, bounded weights {accuracy(bounded):.1%}")
