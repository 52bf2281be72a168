"""F1 with and without thresholds of elastic-net (λ₁ = 0.1/m, λ₂ = 0.01/m), dual and probe --loss logistic.

A dataset with the splits train and test loses a quarter of its training rows to the split valid; other datasets lose a fifth of all
rows to valid and another fifth to test. Each method trains on the rest with its defaults; thresholds are chosen on valid for each
measure and evaluated on test. A line has F1 over all labels, the mean number of features that a label has weights for, and F1 per
row over the most frequent labels alone, by their percentage.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import hpcml
from launch.lab.core.bench import rewrite

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "elastic-net": ("elastic-net", {"l1": "0.1/m", "lam": "0.01/m"}),
    "dual": ("dual", {}),
    "probe-logistic": ("probe", {"loss": "logistic"}),
}
MEASURES = ("label", "micro", "instance")
LOG_ODDS = ("elastic-net", "probe-logistic")  # whose thresholds can be half of the optimum


def three_splits(data: Path, seed: int) -> dict[str, np.ndarray]:
    with hpcml.Dataset(data) as dataset:
        drawn = np.random.default_rng(seed).random(dataset.n_rows)
        if "test" in dataset.split_names():
            train = np.array(dataset.split("train"))
            held_out = drawn[train] < 0.25
            return {"train": train[~held_out], "valid": train[held_out], "test": np.array(dataset.split("test"))}
    part = np.digitize(drawn, [0.2, 0.4])
    return {name: np.flatnonzero(part == number) for number, name in enumerate(("valid", "test", "train"))}


def run(scratch: Path, data: Path, *, min_positives: int = 3, seed: int = 0) -> Iterator[dict[str, Any]]:
    parts = scratch / "splits.h5"
    rewrite(data, parts, splits=three_splits(data, seed))
    for method, (name, options) in METHODS.items():
        model = hpcml.train(name, parts, scratch / method, **options, min_positives=min_positives, force=True).model
        W = hpcml.Model(model).weight_matrix()
        about = {"method": method, "labels": W.shape[0], "features_per_label": round(W.nnz / W.shape[0], 1)}
        halves = [("label", "half"), ("micro", "half")] if method in LOG_ODDS else []
        kinds = [("0", "search"), ("label", "shrink"), *((measure, "search") for measure in MEASURES), *halves]
        for measure, how in kinds:
            judged = model if measure == "0" else scratch / "with-thresholds.h5"
            if measure != "0":
                hpcml.threshold(model, parts, measure, method=how, output=judged, force=True)
            zero = 0.0 if measure == "0" else None
            # without labels that are too rare to train
            evaluation = hpcml.evaluate(judged, parts, split="test", labels=range(W.shape[0]), threshold=zero)
            values = {"macro": evaluation.macro("f1"), "micro": evaluation.micro["f1"], "instance": evaluation.instance_f1}
            values |= {f"{line.percent} %": line.instance_f1 for line in evaluation.by_frequency}
            thresholds = measure + ("" if how == "search" else f", {how}")
            yield about | {"thresholds": thresholds} | {key: round(value, 3) for key, value in values.items()}
