"""Quality of PSBML by its options: figure 7 and tables 2 to 4 of the PSBML paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import hpcml
from hpcml import mpi, rng
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.run import TorusRun
from hpcml.methods.psbml.selection import VALIDATION, validation_sizes
from hpcml.methods.psbml.snapshot import validate
from hpcml.methods.psbml.train import make_problem
from hpcml.model.learner import parse_learner
from launch.lab.core.exhibit import Claim, Finding, Numbers, claim, ending
from launch.lab.core.study import PaperRows, PaperStudy
from launch.lab.core.tables import read_csv
from launch.lab.papers.psbml_drawing import draw_lines

SIGNIFICANT = 0.05
SEEDS = 30  # of tables 2, 4 and 8, as in the paper
BASES = {"NB": "kernel-nb", "C4.5": "tree", "Linear SVM": "linear-svm"}
SIDES = (3, 4, 5, 6, 7)
ROWS_OF_A_SET = 8000  # of table 4
NEIGHBOURHOODS, RATES = ("L5", "L9", "C9", "C13"), (0.1, 0.2, 0.4, 0.6)
SHOWN = (1, 5, 10, 20, 30)  # cycles of figure 7
TEST = -2  # in place of the initial node: rows for comparison


def p_value(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return p of a paired t-test; 1 if all pairs are equal."""
    from scipy.stats import ttest_rel

    return 1.0 if list(ours) == list(theirs) else float(ttest_rel(ours, theirs).pvalue)


