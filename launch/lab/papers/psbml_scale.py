"""Time and memory of PSBML by rows and ranks (figures 9 to 11 of the paper), asynchronous runs (table 6)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import truediv
from pathlib import Path
from statistics import fmean, median

import numpy as np

from launch.lab.core.exhibit import Claim, Finding, Numbers, claim
from launch.lab.core.study import PaperStudy
from launch.lab.core.tables import plural, read_csv
from launch.lab.papers.psbml_drawing import draw_lines
from launch.lab.papers.psbml_quality import SIGNIFICANT, p_value

SIZES = (10_000, 31_623, 100_000, 316_228, 1_000_000)
QUICK_SIZES = (300, 600)
OPTIONS = ("--base", "tree", "--cycles")
ROWS_AT_ONCE = 316_228  # of figure 10
ASYNCHRONOUS_ROWS = 10_000  # of a dataset, table 6
LINEAR = (0.8, 1.2)  # exponents that are called linear


def board(study: PaperStudy, rows: int) -> Path:
    return study.converted(f"checkerboard-{rows}", "synthetic", "checkerboard", "--rows", rows, "--seed", 1)


def per_cycle(study: PaperStudy, run: Path) -> float:
    """Return the mean seconds of a cycle of the grid, without its evaluation."""
    return fmean(float(line["seconds"]) for line in read_csv(run / "history.csv") if line["cycle"] != "0")


def drawn(study: PaperStudy, what: str, sizes: Sequence[float], measure: str, values: Sequence[float]) -> tuple[Path]:
    axes = {"xlabel": what, "ylabel": measure, "xscale": "log", "yscale": "log"}
    return (study.picture(draw_lines, [({"PSBML (C4.5), checkerboard": (sizes, values)}, axes)]),)


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return b of values ≈ a · size^b by least squares of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def by_size(study: PaperStudy, measure: str) -> Finding:
    """Train on checkerboards of growing size. `measure`: seconds per cycle, or MiB."""
    values, cycles = [], 2 if study.quick else 10
    sizes = QUICK_SIZES if study.quick else SIZES
    for rows in sizes:
        path, run = board(study, rows), study.folder / f"run-{rows}"
        usage = study.run("train", "psbml", path, "-o", run, *OPTIONS, cycles)
        values.append(per_cycle(study, run) if measure == "seconds per cycle" else usage.peak_mib)
    numbers = {f"{rows:,} rows": {measure: value} for rows, value in zip(sizes, values, strict=True)}
    grown = values[1:] if measure == "seconds per cycle" else np.subtract(values[1:], values[0]).tolist()
    if len(grown) > 2 and min(grown[-3:]) > 0:
        numbers["growth"] = {"exponent": exponent(sizes[-3:], grown[-3:])}
    return Finding(numbers, pictures=drawn(study, "training rows", sizes, measure, values))


figure_9 = partial(by_size, measure="seconds per cycle")
figure_11 = partial(by_size, measure="MiB")  # peak resident memory of the largest rank; its growth above that of the smallest size


LINEAR_FIT = f"rows^b with b from {LINEAR[0]} to {LINEAR[1]}, fitted to the three largest sizes"


@claim("figure-9", f"The time per cycle grows linearly with the rows: as {LINEAR_FIT}")
@claim("figure-11", f"Peak memory above that of the smallest size grows linearly: as {LINEAR_FIT}")
def _linear(numbers: Numbers) -> bool:
    return LINEAR[0] <= numbers["growth"]["exponent"] <= LINEAR[1]


# Figure 10


def figure_10(study: PaperStudy) -> Finding:
    """Seconds per cycle on every number of ranks that divides the number of ranks."""
    values, cycles = {}, 2 if study.quick else 10
    path = board(study, QUICK_SIZES[1] if study.quick else ROWS_AT_ONCE)
    for n_ranks in (n for n in range(1, study.ranks + 1) if study.ranks % n == 0):
        run = study.folder / f"run-on-{n_ranks}"
        study.run("train", "psbml", path, "-o", run, *OPTIONS, cycles, ranks=n_ranks)
        values[n_ranks] = per_cycle(study, run)
    numbers = {plural(n, "rank"): {"seconds per cycle": seconds, "speed-up": values[1] / seconds} for n, seconds in values.items()}
    return Finding(numbers, pictures=drawn(study, "ranks", [*values], "seconds per cycle", [*values.values()]))


@claim("figure-10", "A cycle on n ranks is at least 0.7 n times as fast as on one rank")
def _faster_by_ranks(numbers: Numbers) -> bool:
    of = {int(name.split()[0]): row["speed-up"] for name, row in numbers.items() if name.endswith((" rank", " ranks"))}
    if max(of, default=1) == 1:
        raise KeyError("ranks")
    return all(speed_up >= 0.7 * n for n, speed_up in of.items())


# Table 6

SYNC, ASYNC, GPU = "PSBML Sync", "PSBML Async", "PSBML GPU"
MODES = {SYNC: (), ASYNC: ("--asynchronous",), GPU: ("--asynchronous", "--device", "gpu")}
SLOW = ("--slow-rank", 0, "--slow-factor", 2)


def has_gpu() -> bool:
    try:
        from numba import cuda
    except ImportError:
        return False
    return bool(cuda.is_available())


def table_6(study: PaperStudy) -> Finding:
    modes = MODES if has_gpu() else {mode: MODES[mode] for mode in (SYNC, ASYNC)}
    numbers: dict[str, dict[str, float]] = {name: {} for name in (*modes, "p", "p, GPU", "Async Speedup", "GPU Speedup")}
    seeds, cycles = (2, 2) if study.quick else (5, 20)
    for rows in study.datasets(most=ASYNCHRONOUS_ROWS):
        areas: dict[str, list[float]] = {mode: [] for mode in modes}
        seconds: dict[str, list[float]] = {mode: [] for mode in modes}
        for seed in range(seeds):
            for mode, flags in modes.items():
                run = study.folder / f"{rows.train.stem}-{mode.split()[1]}-{seed}"
                options = ("--seed", seed, "--cycles", cycles, *SLOW, *flags)
                seconds[mode].append(study.run("train", "psbml", rows.train, "-o", run, *options).seconds)
                areas[mode].append(100 * study.measures(run, rows.test)["micro"]["auc"])
        for mode in modes:
            numbers[mode][rows.name] = fmean(areas[mode])
        numbers["p"][rows.name] = p_value(areas[SYNC], areas[ASYNC])
        if GPU in modes:
            numbers["p, GPU"][rows.name] = p_value(areas[SYNC], areas[GPU])
            numbers["GPU Speedup"][rows.name] = median(map(truediv, seconds[SYNC], seconds[GPU]))
        if study.ranks > 1:
            numbers["Async Speedup"][rows.name] = 1 - median(map(truediv, seconds[ASYNC], seconds[SYNC]))
    alone = () if numbers["Async Speedup"] else ("on one rank no node waits for another: it takes two to save time",)
    return Finding({name: row for name, row in numbers.items() if row}, alone)


NONE = f"differ significantly on no dataset (paired t-test, p < {SIGNIFICANT})"
TABLE_6 = (
    Claim(f"The areas of asynchronous runs {NONE}", lambda numbers: min(numbers["p"].values()) >= SIGNIFICANT),
    Claim(
        "Asynchronous runs need at least 10 % less time on every dataset (median of the seeds)",
        lambda numbers: min(numbers["Async Speedup"].values()) >= 0.1,
    ),
    Claim(f"The areas of GPU runs {NONE}", lambda numbers: min(numbers["p, GPU"].values()) >= SIGNIFICANT),
    Claim(  # the paper's least is 3.3
        "GPU runs are at least 3 times as fast on every dataset (median of the seeds)",
        lambda numbers: min(numbers["GPU Speedup"].values()) >= 3,
    ),
)
