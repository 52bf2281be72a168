#!/usr/bin/env python3
"""What `hpcml retrain` saves: python retrain.py DATA.h5 [--share 0.05] [--min-positives 10] [--loss squared-hinge] [--rounds 3]

Of a share of the labels (at random) every second row loses the label. A run on the data as they were is retrained on these, beside
a model that is trained on them anew, in this process. Prints a line of JSON: seconds of this thread of each, loading included,
their ratio, how many labels keep their models, and whether the two model files are the same.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

import hpcml
from hpcml import Dataset


def main() -> None:
    """Train, retrain, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--share", type=float, default=0.05, help="of the labels, that change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--min-positives", type=int, default=10)
    parser.add_argument("--loss", default="squared-hinge")
    parser.add_argument("--rounds", type=int, default=3, help="of which the least seconds count")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(given, Path(folder))))


def measure(given: argparse.Namespace, folder: Path) -> dict[str, object]:
    """The figures of one dataset."""
    data = changed(given, folder / "changed.h5")
    options = {"min_positives": given.min_positives, "loss": given.loss}
    hpcml.train("dual", given.data, folder / "old", **options)  # compiles, too
    clocks: dict[str, list[float]] = {"anew": [], "retrained": []}
    for number in range(given.rounds):
        clocks["anew"].append(timed(lambda to: hpcml.train("dual", data, to, **options), folder / f"anew{number}"))
        clocks["retrained"].append(timed(lambda to: hpcml.retrain(folder / "old", data, to), folder / f"retrained{number}"))
    anew, again = (folder / f"{name}0" / "model.h5" for name in clocks)
    n_labels = hpcml.open_model(anew).n_labels
    trained = {line.split(",")[0] for line in (again.parent / "history.csv").read_text().splitlines()[1:]}
    return {
        "data": given.data.name,
        "loss": given.loss,
        "labels": n_labels,
        "kept": n_labels - len(trained),
        "seconds_anew": min(clocks["anew"]),
        "seconds_retrained": min(clocks["retrained"]),
        "ratio": min(clocks["retrained"]) / min(clocks["anew"]),
        "same_file": anew.read_bytes() == again.read_bytes(),
    }


def changed(given: argparse.Namespace, path: Path) -> Path:
    """The data, with other rows of some labels."""
    with h5py.File(given.data) as old, h5py.File(path, "w") as new:
        for name, value in old.attrs.items():
            new.attrs[name] = value
        for name in old:
            old.copy(name, new)
        indptr, labels = old["Y/indptr"][:], old["Y/indices"][:]
        some = np.random.default_rng(given.seed).random(int(old["Y"].attrs["shape"][1])) < given.share
        row = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        kept = ~(some[labels] & (row % 2 == 1))
        del new["Y/indices"], new["Y/indptr"]
        new["Y/indices"] = labels[kept]
        new["Y/indptr"] = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=indptr.size - 1))])
        if "data" in old["Y"]:
            del new["Y/data"]
            new["Y/data"] = old["Y/data"][:][kept]
    with Dataset(path):  # it can be read
        return path


def timed(work: object, output: Path) -> float:
    """The seconds of this process's thread that it takes, output to `output` included."""
    began = time.thread_time()
    work(output)
    return time.thread_time() - began


if __name__ == "__main__":
    main()
