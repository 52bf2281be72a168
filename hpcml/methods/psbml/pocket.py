"""The best cycle of a run, and the model file that is made of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hpcml.methods.psbml.problem import TorusProblem
from hpcml.model.classifier import FoundThreshold, MarginData, Origin, write_classifier
from hpcml.model.training_keys import training_keys


def loss_of(judge: str, error: float, auc: float) -> float:
    """The loss, least for the best cycle: the error, or 1 − AUC; infinite where it is not known."""
    loss = error if judge == "error" else 1.0 - auc
    return math.inf if math.isnan(loss) else loss


def quality(judge: str, error: float, auc: float) -> str:
    """The measure that judges a cycle, for people; with an area the error at its threshold."""
    wrong = f"error {100 * error:.2f} %"
    return wrong if judge == "error" else f"area {100 * auc:.2f} %, {wrong}"


@dataclass
class Pocket:
    """The best cycle so far; its rows and classifier only on the rank that has them."""

    cycle: int = -1  # none yet; 0: all training rows
    error: float = math.inf
    auc: float = math.nan
    threshold: float = 0.0  # the score above which a row is of the last of two classes
    owner: int = 0
    entries: np.ndarray | None = None  # of all nodes
    classifier: object = None

    def rank(self, judge: str) -> tuple[float, float]:
        """The key by which the best is least: the loss, then the cycle."""
        return loss_of(judge, self.error, self.auc), self.cycle if self.cycle >= 0 else math.inf


def margin_data(pocket: Pocket) -> tuple[np.ndarray, np.ndarray]:
    """The places of the pocket's rows, ascending, and their greatest weights. On its owner."""
    assert pocket.entries is not None
    order = np.lexsort((-pocket.entries["weight"], pocket.entries["place"]))
    places, first = np.unique(pocket.entries["place"][order], return_index=True)
    return places, pocket.entries["weight"][order][first]


def write_pocket(path: Path, problem: TorusProblem, pocket: Pocket, base: tuple[float, float]) -> None:
    """Write a pocket's model, on its owner; `base` is of cycle 0. Raises DataError, OSError."""
    assert pocket.entries is not None
    places, greatest = margin_data(pocket)
    counts = np.bincount(pocket.entries["node"], minlength=problem.n_nodes)
    weights = np.bincount(pocket.entries["node"], pocket.entries["weight"], minlength=problem.n_nodes)
    about = {
        **{"validation_error": pocket.error, "validation_auc": pocket.auc, "base_error": base[0], "base_auc": base[1]},
        **{"grid": problem.options.grid, "neighbourhood": problem.options.neighbourhood},
        "data_sizes": np.array(problem.dataset.sizes),
        **{"node_rows": counts, "node_weights": weights / np.maximum(counts, 1)},
    }
    data = (problem.classes.names, problem.dataset.n_features, problem.dataset.vocabulary, problem.dense)
    keys = training_keys(problem.dataset, problem.split)
    origin = Origin("psbml", problem.learner, problem.split, *data, about, keys)
    margin = MarginData(problem.classes.rows[places], greatest, pocket.cycle)
    threshold = FoundThreshold(pocket.threshold, "error", "validation", problem.split)
    write_classifier(path, pocket.classifier, origin, margin, threshold if problem.options.judge == "auc" else None)
