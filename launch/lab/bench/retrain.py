"""Compare the CPU seconds of `hpcml retrain` and of a new training after some labels have changed.

Every second row of a random share of the labels loses the label. A run on the original data is retrained on the new data, and a
model is trained on the new data. Seconds are those of the commands, without those of `hpcml --version`; the least of --rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import hpcml
from launch.lab.core.bench import rewrite
from launch.lab.core.timing import least, repeat, run_hpcml


def changed(data: Path, share: float, seed: int) -> sp.csr_matrix:
    """Return the labels without every second row of a random share of the labels."""
    with hpcml.Dataset(data) as dataset:
        Y = sp.coo_matrix(dataset.labels())
    changed = np.random.default_rng(seed).random(Y.shape[1]) < share
    is_kept = ~(changed[Y.col] & (Y.row % 2 == 1))
    return sp.csr_matrix((Y.data[is_kept], (Y.row[is_kept], Y.col[is_kept])), Y.shape)


def run(
    scratch: Path,
    data: Path,
    *,
    share: float = 0.05,
    seed: int = 0,
    min_positives: int = 10,
    loss: str = "squared-hinge",
    rounds: int = 3,
) -> Iterator[dict[str, Any]]:
    same, new = scratch / "same.h5", scratch / "changed.h5"
    rewrite(data, same)  # both written alike: the features have no names
    rewrite(data, new, changed(data, share, seed))
    options = ("--min-positives", min_positives, "--loss", loss)
    run_hpcml("train", "dual", same, "-o", scratch / "old", *options)
    calls = {
        "start": lambda: run_hpcml("--version"),
        "anew": lambda: run_hpcml("train", "dual", new, "-o", scratch / "anew", "--force", *options),
        "retrained": lambda: run_hpcml("retrain", scratch / "old", new, "-o", scratch / "again", "--force"),
    }
    used = {each: least(usages).cpu_seconds for each, usages in repeat(calls, rounds).items()}
    anew, again = (scratch / each / "model.h5" for each in ("anew", "again"))
    n_labels = hpcml.open_model(anew).n_labels
    trained = {line.split(",")[0] for line in (again.parent / "history.csv").read_text().splitlines()[1:]}
    seconds = {each: used[each] - used["start"] for each in ("anew", "retrained")}
    line = {"data": data.name, "loss": loss, "labels": n_labels, "kept": n_labels - len(trained)}
    line |= {f"seconds_{each}": round(value, 3) for each, value in seconds.items()}
    yield line | {"ratio": seconds["retrained"] / seconds["anew"], "same_file": anew.read_bytes() == again.read_bytes()}
