"""Compare `dual` with label trees: Omikuji, napkinXC's PLT and LibMultiLabel's tree, with the defaults of each.

DATA are sets (core/corpora.py) or datasets (.h5) with the splits train and test. All programs run in turn, with as many threads as
hpcml has ranks, --repeat times, every other time in reverse order; the least of each figure counts. OPTIONS go to `hpcml train`.
--python is a Python with the packages omikuji, napkinxc and libmultilabel; trees that are not installed are left out.

`train`, `predict` (the five best labels of the test rows, as a file) and `evaluate` are seconds of whole commands; `_alone` is
without start-up: ours as `train` reports it, else less the seconds of the processor that a rank takes to start; theirs without
imports and reading rows. A row a second is one of `predict_alone`, by the number of threads. Omikuji predicts row by row, from
Python. `mib` is the memory of the largest process. Measures are of the five best labels of all programs, over all labels of the
test rows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

import hpcml
from hpcml.measures import ndcg_at, precision_at
from launch.lab.core.bench import TRAINED, Rows, read_rows, rounded, run_sampled
from launch.lab.core.corpora import convert_words
from launch.lab.core.tables import read_csv, read_json
from launch.lab.core.timing import CommandError, Usage, run_command, run_hpcml
from launch.lab.core.timing import repeat as run_in_turn
from launch.lab.peers import trees
from launch.lab.peers.trees import BEST, TREES


def judge(best: np.ndarray, truth: sp.csr_matrix) -> dict[str, float]:
    """Return P@k and nDCG@5 of the best labels of rows (−1: none); rows without labels count for P@k only."""
    rows = np.repeat(np.arange(len(best)), best.shape[1])
    is_true = np.asarray(truth[rows, np.maximum(best, 0).ravel()]).reshape(best.shape) * (best >= 0) > 0
    measures = {f"p{k}": value for k, value in precision_at(is_true.sum(axis=0), len(best)).items()}
    return measures | {"ndcg5": float(ndcg_at(is_true, np.diff(truth.indptr))[5].mean())}


def read_best(path: Path, rows: Rows) -> np.ndarray:
    """Return the best labels of test rows from the output of `predict --top 5`."""
    numbers = {name: number for number, name in enumerate(rows.names)}
    lines, best, last, row, place = read_csv(path), np.full((rows.X_test.shape[0], BEST), -1), None, -1, 0
    for line in lines:  # every row has five labels, or all
        row, place = (row, place + 1) if line["id"] == last else (row + 1, 0)
        last, best[row, place] = line["id"], numbers[line["label"]]
    return best


class Programs:
    """The programs that train, predict and evaluate on a set, and the least figures of each."""

    def __init__(self, data: Path, folder: Path, python: Path, ranks: int, limit: float, options: tuple[str, ...]) -> None:
        self.data, self.folder, self.python, self.ranks, self.limit, self.options = data, folder, python, ranks, limit, options
        self.figures: dict[tuple[str, str], dict[str, float]] = {}  # by trainer and task
        self.failed: dict[str, str] = {}

    def write(self, rows: Rows) -> None:
        for name in ("X", "Y", "X_test"):
            sp.save_npz(self.folder / f"{name}.npz", sp.csr_matrix(getattr(rows, name), dtype=np.float32), compressed=False)
        trees.write_text(rows.X.astype(np.float32), rows.Y, self.folder / "train.txt")

    def keep(self, trainer: str, task: str, **values: float) -> None:
        before = self.figures.setdefault((trainer, task), values)
        self.figures[trainer, task] = {name: min(value, before[name]) for name, value in values.items()}

    def ours(self, task: str) -> Usage:
        run, test = self.folder / "run", ["--split", "test"]
        words: dict[str, list[object]] = {
            "train": ["train", "dual", self.data, "-o", run, "--force", *self.options],
            "predict": ["predict", run, self.data, *test, "--top", BEST, "-o", self.folder / "best.csv", "--force"],
            "evaluate": ["evaluate", run, self.data, *test],
        }
        used, by_rank = run_sampled(*words[task], ranks=self.ranks, timeout=self.limit)
        alone = used.seconds - float(np.mean([rank["start"] for rank in by_rank]))
        if task == "train":
            alone = float(TRAINED.findall(used.output)[-1])
        self.keep("dual", task, seconds=used.seconds, alone=alone, mib=max(rank["peak_mib"] for rank in by_rank))
        return used

    def tree(self, name: str, task: str) -> Usage:
        own = self.folder / name
        if name in self.failed:
            return Usage(0.0, 0.0, 0.0)
        if task == "train":
            run_command(["rm", "-rf", own])
            own.mkdir()
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(self.ranks))
        command = (self.python, trees.__file__, name, task, self.folder, self.ranks)
        try:
            used = run_command(command, timeout=self.limit, env=threads | {"PYTHONSAFEPATH": "1"})
        except CommandError as error:
            self.failed[name] = str(error)
            return Usage(0.0, 0.0, 0.0)
        about = read_json(own / f"{task}.json")
        self.keep(name, task, seconds=used.seconds, alone=about["seconds"], mib=about["peak_mib"])
        return used

    def calls(self, peers: tuple[str, ...]) -> dict[str, Callable[[], Usage]]:
        """Return one call for all tasks of each program."""

        def in_turn(call: Callable[[str], Usage], tasks: tuple[str, ...]) -> Usage:
            return [call(task) for task in tasks][-1]

        ours = {"dual": partial(in_turn, self.ours, ("train", "predict", "evaluate"))}
        return ours | {name: partial(in_turn, partial(self.tree, name), ("train", "predict")) for name in peers}

    def line(self, trainer: str, rows: Rows) -> dict[str, Any]:
        line: dict[str, Any] = {}
        for task in ("train", "predict", "evaluate"):
            if used := self.figures.get((trainer, task)):
                line |= {task: used["seconds"], f"{task}_alone": used["alone"], f"{task}_mib": used["mib"]}
        line["rows_per_second"] = rows.X_test.shape[0] / line["predict_alone"] / self.ranks
        own = self.folder / ("run/model.h5" if trainer == "dual" else trainer + "/model")
        line["model_mb"] = sum(path.stat().st_size for path in [own, *own.rglob("*")] if path.is_file()) / 1e6
        best = read_best(self.folder / "best.csv", rows) if trainer == "dual" else np.load(own.parent / "best.npy")
        return rounded(4, **line, **judge(best, rows.Y_test))


def run(
    scratch: Path,
    data: tuple[str, ...],
    *,
    peer: tuple[Literal[tuple(TREES)], ...] = tuple(TREES),
    python: Path = Path(sys.executable),
    ranks: int = 2,
    repeat: int = 3,
    limit: float = 3600.0,
    options: tuple[str, ...],
) -> Iterator[dict[str, Any]]:
    for name in data:
        folder = scratch / Path(name).stem
        folder.mkdir()
        path = Path(name) if name.endswith(".h5") else folder / "data.h5"
        if words := convert_words(name):
            run_hpcml("convert", *words, "-o", path, ranks=ranks)
        programs, rows = Programs(path, folder, python, ranks, limit, options), read_rows(path, "train", "test")
        programs.write(rows)
        run_in_turn(programs.calls(peer), repeat)
        about = {
            "rows": rows.X.shape[0],
            "values": rows.X.nnz / rows.X.shape[0],
            "labels": hpcml.Model(folder / "run" / "model.h5").n_labels,
        }
        yield {"data": Path(name).stem} | rounded(4, **about) | {"test_rows": rows.X_test.shape[0], "threads": ranks}
        for trainer in ("dual", *(each for each in peer if each not in programs.failed)):
            yield {"trainer": trainer, "data": Path(name).stem} | programs.line(trainer, rows)
        yield from ({"left_out": each, "why": why} for each, why in programs.failed.items())
        run_command(["rm", "-rf", folder])
