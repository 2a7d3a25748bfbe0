"""Lightning modules around the small network, and trainers that leave nothing behind."""

import lightning.pytorch as pl
import torch
from torch import nn

import colangevin as cl
from colangevin.integrations.lightning import ConstraintCallback
from tests.integrations.small_training import batches, dynamics, network

QUIET = {
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "enable_checkpointing": False,
}


class Lit(pl.LightningModule):
    """Automatic optimization by one optimizer."""

    def __init__(self, seed=0, optimizer=dynamics):
        super().__init__()
        self.net = network(seed)
        self.make = optimizer

    def training_step(self, batch, _):
        x, y = batch
        return nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return self.make(self.net)


class Validated(Lit):
    """Remembers the weights with which it was validated."""

    def __init__(self, seed=0, optimizer=dynamics):
        super().__init__(seed, optimizer)
        self.seen = []

    def validation_step(self, *_):
        self.seen.append({name: p.detach().clone() for name, p in self.net.named_parameters()})

    def val_dataloader(self):
        return batches(count=1)


class Manual(Lit):
    """Manual optimization by an optimizer of this library and, every other step, by one of torch's."""

    def __init__(self, seed=0):
        super().__init__(seed)
        self.head = nn.Linear(3, 3)
        self.automatic_optimization = False

    def training_step(self, batch, number):
        theirs, ours = self.optimizers()
        x, y = batch
        ours.zero_grad()
        theirs.zero_grad()
        self.manual_backward(nn.functional.cross_entropy(self.head(self.net(x)), y))
        ours.step()
        if number % 2:
            theirs.step()

    def configure_optimizers(self):
        return [torch.optim.Adam(self.head.parameters(), 0.01), self.make(self.net)]


class Halves(Manual):
    """Manual optimization by two optimizers of this library."""

    def configure_optimizers(self):
        second = cl.CoLod(cl.constrain(self.head, {"weight": cl.Orthogonal()}), 0.1, temperature=1e-3)
        return [second, self.make(self.net)]


def trainer(folder, *callbacks, epochs=1, module=pl, **options):
    """A trainer on one CPU that writes to a folder and prints nothing."""
    options = {**QUIET, "accelerator": "cpu", "devices": 1, "max_epochs": epochs, **options}
    return module.Trainer(default_root_dir=folder, callbacks=list(callbacks), **options)


class Saving(pl.Callback):
    """Saves a checkpoint at the end of every epoch: 1.ckpt, 2.ckpt and so on."""

    def __init__(self, folder):
        self.folder = folder

    def on_train_epoch_end(self, trainer, _):
        trainer.save_checkpoint(self.folder / f"{trainer.current_epoch + 1}.ckpt")


__all__ = ["ConstraintCallback", "Halves", "Lit", "Manual", "Saving", "Validated", "trainer"]
