"""Boosting naïve Bayesian learning on a large subset of MEDLINE (Wilbur 2000).

Documents of a small database are ranked by naive Bayes, by AdaBoost of naive Bayes, and in two stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

import hpcml
from launch.lab.core.corpora import CORPORA, copy_lines, file_of
from launch.lab.core.exhibit import Claim, Finding, Numbers, claim, ending
from launch.lab.core.study import PaperStudy
from launch.lab.papers.top import LEVEL, precision_of_split, shift_test

SPLITS, TOP = 100, 100
RARE = 0.1  # the label is the most frequent one that less of the rows have
SINGLE, DOUBLE, CUT = "naive Bayes, SINGLE", "naive Bayes, DOUBLE", "naive Bayes, DOUBLE, weights > 1.5"
ADABOOST, STAGED, SVM = "Adaboost", "staged naive Bayes", "staged Bayes-SVM"
# rows of the table by the methods of `top.CLASSIFIERS`, each of which is tested against the one before
METHODS = {
    "all-bernoulli-nb": DOUBLE,
    "bernoulli-nb": CUT,
    "boosted-bayes": ADABOOST,
    "staged-bayes": STAGED,
    "staged-svm": SVM,
    "dual": "dual, not in the paper",
}
NEIGHBOURS = (1000, 4000)  # of IMDB: positive reviews, and the others most like them
AT_A_TIME = 500  # rows whose cosines are in memory
P = ", p"  # of a column: p of the test against the row above


class Forms(NamedTuple):
    """A collection: its words (None if the user gave a dataset), its words and word pairs, and the label to rank for."""

    name: str
    single: Path | None
    double: Path
    label: str


def chosen_label(path: Path, least: int) -> str:
    """Return the most frequent label below RARE with at least `least` rows, else the one nearest to half of the rows."""
    with hpcml.Dataset(path) as dataset:
        counts = np.bincount(dataset.labels().indices, minlength=dataset.n_labels)
        names, m = dataset.label_names(), dataset.n_rows
    candidates = np.flatnonzero((counts < RARE * m) & (counts >= least))
    return names[int(candidates[np.argmax(counts[candidates])] if candidates.size else np.argmin(np.abs(counts - m / 2)))]


def collections(study: PaperStudy, least: int, min_df: str = "2") -> Iterator[Forms]:
    available = study.available_corpora()
    for name in available:
        corpus = CORPORA[name]
        source = _near(study, name) if name == "imdb" else file_of(corpus.file)
        words = ("jsonl", source, "--binary", "--min-df", min_df, *["--headings-as-features"] * (name == "mesh"))
        single, double = study.converted(f"{name}-single", *words), study.converted(f"{name}-double", *words, "--pairs")
        study.used.append(corpus.name)
        yield Forms(corpus.name, single, double, "pos" if name == "imdb" else chosen_label(double, least))
    if not available:
        for rows in study.datasets():
            yield Forms(rows.name, None, rows.train, chosen_label(rows.train, least))


def _near(study: PaperStudy, name: str) -> Path:
    source, path = file_of(CORPORA[name].file), study.folder / f"{name}-near.jsonl"
    data = study.converted(f"{name}-all", "jsonl", source, "--min-df", "2")
    study.compute_once(f"{name}-near", partial(write_neighbours, data, source, path, "pos", NEIGHBOURS))
    return path


def nearest(X: sp.csr_matrix, positive: np.ndarray, others: np.ndarray, n: int) -> np.ndarray:
    """Return the n rows of `others` with the largest cosine to any row of `positive`; ties keep their order. Rows have length 1."""
    columns = X[positive].T.tocsc()
    cosines = [(X[others[k : k + AT_A_TIME]] @ columns).max(axis=1).toarray().ravel() for k in range(0, others.size, AT_A_TIME)]
    return others[np.argsort(-np.concatenate(cosines), kind="stable")[:n]]


def write_neighbours(data: Path, source: Path, path: Path, label: str, sizes: tuple[int, int]) -> int:
    """Write the lines of the first positive rows and of the nearest negative rows (numbers: `sizes`); return their number."""
    with hpcml.Dataset(data) as dataset:
        X, has = dataset.matrix(), dataset.labels()[:, [dataset.label_names().index(label)]].toarray().ravel() > 0
    positive = np.flatnonzero(has)[: sizes[0]]
    chosen = np.concatenate([positive, nearest(X, positive, np.flatnonzero(~has), sizes[1])])
    return copy_lines(source, chosen, path)


def table_1(study: PaperStudy) -> Finding:
    """Precision (%) in the first hundred ranks of seven methods, and p of each against the row above."""
    splits, top = (2, 10) if study.quick else (SPLITS, TOP)
    numbers: dict[str, dict[str, float]] = {row: {} for row in (SINGLE, *METHODS.values())}
    notes = []
    for name, single, double, label in collections(study, 2 * top):
        precision: dict[str, np.ndarray] = {}
        for path, methods in ((single, ("all-bernoulli-nb",)), (double, tuple(METHODS))):
            if path is not None:
                calls = (partial(precision_of_split, path, label, methods, top, split) for split in range(splits))
                rows = (SINGLE,) if path == single else METHODS.values()
                precision |= dict(zip(rows, np.transpose(study.compute_once(f"{path.stem}-top", *calls)), strict=True))
        for row, values in precision.items():
            numbers[row][name] = float(values.mean())
        for before, row in pairwise(precision):
            p = float(shift_test((precision[row] - precision[before])[None, :], 0)[0])
            numbers[row][f"{name}{P}"] = 1.0 if np.isnan(p) else p
        with hpcml.Dataset(double) as dataset:
            count = np.count_nonzero(dataset.labels().indices == dataset.label_names().index(label))
            notes.append(f"{name}: {label}, {count} of {dataset.n_rows} rows")
    return Finding({row: columns for row, columns in numbers.items() if columns}, tuple(notes))


def better(row: str, than: str) -> Claim:
    def holds(numbers: Numbers) -> bool:
        names = [name for name in numbers[row] if not name.endswith(P)]
        return all(numbers[row][name] > numbers[than][name] and numbers[row][f"{name}{P}"] <= LEVEL for name in names)

    return Claim(f"{row} ranks better than {than} on every collection, p ≤ {LEVEL}", holds)


ORDER = (SINGLE, DOUBLE, CUT, ADABOOST, STAGED, SVM)
TABLE_1 = tuple(better(row, before) for before, row in pairwise(ORDER))


def features(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    for name, single, double, label in collections(study, 2 if study.quick else 2 * TOP, "1"):
        for form, path in (("SINGLE", single), ("DOUBLE", double)):
            if path is None:
                continue
            with hpcml.Dataset(path) as dataset:
                n = {"features": dataset.n_features}
            for least, column in (("0", "with a weight"), ("1.5", "weights > 1.5")):
                run = study.folder / f"{path.stem}-{least}"
                study.run("train", "bernoulli-nb", path, "-o", run, "--split", "all", "--label", label, "--min-weight", least)
                n[column] = int(hpcml.open_model(run).n_weights)
            numbers[f"{name}, {form}"] = n
    return Finding(numbers)


@claim("features", "Word pairs multiply the number of features by at least 3 (the paper: 5.9)")
def _many_pairs(numbers: Numbers) -> bool:
    both = zip(ending(numbers, "SINGLE"), ending(numbers, "DOUBLE"), strict=True)
    return all(double["features"] >= 3 * single["features"] for single, double in both)


FEATURES = (
    Claim(
        "At most a fifth of the features have a weight; no row of the label has the others (the paper: 11 and 5 %)",
        lambda numbers: all(row["with a weight"] <= 0.2 * row["features"] for row in numbers.values()),
    ),
    Claim(
        "At most three quarters of the weights of DOUBLE exceed 1.5 (the paper: 47 %)",
        lambda numbers: all(row["weights > 1.5"] <= 0.75 * row["with a weight"] for row in ending(numbers, "DOUBLE")),
    ),
)
