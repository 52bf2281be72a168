"""Section 5 of the PSBML paper, rows near the margin: figures 2 to 6 and table 1; also figure 8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

import hpcml
from launch.lab.core.exhibit import Claim, Finding, Numbers, claim
from launch.lab.core.study import PaperStudy
from launch.lab.papers.large_margin import SETS
from launch.lab.papers.margins import QUICK, MarginSizes, Overlap, band_names, experiments_on
from launch.lab.papers.psbml_drawing import draw_lines, draw_margin, draw_points

RADII = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, np.inf)  # the bands of figure 4
AT_THE_MARGIN = ("0.3 to 0.4", "0.4 to 0.5")
SHOWN_CYCLES = (1, 10, 25, 50)
ALIKE = 0.1  # of the total variation distance of two distributions that are nearly identical
LEAST_OVERLAP = 85.0  # per cent


def sizes(study: PaperStudy) -> MarginSizes:
    return QUICK if study.quick else MarginSizes()


def made_set(study: PaperStudy, name: str, rows: int, seed: int = 0) -> Path:
    return study.converted(f"{name}-{seed}", "synthetic", name, "--rows", rows, "--seed", seed)


def run_experiment(name: str, path: Path, cycles: int, seed: int, experiment: str, *content: Any) -> Any:
    """Return the result of a method of `Experiments` on a set."""
    with experiments_on(name, path, cycles, seed) as experiments:
        return getattr(experiments, experiment)(*content)


def points_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return all points of a set (n × 2) and their classes (n), 0 or 1."""
    with hpcml.Dataset(path) as data:
        return np.asarray(data.matrix().toarray(), dtype=np.float64), np.diff(data.labels().indptr)


# Figures 2, 5 and 8


def draw_sets(names: Sequence[str]) -> Callable[[PaperStudy], Finding]:
    def make(study: PaperStudy) -> Finding:
        results = {name: points_of(made_set(study, name, sizes(study).rows)) for name in names}
        picture = study.picture(draw_points, results)
        numbers = {name: {"points": float(of.size), "positive %": 100 * float(of.mean())} for name, (_, of) in results.items()}
        return Finding(numbers, pictures=(picture,))

    return make


figure_2, figure_5, figure_8 = draw_sets(("circle",)), draw_sets(("gaussians",)), draw_sets(("checkerboard", "sine"))


@claim("figure-2", "The share of positive points is that of the square beyond radius 0.4, within 3 standard errors")
def _as_stated(numbers: Numbers) -> bool:
    row = numbers["circle"]
    share = 1 - np.pi * 0.4**2 / 4
    return abs(row["positive %"] / 100 - share) <= 3 * np.sqrt(share * (1 - share) / row["points"])


# Figures 3 and 6


def near_margin(name: str) -> Callable[[PaperStudy], Finding]:
    def make(study: PaperStudy) -> Finding:
        how = sizes(study)
        path = made_set(study, name, how.rows)
        ask = partial(run_experiment, name, path, how.cycles, 0)
        both = (partial(ask, "grids", how.grid_runs), partial(ask, "alone", how.runs))
        grids, modes = study.compute_once("experiments", *both)
        picture = study.picture(draw_margin, grids, modes, SETS[name], points_of(path)[0])
        return Finding(grids["numbers"] | modes["numbers"], pictures=(picture,))

    return make


MODES = ("modes without weights", "modes, last cycle")


def _gather(numbers: Numbers) -> bool:
    shares = [[numbers[grid][f"near, cycle {cycle}"] for cycle in (0, 25, 50)] for grid in ("PSBML", "mixtures")]
    return all(first < half < last and last >= 50 for first, half, last in shares)


def claims_about(name: str) -> tuple[Claim, ...]:
    distance = f"total variation distance of the mean histograms at most {ALIKE}"

    def modes_move(numbers: Numbers) -> bool:
        boundary = SETS[name].boundary
        without, last = ([abs(numbers[row][of] - boundary) for of in ("negative", "positive")] for row in MODES)
        return all(b <= 0.1 and b < a for a, b in zip(without, last, strict=True))

    return (
        Claim(
            f"PSBML and mixtures have nearly the same distribution after 25 and 50 cycles: {distance}",
            lambda numbers: all(numbers["both"][f"distance, cycle {cycle}"] <= ALIKE for cycle in (25, 50)),
        ),
        Claim(
            "On both grids the share of slots within 0.1 of the boundary grows from cycle 0 to 25 to 50, to at least half", _gather
        ),
        Claim(
            "Weights move the modes to the boundary: within 0.1 after 50 cycles, nearer than without weights, in both classes",
            modes_move,
        ),
    )


