"""The MeSH headings of PROBE's experiments (tables 2 and 4 to 6, figures 1 to 3), on what MEDLINE
there is: a heading of the paper where it has rows enough, else others that are as rare.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml.data.dataset import DataFile
from hpcml.model.linear import Model
from hpcml.papers.study import PaperRows, PaperStudy, flags

RARE = (
    *("rats, wistar", "myocardial infarction", "blood platelets", "serotonin", "state medicine", "urinary bladder"),
    *("drosophila melanogaster", "tryptophan", "laparotomy", "crowns", "streptococcus mutans", "infectious mononucleosis"),
    *("blood banks", "humeral fractures", "tuberculosis, lymph node", "mentors", "tooth discoloration", "pentazocine"),
    *("hepatitis e", "genes, p16"),
)
FREQUENT = (
    *("pathological conditions, signs and symptoms", "therapeutics", "pharmacologic actions", "enzymes"),
    *("population characteristics", "reproductive physiological phenomena", "terpenes"),
)
SHARES = (17.1, 13, 10.7, 9.7, 5.5, 4.6, 1.0)  # of the rows that have the frequent headings, in per cent, in the paper
LEAST_TRAIN, LEAST_TEST = 10, 5  # rows that a heading must have
MOST = 0.01  # the share of the rows that a rare heading may have; the paper's most frequent one has 0.81 %
FEW = 3  # headings of the quick form
LAMBDA = "0.13X/m"  # the paper's X/10⁸, with its 13,004,182 training rows
EXACT = ("--svmperf-epsilon", "0.01")  # as in the paper, for rare headings


class HeadingCounts(NamedTuple):
    """PaperRows with each label, of both splits and of test, and of all."""

    rows: dict[str, int]
    test: dict[str, int]
    n_rows: int


def counted(path: Path) -> HeadingCounts:
    """Count a dataset's labels. Local; raises DataError."""
    with DataFile(path) as dataset:
        names, indptr, labels = dataset.label_names(), dataset.map("Y/indptr"), dataset.map("Y/indices")
        test = np.zeros(dataset.n_rows, dtype=bool)
        test[dataset.split("test")] = True
        of_test = np.repeat(test, np.diff(indptr))
        rows, tests = (np.bincount(some, minlength=len(names)).tolist() for some in (labels, labels[of_test]))
        return HeadingCounts(dict(zip(names, rows, strict=True)), dict(zip(names, tests, strict=True)), dataset.n_rows)


def rare(counts: HeadingCounts, n: int) -> list[str]:
    """Rare headings, the paper's first, then others, evenly over the order by frequency."""
    order = sorted(counts.rows, key=lambda name: (-counts.rows[name], name))
    enough = [name for name in order if counts.test[name] >= LEAST_TEST and counts.rows[name] - counts.test[name] >= LEAST_TRAIN]
    some = [name for name in enough if counts.rows[name] <= MOST * counts.n_rows] or enough
    chosen = [name for name in RARE if name in some][:n]
    others = [name for name in some if name not in chosen]
    left = min(n - len(chosen), len(others))
    chosen += [others[(2 * k + 1) * len(others) // (2 * left)] for k in range(left)]
    return sorted(chosen, key=order.index)


def frequent(counts: HeadingCounts) -> dict[float, str]:
    """For each of the paper's shares the heading, taken once, whose share is nearest."""
    found: dict[float, str] = {}
    for share in SHARES:
        left = sorted(set(counts.rows) - set(found.values()))
        if left:
            found[share] = min(left, key=lambda name: abs(100 * counts.rows[name] / counts.n_rows - share))
    return found


class MeshHeadings(NamedTuple):
    """A dataset, and how many of its rows have which heading; the rare ones that are taken."""

    rows: PaperRows
    counts: HeadingCounts
    rare: list[str]


def headings(study: PaperStudy) -> MeshHeadings:
    """The only dataset of the study. Collective over its ranks."""
    rows = next(iter(study.datasets()))
    counts = HeadingCounts(*study.root(counted, rows.train))
    return MeshHeadings(rows, counts, rare(counts, FEW if study.quick else len(RARE)))


def ended(path: Path) -> dict[str, int]:
    """The iterations of each label of a model. Local; raises DataError."""
    model = Model(path)
    return dict(zip(model.label_names, np.asarray(model.labels["steps"]).tolist(), strict=True))


def judged(study: PaperStudy, run: Path, rows: PaperRows) -> dict[str, dict[str, float]]:
    """MAP, BE and iterations of each label of a finished run, on the test rows."""
    table = run.with_name(f"{run.name}.csv")
    study.run("evaluate", run / "model.h5", rows.test, "--csv", table)
    steps = study.root(ended, run / "model.h5")
    names = {"average_precision": "MAP", "break_even": "BE"}
    found = {}
    for line in study.lines(table):
        measures = {short: float(line[name] or "nan") for name, short in names.items()}
        found[line["label"]] = measures | {"iterations": float(steps[line["label"]])}
    return found


def compared(study: PaperStudy, methods: Mapping[str, str], *options: str) -> dict[str, dict[str, dict[str, float]]]:
    """For each method (its name in the paper) what `judged` finds for the rare headings."""
    rows, _, names = headings(study)
    runs = study.folder / ("runs" if "--no-bias" in options else "intercept")
    words = (*flags("--method", methods), "--lambda", LAMBDA, *EXACT, *options, *flags("--label", names))
    study.run("compare", rows.train, "-o", runs, *words)
    return {name: judged(study, runs / method, rows) for method, name in methods.items()}
