"""Compare the CPU seconds of `hpcml retrain` and of training anew, after some labels have changed. Prints a JSON line.

Of a share of the labels (at random) every second row loses the label. A run on the data as they were is retrained on the new data,
beside a model that is trained on them anew. Seconds are those of the commands, without those of `hpcml --version`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import hpcml
from launch.lab.bench._common import parser_of
from launch.lab.core.timing import least, print_json, repeat, run_hpcml


def change(data: Path, path: Path, share: float, seed: int) -> None:
    """Write the dataset with other rows of some labels."""
    with hpcml.Dataset(data) as dataset:
        X, Y = dataset.matrix(), sp.coo_matrix(dataset.labels())
        changed = np.random.default_rng(seed).random(Y.shape[1]) < share
        kept = ~(changed[Y.col] & (Y.row % 2 == 1))
        splits = {name: np.array(dataset.split(name)) for name in dataset.split_names()}
        names = dataset.label_names()
    Y = sp.csr_matrix((Y.data[kept], (Y.row[kept], Y.col[kept])), Y.shape)
    with hpcml.Dataset.from_sparse(X, Y, path, label_names=names, splits=splits or None):
        return


def main(words: list[str]) -> None:
    """Run the benchmark."""
    parser = parser_of("retrain", __doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--share", type=float, default=0.05, help="share of the labels that change (default: 0.05)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--min-positives", type=int, default=10)
    parser.add_argument("--loss", default="squared-hinge")
    parser.add_argument("--rounds", type=int, default=3, help="the least seconds count (default: 3)")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        same, data = folder / "same.h5", folder / "changed.h5"
        change(given.data, same, 0.0, given.seed)  # both written alike: the features have no names
        change(given.data, data, given.share, given.seed)
        options = ("--min-positives", given.min_positives, "--loss", given.loss)
        run_hpcml("train", "dual", same, "-o", folder / "old", *options)
        calls = {
            "start": lambda: run_hpcml("--version"),
            "anew": lambda: run_hpcml("train", "dual", data, "-o", folder / "anew", "--force", *options),
            "retrained": lambda: run_hpcml("retrain", folder / "old", data, "-o", folder / "again", "--force"),
        }
        used = {each: least(usages).cpu_seconds for each, usages in repeat(calls, given.rounds).items()}
        anew, again = (folder / each / "model.h5" for each in ("anew", "again"))
        n_labels = hpcml.open_model(anew).n_labels
        trained = {line.split(",")[0] for line in (again.parent / "history.csv").read_text().splitlines()[1:]}
        seconds = {each: used[each] - used["start"] for each in ("anew", "retrained")}
        line = {"data": given.data.name, "loss": given.loss, "labels": n_labels, "kept": n_labels - len(trained)}
        line |= {f"seconds_{each}": round(value, 3) for each, value in seconds.items()}
        print_json(**line, ratio=seconds["retrained"] / seconds["anew"], same_file=anew.read_bytes() == again.read_bytes())