def spread(classes: np.ndarray, rows: np.ndarray, n_nodes: int, share: float, seed: int) -> np.ndarray:
    """Return the initial node of each row, or VALIDATION or TEST. Each class has as many test as validation rows."""
    order = np.lexsort((rng.bits(seed, "psbml spread", rows), classes))
    sizes = np.bincount(classes)
    number = np.arange(classes.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    aside = np.repeat(validation_sizes(sizes, share), sizes)
    start = np.full(classes.size, VALIDATION, dtype=np.int32)
    dealt = order[number >= 2 * aside]
    start[dealt] = np.arange(dealt.size) % n_nodes
    start[order[(number >= aside) & (number < 2 * aside)]] = TEST
    return start


def areas_of_seed(path: Path, seed: int, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Return the ROC areas of cycle 0 and of the selected cycle, on the rows for comparison."""
    options = PsbmlOptions(seed=seed, split="all", **settings)
    with hpcml.Dataset(path) as dataset:
        problem = make_problem(mpi.self_comm(), dataset, parse_learner(options.base), options)
        classes = problem.classes
        problem = replace(problem, start=spread(classes.of, classes.rows, problem.torus.n_nodes, options.validation_share, seed))
        pockets = []
        run = TorusRun(problem, on_step=lambda *_: pockets.append(run.best))
        run.train()
        aside = np.flatnonzero(problem.start == TEST)
        matrix = problem.prepared(problem.read(aside))
        compared = (pockets[0], run.best)  # on one rank, cycle 0 is assessed before cycle 1
        before, after = (validate(p.classifier, matrix, classes.of[aside], classes.n_classes, p.threshold)[1] for p in compared)
    return before, after


def areas_by_seed(study: PaperStudy, rows: PaperRows, name: str, **options: object) -> tuple[list[float], list[float]]:
    """Return the ROC areas (%) of cycle 0 and of the selected cycle, for each seed."""
    short = {"cycles": 1} if study.quick else {}
    calls = (partial(areas_of_seed, rows.train, seed, {**short, **options}) for seed in range(2 if study.quick else SEEDS))
    pairs = study.compute_once(f"{rows.train.stem}-{name}", *calls)
    before, after = ([100 * pair[k] for pair in pairs] for k in (0, 1))
    return before, after


# Figure 7


def figure_7(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    curves: dict[str, np.ndarray] = {}
    cycles, seeds = (2, 1) if study.quick else (30, 10)
    pairs = [*((each, 0.2) for each in NEIGHBOURHOODS), *(("C9", each) for each in RATES)]
    for rows in study.datasets():
        for neighbourhood, rate in dict.fromkeys(pairs[: 2 if study.quick else None]):
            name = f"{study.prefix(rows.name)}{neighbourhood}, Pr {rate}"
            options = ("--neighbourhood", neighbourhood, "--replace", rate, "--cycles", cycles)
            curves[name] = np.mean([course(study, rows, *options, "--seed", seed) for seed in range(seeds)], axis=0)
            numbers[name] = course_row(curves[name])
    panels = [
        ({name: (range(len(of)), of[:, k]) for name, of in curves.items()}, {"xlabel": "cycle", "ylabel": what})
        for k, what in enumerate(("error (%)", "distinct rows"))
    ]
    return Finding(numbers, pictures=(study.picture(draw_lines, panels),))


def course(study: PaperStudy, rows: PaperRows, *options: object) -> np.ndarray:
    """Return error (%) and distinct rows of the cycles from 0 on (cycles × 2)."""
    run = study.folder / "-".join([rows.train.stem, *map(str, options[1::2])])
    fixed = ("--grid", "5x5", "--split", "all", "--validation-share", 0.3)
    study.run("train", "psbml", rows.train, "-o", run, *fixed, *options)
    return np.array([(100 * float(line["error"]), float(line["distinct_rows"])) for line in read_csv(run / "history.csv")])


def course_row(curve: np.ndarray) -> dict[str, float]:
    error, left = curve.T
    row = {f"error, cycle {cycle}": float(error[cycle]) for cycle in SHOWN if cycle < error.size}
    row |= {"least error": float(error[1:].min()), "in cycle": float(1 + error[1:].argmin())}
    return row | {f"rows, cycle {cycle}": float(left[cycle]) for cycle in (10, 30) if cycle < left.size}


def column(numbers: Numbers, names: Sequence[str], what: str) -> list[float]:
    return [numbers[name][what] for name in names]


BY_NEIGHBOURHOOD, BY_RATE = [f"{each}, Pr 0.2" for each in NEIGHBOURHOODS], [f"C9, Pr {each}" for each in RATES]


def _l5_is_slow(numbers: Numbers) -> bool:
    slow, *others = column(numbers, BY_NEIGHBOURHOOD, "error, cycle 5")
    return slow >= max(others)


def _wide_overfit(numbers: Numbers) -> bool:
    rise = {name: numbers[name]["error, cycle 30"] - numbers[name]["least error"] for name in BY_NEIGHBOURHOOD}
    _, l9, c9, c13 = column(numbers, BY_NEIGHBOURHOOD, "error, cycle 5")
    return max(l9, c13) <= c9 and min(rise["L9, Pr 0.2"], rise["C13, Pr 0.2"]) >= rise["C9, Pr 0.2"]


def least_error(names: Sequence[str], best: str, numbers: Numbers) -> bool:
    return numbers[best]["least error"] <= min(column(numbers, names, "least error"))


def _rates_hasten(numbers: Numbers) -> bool:
    left, error = (column(numbers, BY_RATE, what) for what in ("rows, cycle 10", "least error"))
    return left == sorted(left, reverse=True) and error[1:] == sorted(error[1:])


FIGURE_7 = (
    Claim("L5 reduces the error most slowly: the highest error after 5 cycles", _l5_is_slow),
    Claim("L9 and C13 reduce the error faster than C9 (5 cycles), and it rises more from its minimum to cycle 30", _wide_overfit),
    Claim("C9 has the least error of the four neighbourhoods", partial(least_error, BY_NEIGHBOURHOOD, "C9, Pr 0.2")),
    Claim("A larger Pr leaves fewer rows after 10 cycles, and from 0.2 on a higher least error", _rates_hasten),
    Claim("Pr = 0.2 has the least error of the four", partial(least_error, BY_RATE, "C9, Pr 0.2")),
)

# Table 2


def table_2(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    for rows in study.datasets():
        sides = [f"{side}x{side}" for side in SIDES[: 2 if study.quick else None]]
        areas = {side: areas_by_seed(study, rows, side, grid=side)[1] for side in sides}
        numbers[rows.name] = {side: fmean(of) for side, of in areas.items()}
        numbers[f"{rows.name}, p"] = {side: p_value(of, areas["3x3"]) for side, of in areas.items() if side != "3x3"}
    return Finding(numbers)


def with_tests(numbers: Numbers) -> list[str]:
    """Return the datasets with a test of grid sizes. Raises KeyError if there are none."""
    names = [name for name in numbers if f"{name}, p" in numbers]
    if not names:
        raise KeyError("p")
    return names


@claim("table-2", f"No area differs significantly from that of the 3x3 grid (paired t-test, p < {SIGNIFICANT})")
def _same_by_size(numbers: Numbers) -> bool:
    return min(p for name in with_tests(numbers) for p in numbers[f"{name}, p"].values()) >= SIGNIFICANT


@claim("table-2", "The areas of all sizes are within 1 point")
def _near_by_size(numbers: Numbers) -> bool:
    rows = [numbers[name].values() for name in with_tests(numbers)]
    return all(max(row) - min(row) <= 1.0 for row in rows)


# Table 3


def table_3(study: PaperStudy) -> Finding:
    return Finding({rows.name: sizes_of(rows) for rows in study.datasets()})


def sizes_of(rows: PaperRows) -> dict[str, float]:
    with hpcml.Dataset(rows.train) as data:
        results = {"train rows": float(data.n_rows), "features": float(data.n_features)}
    if rows.test != rows.train:
        with hpcml.Dataset(rows.test) as data:
            results["test rows"] = float(data.n_rows)
    return results


PAPERS_SIZES = {"Adult": (32560, 123), "W8A": (49749, 300), "ICJNN1": (49990, 22), "Cover": (581012, 54)}


@claim("table-3", "Adult, W8A, ICJNN1 and Cover have the training rows of the paper, within one row, and its features")
def _same_sizes(numbers: Numbers) -> bool:
    pairs = ((numbers[name], of) for name, of in PAPERS_SIZES.items())
    return all(abs(row["train rows"] - n) <= 1 and row["features"] == d for row, (n, d) in pairs)


# Table 4


def table_4(study: PaperStudy) -> Finding:
    numbers: dict[str, dict[str, float]] = {}
    for rows in study.datasets(most=ROWS_OF_A_SET):
        for name, base in [*BASES.items()][: 2 if study.quick else None]:
            alone, ours = areas_by_seed(study, rows, base, base=(base,), judge="auc")
            gain = np.subtract(ours, alone)
            row = {"alone": fmean(alone), "PSBML": fmean(ours), "difference": float(gain.mean())}
            numbers[f"{rows.name}, {name}"] = row | {"deviation": float(gain.std(ddof=1)), "p": p_value(ours, alone)}
    return Finding(numbers)


def gains(numbers: Numbers, base: str) -> list[int]:
    """Return 1 for each dataset where PSBML is significantly better than the base learner, −1 where it is worse, else 0."""
    rows = ending(numbers, f", {base}")
    return [int(np.sign(row["difference"])) if row["p"] < SIGNIFICANT else 0 for row in rows]


TABLE_4 = (
    Claim(
        f"With naive Bayes PSBML is significantly better (paired t-test, p < {SIGNIFICANT}) on all datasets",
        lambda numbers: min(gains(numbers, "NB")) > 0,
    ),
    Claim("With C4.5 PSBML is significantly worse on no dataset", lambda numbers: min(gains(numbers, "C4.5")) >= 0),
    Claim(
        "With a linear SVM PSBML is significantly better on three datasets",
        lambda numbers: sum(gain > 0 for gain in gains(numbers, "Linear SVM")) >= 3,
    ),
)
