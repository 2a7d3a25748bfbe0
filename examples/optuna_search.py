"""Optuna chooses step size, radius and friction of a network with bounded weights, and prunes bad choices.

It takes seconds::

    python -m examples.optuna_search --trials 30
"""

import argparse
from collections.abc import Sequence

import optuna

from examples.digits import Choice, judged, train

__all__ = ["main", "search"]


def search(trials: int, epochs: int) -> optuna.Study:
    """Search for a choice.

    Args:
        trials: how many choices to try.
        epochs: of each.

    Returns:
        The study.
    """

    def objective(trial: optuna.Trial) -> float:
        choice = Choice(
            lr=trial.suggest_float("lr", 0.03, 1.0, log=True),
            radius=trial.suggest_float("radius", 1.5, 20.0, log=True),
            friction=trial.suggest_float("friction", 0.1, 10.0, log=True),
        )
        found = 0.0
        for epoch, (_, found) in enumerate(train(choice, epochs)):
            trial.report(found, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return found

    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=0),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=3),
    )
    study.optimize(objective, n_trials=trials)
    return study


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, and print the best choice with its accuracy on data that the search has not seen.

    Args:
        arguments: of the command line; those of the process when None.
    """
    words = argparse.ArgumentParser(prog="python -m examples.optuna_search")
    words.add_argument("--trials", type=int, default=30)
    words.add_argument("--epochs", type=int, default=20)
    options = words.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = search(options.trials, options.epochs)
    pruned = sum(trial.state is optuna.trial.TrialState.PRUNED for trial in study.trials)
    best = Choice(**study.best_params)
    print(f"{len(study.trials)} trials, {pruned} of them pruned")
    print(f"best: lr={best.lr:.3g}, radius={best.radius:.3g}, friction={best.friction:.3g}")
    print(f"accuracy: validation {study.best_value:.1%}, test {judged(best, options.epochs):.1%}")


if __name__ == "__main__":
    main()
