"""The MeSH headings of PROBE's experiments (tables 2 and 4 to 6, figures 1 to 3) in the available part of MEDLINE.

A heading of the paper is used if it has enough rows, else another of similar frequency.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import hpcml
from launch.lab.core.study import PaperRows, PaperStudy, flags
from launch.lab.core.tables import read_csv

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
SECONDS = r"trained [\d,]+ labels? in ([\d.]+) s"  # in a run's log.txt
DEGENERATE = 1  # the status of a label without positive or without negative rows
FEW = 3  # headings of the quick form
LAMBDA = "0.13X/m"  # the paper's X/10⁸, with its 13,004,182 training rows
EXACT = ("--svmperf-epsilon", "0.01")  # as in the paper, for rare headings


class HeadingCounts(NamedTuple):
    """Rows with each label in all splits and in the split test, and the number of rows."""

    rows: dict[str, int]
    test: dict[str, int]
    n_rows: int


def count_labels(path: Path) -> HeadingCounts:
    with hpcml.Dataset(path) as dataset:
        names = dataset.label_names()
        rows, tests = (np.diff(dataset.labels(split).tocsc().indptr).tolist() for split in ("all", "test"))
        return HeadingCounts(dict(zip(names, rows, strict=True)), dict(zip(names, tests, strict=True)), dataset.n_rows)


def choose_rare(counts: HeadingCounts, n: int) -> list[str]:
    """Return n rare headings: those of the paper first, then others at even distances in the order by frequency."""
    order = sorted(counts.rows, key=lambda name: (-counts.rows[name], name))
    enough = [name for name in order if counts.test[name] >= LEAST_TEST and counts.rows[name] - counts.test[name] >= LEAST_TRAIN]
    candidates = [name for name in enough if counts.rows[name] <= MOST * counts.n_rows] or enough
    chosen = [name for name in RARE if name in candidates][:n]
    others = [name for name in candidates if name not in chosen]
    left = min(n - len(chosen), len(others))
    chosen += [others[(2 * k + 1) * len(others) // (2 * left)] for k in range(left)]
    return sorted(chosen, key=order.index)


def choose_frequent(counts: HeadingCounts) -> dict[float, str]:
    """Return for each share in the paper the unused heading with the nearest share."""
    values: dict[float, str] = {}
    for share in SHARES:
        left = sorted(set(counts.rows) - set(values.values()))
        if left:
            values[share] = min(left, key=lambda name: abs(100 * counts.rows[name] / counts.n_rows - share))
    return values


def headings(study: PaperStudy) -> tuple[PaperRows, HeadingCounts, list[str]]:
    """Return the dataset of the study, the counts of its headings, and the rare headings to use."""
    rows = next(iter(study.datasets()))
    counts = count_labels(rows.train)
    return rows, counts, choose_rare(counts, FEW if study.quick else len(RARE))


def measure_labels(study: PaperStudy, run: Path, rows: PaperRows) -> dict[str, dict[str, float]]:
    """Return MAP, BE and iterations of each label of a finished run, on the test rows."""
    table, model = run.with_name(f"{run.name}.csv"), run / "model.h5"
    study.run("evaluate", model, rows.test, "--csv", table)
    trained = hpcml.Model(model)
    steps = dict(zip(trained.label_names, trained.labels["steps"].tolist(), strict=True))
    return {
        line["label"]: {
            "MAP": float(line["average_precision"] or "nan"),
            "BE": float(line["break_even"] or "nan"),
            "iterations": float(steps[line["label"]]),
        }
        for line in read_csv(table)
    }


def train_methods(study: PaperStudy, rows: PaperRows, folder: Path, methods: Iterable[str], *options: str) -> None:
    """Train each method into FOLDER/METHOD with the hinge loss; options that a method lacks are dropped."""
    for method in methods:
        study.run("train", method, rows.train, "-o", folder / method, "--loss", "hinge", *_for_method(method, options))


def _for_method(method: str, options: Sequence[str]) -> list[str]:
    """Drop the options that the method lacks: Pegasos always has an intercept."""
    words = [word for word in options if word != "--no-bias" or method != "pegasos"]
    if "--svmperf-epsilon" in words and method != "svmperf":
        index = words.index("--svmperf-epsilon")
        del words[index : index + 2]
    return words


def means_of(study: PaperStudy, rows: PaperRows, run: Path, *columns: str) -> dict[str, float]:
    """Return means over the trained labels (MAP, BE, iterations) and the seconds of training, without loading."""
    macro = study.measures(run, rows.test, "test")["macro"]
    labels = hpcml.Model(run / "model.h5").labels
    trained = labels["status"] != DEGENERATE
    iterations = float(labels["steps"][trained].mean()) if trained.any() else math.nan
    ap, be = (value if (value := macro[name]["value"]) is not None else math.nan for name in ("average_precision", "break_even"))
    values = {"MAP": ap, "BE": be, "iterations": iterations, "seconds": seconds_of(run)}
    return {column: values[column] for column in columns}


def seconds_of(run: Path) -> float:
    values = re.findall(SECONDS, (run / "log.txt").read_text(encoding="utf-8"))
    return float(values[-1]) if values else math.nan


def compare_methods(study: PaperStudy, methods: Mapping[str, str], *options: str) -> dict[str, dict[str, dict[str, float]]]:
    """Return the measures of the rare headings by method (named as in the paper)."""
    rows, _, names = headings(study)
    runs = study.folder / ("runs" if "--no-bias" in options else "intercept")
    train_methods(study, rows, runs, methods, "--lambda", LAMBDA, *EXACT, *options, *flags("--label", names))
    return {name: measure_labels(study, runs / method, rows) for method, name in methods.items()}