figure_3, FIGURE_3 = near_margin("circle"), claims_about("circle")
figure_6, FIGURE_6 = near_margin("gaussians"), claims_about("gaussians")

# Figure 4


BAND_NAMES = band_names(RADII)


def figure_4(study: PaperStudy) -> Finding:
    how = sizes(study)
    path = made_set(study, "circle", how.rows)
    ask = partial(run_experiment, "circle", path, how.cycles, 0)
    (shares,) = study.compute_once("weights", partial(ask, "weight_shares", RADII))
    of = dict(zip(BAND_NAMES, zip(*shares, strict=True), strict=True))
    cycles = np.arange(1, how.cycles + 1)
    near = {name: (cycles, values) for name, values in of.items() if name in AT_THE_MARGIN}
    far = {name: (cycles, values) for name, values in of.items() if name not in AT_THE_MARGIN}
    label = {"xlabel": "cycle", "ylabel": "share of all weight (%)"}
    panels = [(far, label | {"title": "radius far from 0.4"}), (near, label | {"title": "radius near 0.4"})]
    reported = [cycle for cycle in SHOWN_CYCLES if cycle <= how.cycles]
    numbers = {f"radius {name}": {f"cycle {cycle}": values[cycle - 1] for cycle in reported} for name, values in of.items()}
    return Finding(numbers, ("per cent of the weight of all rows on the grid",), (study.picture(draw_lines, panels),))


@claim("figure-4", "The shares of weight at radius 0.3 to 0.4 and 0.4 to 0.5 grow over the cycles 1, 10, 25 and 50")
def _near_grow(numbers: Numbers) -> bool:
    rows = [[numbers[f"radius {band}"][f"cycle {cycle}"] for cycle in SHOWN_CYCLES] for band in AT_THE_MARGIN]
    return all(a < b for row in rows for a, b in pairwise(row))


@claim("figure-4", "The share at every other radius is at most half as large in cycle 50 as in cycle 1")
def _far_decay(numbers: Numbers) -> bool:
    rows = [numbers[f"radius {band}"] for band in BAND_NAMES if band not in AT_THE_MARGIN]
    return all(row["cycle 50"] <= row["cycle 1"] / 2 for row in rows)


# Table 1


def table_1(study: PaperStudy) -> Finding:
    """Support vectors of highest α among the hardest tenth of the rows, and hard rows among the support vectors."""
    how, numbers = sizes(study), {}
    for name in SETS:
        paths = [made_set(study, name, how.rows, seed) for seed in range(how.seeds)]
        calls = (partial(run_experiment, name, path, how.cycles, seed, "overlaps") for seed, path in enumerate(paths))
        results = study.compute_once(name, *calls)
        for which, lines in zip(("least C", "greatest C"), zip(*results, strict=True), strict=True):
            numbers[f"{name}, {which}"] = overlap_row([Overlap(**line) for line in lines])
    return Finding(numbers, ("overlap: share of the support vectors of highest α that are among the hardest tenth of the rows",))


def overlap_row(results: Sequence[Overlap]) -> dict[str, float]:
    shares = [100 * each.vectors for each in results]
    return {
        "overlap": fmean(shares),
        "deviation": float(np.std(shares, ddof=1)),
        "by chance": 100 * fmean(each.vectors_by_chance for each in results),
        "hard rows that are vectors": 100 * fmean(each.hard for each in results),
        "support vectors": fmean(each.n_vectors for each in results),
        "C": median(each.C for each in results),
    }


def overlaps(name: str) -> Claim:
    return Claim(
        f"{name}: at least {LEAST_OVERLAP:.0f} % of the support vectors of highest α (SVM with the least C) are hard rows",
        lambda numbers: numbers[f"{name}, least C"]["overlap"] >= LEAST_OVERLAP,
    )


TABLE_1 = tuple(map(overlaps, SETS))
