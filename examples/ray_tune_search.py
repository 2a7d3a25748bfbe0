"""Ray Tune chooses step size, radius and friction of a network with bounded weights, trials side by side.

It takes less than a minute, most of it to start Ray::

    python -m examples.ray_tune_search --trials 16
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.basic_variant import BasicVariantGenerator

from examples.digits import Choice, judged, train

__all__ = ["main", "search"]


def trainable(config: dict[str, Any]) -> None:
    """Train with one choice, and report after every epoch.

    Args:
        config: the choice and the number of epochs.
    """
    choice = Choice(config["lr"], config["radius"], config["friction"])
    for _, found in train(choice, config["epochs"]):
        tune.report({"accuracy": found})


def search(trials: int, epochs: int, folder: Path) -> tune.ResultGrid:
    """Search for a choice. Trials that are behind others of their age are stopped.

    Args:
        trials: how many choices to try.
        epochs: of each.
        folder: where Tune keeps its records.

    Returns:
        The results.
    """
    tuner = tune.Tuner(
        trainable,
        param_space={
            "lr": tune.loguniform(0.03, 1.0),
            "radius": tune.loguniform(1.5, 20.0),
            "friction": tune.loguniform(0.1, 10.0),
            "epochs": epochs,
        },
        tune_config=tune.TuneConfig(
            metric="accuracy",
            mode="max",
            num_samples=trials,
            search_alg=BasicVariantGenerator(random_state=0),
            scheduler=ASHAScheduler(max_t=epochs, grace_period=min(4, epochs)),
            reuse_actors=True,  # else every trial is a process that imports torch first
        ),
        run_config=tune.RunConfig(storage_path=str(folder), verbose=0),
    )
    return tuner.fit()


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, and print the best choice with its accuracy on data that the search has not seen.

    Args:
        arguments: of the command line; those of the process when None.
    """
    words = argparse.ArgumentParser(prog="python -m examples.ray_tune_search")
    words.add_argument("--trials", type=int, default=16)
    words.add_argument("--epochs", type=int, default=20)
    words.add_argument("--cpus", type=int, default=2)
    options = words.parse_args(arguments)
    ray.init(num_cpus=options.cpus, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        with tempfile.TemporaryDirectory() as folder:
            results = search(options.trials, options.epochs, Path(folder))
            found = results.get_best_result()
    finally:
        ray.shutdown()
    config, metrics = found.config or {}, found.metrics or {}
    best = Choice(config["lr"], config["radius"], config["friction"])
    print(f"{len(results)} trials, {results.num_errors} of them failed")
    print(f"best: lr={best.lr:.3g}, radius={best.radius:.3g}, friction={best.friction:.3g}")
    accuracies = f"validation {metrics['accuracy']:.1%}, test {judged(best, options.epochs):.1%}"
    print(f"accuracy: {accuracies}")


if __name__ == "__main__":
    main()
