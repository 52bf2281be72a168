"""Label trees of other packages, as programs: `python trees.py NAME train|predict FOLDER THREADS`.

This module imports nothing of hpcml because the Python of a tree may lack it. FOLDER has X.npz and Y.npz (training rows), train.txt
(the same as text), and X_test.npz. `train` leaves NAME/model, `predict` NAME/best.npy (test rows × 5 labels, best first, −1 for
none). Both write NAME/TASK.json: seconds without imports and without reading the rows, and the peak memory. All options are the
defaults of the packages.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import scipy.sparse as sp

BEST = 5
BLOCK = 256  # rows that LibMultiLabel scores at a time: it returns the scores of all labels
Train = Callable[[sp.csr_matrix, sp.csr_matrix, Path, int], None]


def rows_of(matrix: sp.csr_matrix) -> Iterator[tuple[list[int], list[float]]]:
    for begin, end in pairwise(matrix.indptr.tolist()):
        yield matrix.indices[begin:end].tolist(), matrix.data[begin:end].tolist()


def write_text(X: sp.csr_matrix, Y: sp.csr_matrix, path: Path) -> None:
    """Write rows in the format of the extreme-classification repository."""
    with path.open("w", encoding="ascii") as out:
        out.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
        for (labels, _), row in zip(rows_of(Y), rows_of(X), strict=True):
            out.write(f"{','.join(map(str, labels))} {' '.join(f'{j}:{x:.9g}' for j, x in zip(*row, strict=True))}\n")


def omikuji_train(_X: sp.csr_matrix, _Y: sp.csr_matrix, model: Path, threads: int) -> None:
    from omikuji import Model

    Model.train_on_data(str(model.parents[1] / "train.txt"), Model.default_hyper_param(), threads).save(str(model))


def omikuji_predict(X: sp.csr_matrix, model: Path, threads: int) -> list[list[int]]:
    from omikuji import Model

    trees = Model.load(str(model))
    trees.init_prediction_thread_pool(threads)
    trees.densify_weights()  # as its own program does
    return [[label for label, _ in trees.predict(list(zip(*row, strict=True)), top_k=BEST)] for row in rows_of(X)]


def napkinxc_train(X: sp.csr_matrix, Y: sp.csr_matrix, model: Path, threads: int) -> None:
    from napkinxc.models import PLT

    PLT(str(model), threads=threads, seed=0).fit(X, [labels for labels, _ in rows_of(Y)])


def napkinxc_predict(X: sp.csr_matrix, model: Path, threads: int) -> list[list[int]]:
    from napkinxc.models import PLT

    trees = PLT(str(model), threads=threads)
    trees.load()
    return trees.predict(X, top_k=BEST)


def libmultilabel_train(X: sp.csr_matrix, Y: sp.csr_matrix, model: Path, threads: int) -> None:
    from libmultilabel.linear import train_tree

    np.random.seed(0)
    tree = train_tree(Y.astype(np.float64), X.astype(np.float64), f"-m {threads}", verbose=False)
    model.mkdir()
    with (model / "tree.pickle").open("wb") as out:
        pickle.dump(tree, out, pickle.HIGHEST_PROTOCOL)


def libmultilabel_predict(X: sp.csr_matrix, model: Path, _threads: int) -> list[list[int]]:
    with (model / "tree.pickle").open("rb") as file:
        tree = pickle.load(file)
    best: list[list[int]] = []
    for begin in range(0, X.shape[0], BLOCK):
        scores = tree.predict_values(X[begin : begin + BLOCK].astype(np.float64))
        best += np.argsort(-scores, axis=1, kind="stable")[:, :BEST].tolist()
    return best


TREES = {
    "omikuji": (omikuji_train, omikuji_predict),
    "napkinxc": (napkinxc_train, napkinxc_predict),
    "libmultilabel": (libmultilabel_train, libmultilabel_predict),
}


def main(name: str, task: str, folder: Path, threads: int) -> None:
    train, predict = TREES[name]
    about: dict[str, object] = {"version": version(name)}
    X = sp.csr_matrix(sp.load_npz(folder / ("X.npz" if task == "train" else "X_test.npz")))
    Y = sp.csr_matrix(sp.load_npz(folder / "Y.npz")) if task == "train" else None
    begin = time.perf_counter()
    if Y is not None:
        train(X, Y, folder / name / "model", threads)
    else:
        lists = predict(X, folder / name / "model", threads)
        best = np.full((X.shape[0], BEST), -1, np.int32)
        for row, labels in zip(best, lists, strict=True):
            row[: len(labels)] = labels
        np.save(folder / name / "best.npy", best)
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    about |= {"seconds": time.perf_counter() - begin, "peak_mib": int(status.partition("VmHWM:")[2].split()[0]) / 1024}
    (folder / name / f"{task}.json").write_text(json.dumps(about), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
