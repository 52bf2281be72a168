"""Extreme multilabel learning (Elkan 2015, a talk): the elastic net with delayed regularisation.

Its tables and figures have no numbers; they are named here, and `page` is the number of the slide.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

import hpcml
from launch.lab.core.exhibit import Claim, Finding, Numbers, claim, ending
from launch.lab.core.pictures import BLUE, drawn
from launch.lab.core.study import PaperRows, PaperStudy
from launch.lab.core.tables import read_csv, read_json
from launch.lab.papers.eager import timed

WORDS = ("--min-df", "2")  # of texts
STRENGTH = ("--l1", "0.1N/m")
FREQUENT = ("--min-positives", "10")
RCV1, BOOKMARKS, LARGE = "rcv1, here made rows", "bookmarks, here bibtex", "260,941 features, here made rows"
SHAPES = {RCV1: ("30000", "47236", "101"), LARGE: ("30000", "260941", "101")}  # rows, features, labels
LABELS = {100: "all", 30: "30 %", 10: "10 %", 3: "3 %", 1: "1 %"}  # the most frequent ones
LEAST_PAIRS = 10  # with fewer pairs of rows a heading's consistency says nothing
HEADINGS = ("humans", "female", "male", "animals", "time factors")
SHOWN = 10  # features
# of the sparsity study: λ₁ and λ₂ as they are, and as they are to the paper's 1,125,160 rows
AS_PRINTED, IN_PROPORTION = "λ as printed", "λ·m as printed"
STRENGTHS = {AS_PRINTED: ("3e-6", "1e-6"), IN_PROPORTION: ("3.4/m", "1.1/m")}


def train_model(study: PaperStudy, data: Path, *words: str, method: str = "elastic-net") -> Path:
    run = study.folder / f"{data.stem}-{method}"
    study.run("train", method, data, "-o", run, *words)
    return run


def split_datasets(study: PaperStudy) -> Iterator[tuple[PaperRows, Path]]:
    for rows in study.datasets(text=WORDS):
        path = study.folder / f"{rows.train.stem}-parts.h5"
        study.run("split", rows.train, "-o", path, "--test-share", "0.2", "--valid-share", "0.2", "--force")
        yield rows, path


def choose_thresholds(study: PaperStudy, run: Path, data: Path, measure: str, method: str) -> Path:
    path = study.folder / f"{run.name}-{measure}-{method}.h5"
    study.run("threshold", run / "model.h5", data, "--measure", measure, "--method", method, "-o", path)
    return path


def indexers(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    for rows in study.datasets(text=WORDS):
        path = study.folder / f"{rows.train.stem}-duplicates.json"
        study.run("duplicates", rows.train, "--json", path)
        results = read_json(path)
        numbers["all rows"] = {"there twice %": 100 * results["n_pairs"] / results["n_rows"], "pairs": results["n_pairs"]}
        for line in results["labels"]:
            if line["label"] in HEADINGS:
                numbers[line["label"]] = {"base rate %": 100 * line["base_rate"]}
                if line["n_pairs"] >= LEAST_PAIRS:
                    numbers[line["label"]]["consistency %"] = 100 * line["consistency"]
    return Finding(numbers)


def tractability(study: PaperStudy) -> Finding:
    numbers = {}
    for rows in study.datasets(text=WORDS):
        with hpcml.Dataset(rows.train) as dataset:
            (m, values, entries), n_labels = dataset.sizes, dataset.n_labels
        sparse = train_model(study, rows.train, *FREQUENT)
        dense = train_model(study, rows.train, *FREQUENT, method="dual")
        model = hpcml.Model(sparse / "model.h5")
        results = [study.measures(run, rows.test, "test")["macro"] for run in (sparse, dense)]
        numbers[rows.name] = {
            "values a row": values / m,
            "labels a row": entries / m,
            "positives of a label %": 100 * entries / m / n_labels,
            "features a label": model.n_weights / model.n_labels,
            "MAP": results[0]["average_precision"]["value"],
            "MAP of dual": results[1]["average_precision"]["value"],
        }
    return Finding(numbers)


def half_threshold(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    for rows, data in split_datasets(study):
        run = train_model(study, data, *STRENGTH, *FREQUENT)
        for method, name in (("search", "searched"), ("half", "half of the best F1")):
            of_labels, of_all = (choose_thresholds(study, run, data, measure, method) for measure in ("label", "micro"))
            row = {"macro F1": study.measures(of_labels, data, "test")["macro"]["f1"]["value"]}
            row["micro F1"] = study.measures(of_all, data, "test")["micro"]["f1"]
            row["threshold"] = float(1 / (1 + math.exp(-float(hpcml.Model(of_all).thresholds[0]))))  # log-odds to a probability
            if method == "search":
                row["half of F1"] = study.measures(of_all, data, "valid")["micro"]["f1"] / 2
            numbers[f"{rows.name}, {name}"] = row
    return Finding(numbers)


def weights(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    notes = []
    for rows in study.datasets(text=WORDS):
        run = train_model(study, rows.train, *STRENGTH, *FREQUENT)
        path, of_labels = study.folder / f"{run.name}-weights.json", []
        study.run("explain", run / "model.h5", "--top", SHOWN, "--json", path)
        for split, data in (("train", rows.train), ("test", rows.test)):
            csv = study.folder / f"{run.name}-{split}.csv"
            study.run("evaluate", run / "model.h5", data, "--split", split, "--csv", csv)
            of_labels.append(read_csv(csv))
        labels = read_json(path)["labels"]
        perfect = [number for number, both in enumerate(zip(*of_labels, strict=True)) if _is_perfect(*both)]
        chosen = labels[max(perfect or range(len(labels)), key=lambda number: (labels[number]["n_positive"], -number))]
        shares = [100 * each["share"] for each in chosen["features"][:SHOWN]]
        prefix = study.prefix(rows.name)
        numbers |= {f"{prefix}{index}": {"share %": share} for index, share in enumerate(shares, 1)}
        numbers[f"{prefix}others"] = {"share %": 100 - sum(shares)}
        of_ten = [100 * sum(each["share"] for each in label["features"][:SHOWN]) for label in labels if label["mass"] > 0]
        sizes = {"labels": len(labels), "without a wrong row": len(perfect)}
        numbers[f"{prefix}all labels"] = {"share of the first ten %": median(of_ten), **sizes}
        words = ", ".join(each["name"] or f"feature {each['feature']}" for each in chosen["features"][:SHOWN])
        notes.append(f"{chosen['label']}, {chosen['n_positive']} training rows, in this order: {words}")
    return Finding(numbers, tuple(notes))


def _is_perfect(of_train: dict[str, str], of_test: dict[str, str]) -> bool:
    """Return whether a label with a positive test row has no misclassified row."""
    return float(of_test["n_positive"]) > 0 == float(of_train["misclassified"]) == float(of_test["misclassified"])


def f1(study: PaperStudy) -> Finding:
    numbers = {}
    for rows, data in split_datasets(study):
        run = train_model(study, data, *STRENGTH)
        models = {"threshold 0": run, "one threshold": choose_thresholds(study, run, data, "instance", "search")}
        for name, model in models.items():
            lines = study.measures(model, data, "test")["by_frequency"]["labels"]
            numbers[f"{rows.name}, {name}"] = {LABELS[line["percent"]]: line["instance_f1"] for line in lines}
    return Finding(numbers)


def read_sparsity(run: Path) -> list[float]:
    """Return the share (%) of non-zero weights after each step. A finished label keeps its weights."""
    by_label: list[list[int]] = []
    with (run / "history.csv").open(encoding="utf-8", newline="") as lines:
        for line in csv.DictReader(lines):
            if int(line["step"]) == 1:
                by_label.append([])
            by_label[-1].append(int(line["weights"]))
    model, longest = hpcml.Model(run / "model.h5"), max(map(len, by_label))
    weights = np.sum([np.pad(counts, (0, longest - len(counts)), "edge") for counts in by_label], axis=0)
    shares: list[float] = (100 * weights / (model.n_labels * model.n_columns)).tolist()
    return shares


def draw_sparsity(path: Path, shares: Sequence[float]) -> None:
    with drawn(path, 9, 5) as figure:
        axes = figure.subplots()
        axes.plot(range(1, len(shares) + 1), shares, color=BLUE, marker="o", markersize=4)
        axes.set(title="Sparsity during training", xlabel="pass over the rows", ylabel="weights not 0 (%)", ylim=(0, None))


def sparsity(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    pictures = []
    passes = "2" if study.quick else "20"
    for rows in study.datasets(text=WORDS):
        for name, (l1, lam) in STRENGTHS.items():
            run = study.folder / f"{rows.train.stem}-{l1.replace('/', '-')}"
            words = ("--solver", "fobos", "--rate", "adagrad", "--passes", passes, "--l1", l1, "--lambda", lam)
            study.run("train", "elastic-net", rows.train, "-o", run, *words, *FREQUENT)
            shares = read_sparsity(run)
            results = {"at most %": max(shares), "at the end %": shares[-1]}
            numbers[f"{rows.name}, {name}"] = results | ({"most / end": max(shares) / shares[-1]} if shares[-1] else {})
            pictures.append(study.folder / f"{run.name}.png")
            draw_sparsity(pictures[-1], shares)
    return Finding(numbers, pictures=tuple(pictures))


def shapes(study: PaperStudy, names: Sequence[str] = tuple(SHAPES)) -> Iterator[tuple[str, Path]]:
    """Yield synthetic rows of the shapes in the talk, or the data of the user, or small rows."""
    if study.quick or study.user_data:
        yield from ((rows.name, rows.train) for rows in study.datasets())
        return
    for name in names:
        words = [word for pair in zip(("--rows", "--features", "--labels"), SHAPES[name], strict=True) for word in pair]
        path = study.converted(f"made-{SHAPES[name][1]}", "synthetic", "text", *words)
        study.used.append(f"made rows with {int(SHAPES[name][1]):,} features")
        yield name, path


def timing(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    for name, path in shapes(study):
        (numbers[name],) = study.compute_once(f"timing-{path.stem}", partial(timed, path))
    for rows in () if study.quick or study.user_data else study.datasets():
        (numbers[BOOKMARKS],) = study.compute_once(f"timing-{rows.train.stem}", partial(timed, rows.train))
    return Finding(numbers)


def training_time(study: PaperStudy) -> Finding:
    """Core seconds of training all labels, and the median excess (%) of the objectives over their minima."""
    numbers: dict[str, dict[str, float]] = {}
    for name, path in shapes(study, (RCV1,)):
        f, prefix = {}, study.prefix(name)
        for passes in ("exact", *(("1", "5") if study.quick else ("1", "5", "20", "40"))):
            run = study.folder / f"{path.stem}-{passes}"
            words = () if passes == "exact" else ("--solver", "fobos", "--passes", passes)
            usage = study.run("train", "elastic-net", path, "-o", run, "--split", "all", *words, *STRENGTH)
            f[passes] = hpcml.Model(run / "model.h5").labels["f_min"].tolist()
            row = "exact" if passes == "exact" else f"{passes} pass" + "es" * (passes != "1")
            excess = 100 * median(now / best - 1 for now, best in zip(f[passes], f["exact"], strict=True))
            numbers[prefix + row] = {"core seconds": usage.cpu_seconds, "excess %": excess}
    return Finding(numbers)


@claim("indexers", "0.05 to 0.2 % of the rows are duplicates (the paper: about 0.1 %)")
def _twins(numbers: Numbers) -> bool:
    return 0.05 <= numbers["all rows"]["there twice %"] <= 0.2


@claim("indexers", f"humans is assigned more consistently than time factors, with at least {LEAST_PAIRS} pairs")
def _concrete(numbers: Numbers) -> bool:
    return numbers["humans"]["consistency %"] > numbers["time factors"]["consistency %"]


TRACTABILITY = (
    Claim("A label needs at most 1,000 features", lambda numbers: all(row["features a label"] <= 1000 for row in numbers.values())),
    Claim(
        "MAP of the sparse models is at most 0.01 below that of dual, which uses all features",
        lambda numbers: all(row["MAP"] >= row["MAP of dual"] - 0.01 for row in numbers.values()),
    ),
)


@claim("half-threshold", "The single threshold with the best micro F1 on held-out rows is within 0.05 of half of that F1")
def _is_half(numbers: Numbers) -> bool:
    return all(abs(row["threshold"] - row["half of F1"]) <= 0.05 for row in ending(numbers, ", searched"))


@claim("half-threshold", "Half of the best F1 as the threshold lowers macro and micro F1 of test rows by at most 0.01")
def _half_costs_little(numbers: Numbers) -> bool:
    pairs = zip(ending(numbers, ", searched"), ending(numbers, ", half of the best F1"), strict=True)
    return all(half[measure] >= searched[measure] - 0.01 for searched, half in pairs for measure in ("macro F1", "micro F1"))


WEIGHTS = (
    Claim(
        "In the median label the ten largest squared weights are at least 90 % of the sum of squares",
        lambda numbers: numbers["all labels"]["share of the first ten %"] >= 90,
    ),
    Claim(
        "At least one label is predicted correctly in every training and test row",
        lambda numbers: numbers["all labels"]["without a wrong row"] >= 1,
    ),
)


@claim("f1", "F1 per row does not fall from all labels to the most frequent 30, 10, 3 and 1 %, on any corpus (one threshold)")
def _rises(numbers: Numbers) -> bool:
    rows = ending(numbers, ", one threshold")
    return all(more >= less for row in rows for less, more in pairwise([row[name] for name in LABELS.values()]))


@claim("f1", "F1 per row is at least 0.05 higher over 1 % of the labels than over all (the paper: 0.09)")
def _rises_enough(numbers: Numbers) -> bool:
    return all(row["1 %"] >= row["all"] + 0.05 for row in ending(numbers, ", one threshold"))


SPARSITY = (
    Claim(
        "With λ in proportion to the rows at most 0.64 % of the weights are non-zero, twice the share in the paper",
        lambda numbers: all(row["at most %"] <= 0.64 for row in ending(numbers, IN_PROPORTION)),
    ),
    Claim(
        "At the end at most 0.4 % are non-zero, twice the share in the paper, and fewer than at the maximum",
        lambda numbers: all(row["at the end %"] <= min(0.4, 0.999 * row["at most %"]) for row in ending(numbers, IN_PROPORTION)),
    ),
)


def at_least_half(row: str, speed_up: float) -> Claim:
    says = f"delayed steps are at least {speed_up / 2:,.0f} times faster, half of the paper's: {row}"
    return Claim(says, lambda numbers: numbers[row]["speed-up"] >= speed_up / 2)


TIMING = (
    Claim(
        "Weights after delayed steps equal those after standard steps, within 0.0001 of the largest",
        lambda numbers: all(row["difference"] <= 1e-4 for row in numbers.values()),
    ),
    Claim(
        "At least as many examples per second as in the paper",
        lambda numbers: numbers[RCV1]["delayed"] >= 555 and numbers[BOOKMARKS]["delayed"] >= 516.8,
    ),
    at_least_half(RCV1, 489.7),
    at_least_half(BOOKMARKS, 20.7),
    at_least_half(LARGE, 2000),
)


@claim("training-time", "101 labels are trained to within 2 % of their minima in at most ten core minutes")
def _minutes(numbers: Numbers) -> bool:
    near = [row["core seconds"] for name, row in numbers.items() if "pass" in name and row["excess %"] <= 2]
    return bool(near) and min(near) <= 600
