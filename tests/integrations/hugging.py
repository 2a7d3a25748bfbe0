"""A model for the `Trainer` of transformers, and trainers that leave nothing behind."""

from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

import colangevin as cl
from colangevin.integrations.transformers import ConstraintCallback, constrained_optimizer
from tests.integrations.small_training import RULES, TEMPERATURE, batches, network

NAMED = {f"net.{name}": constraint for name, constraint in RULES.items()}


class Classifier(nn.Module):
    """The small network as transformers want it: with its loss."""

    def __init__(self, seed=0):
        super().__init__()
        self.net = network(seed)
        self.norm = nn.LayerNorm(3)

    def forward(self, x, labels):
        logits = self.norm(self.net(x))
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Data(Dataset):
    """The small data set, one dict an example."""

    def __init__(self, count=6):
        self.pairs = batches(count).dataset

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, i):
        x, y = self.pairs[i]
        return {"x": x, "labels": y}


class StopAt(TrainerCallback):
    """Ends a training after so many steps, as a kill would."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step == self.step


def factory(optimizer=cl.CoLud, **options):
    options = {"lr": 0.1, "friction": 1.0, "temperature": TEMPERATURE, **options}
    return constrained_optimizer(NAMED, optimizer, **options)


def trainer(folder, *callbacks, seed=0, model=None, arguments=None, **options):
    """A trainer on the CPU that shuffles by a seed, saves every 4 steps and prints nothing."""
    chosen = {"max_steps": 12, "save_steps": 4, "logging_steps": 3, "report_to": "none", **(arguments or {})}
    made = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=4,
        disable_tqdm=True,
        use_cpu=True,
        **chosen,
    )
    if "model_init" not in options:
        options = {"model": Classifier(seed) if model is None else model, **options}
    if "optimizers" not in options:
        options = {"optimizer_cls_and_kwargs": factory(), **options}
    return Trainer(args=made, train_dataset=Data(), callbacks=list(callbacks), **options)


def trained(folder, *callbacks, resume=None, **options):
    """A trainer after its training."""
    made = trainer(folder, *callbacks, **options)
    made.train(resume_from_checkpoint=None if resume is None else str(resume))
    return made


__all__ = ["Classifier", "ConstraintCallback", "StopAt", "constrained_optimizer", "factory", "trained"]
