"""How PROBE converges on MeSH headings beside PROBE* and IDEAL, which know w* (figures 1 to 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from hpcml.papers import mesh
from hpcml.papers.exhibit import Claim, Finding, ending
from hpcml.papers.study import PaperStudy, flags
from hpcml.plots.convergence import safe

ALGORITHMS = ("PROBE", "PROBE*", "IDEAL")
NEAR = 0.1  # of the distance at the start, ‖w*‖


def walks(study: PaperStudy) -> tuple[dict[str, list[dict[str, str]]], tuple[Path, ...]]:
    """How PROBE, PROBE* and IDEAL go for three headings (the first, the middle and the last of the
    rare ones): lines of `hpcml plot convergence` by heading; and the pictures.
    """
    rows, _, every = mesh.headings(study)
    some = every[:1] if study.quick else list(dict.fromkeys((every[0], every[len(every) // 2], every[-1])))
    run = study.folder / "probe"
    study.run("train", "probe", rows.train, "-o", run, "--no-bias", "--lambda", mesh.LAMBDA, *flags("--label", some))
    pictures = [study.folder / f"{safe(name)}.png" for name in some]
    for name, picture in zip(some, pictures, strict=True):
        study.run("plot", "convergence", run, "-o", picture, "--label", name)
    return {name: study.lines(picture.with_suffix(".csv")) for name, picture in zip(some, pictures, strict=True)}, tuple(pictures)


def column(lines: Sequence[Mapping[str, str]], algorithm: str, name: str) -> list[float]:
    """What an algorithm had at each step where there is a value."""
    return [float(line[name]) for line in lines if line["algorithm"] == algorithm and line[name]]


def figure_1(study: PaperStudy) -> Finding:
    """The distance to w* at each step of three algorithms; how often it grows."""
    lines, pictures = walks(study)
    numbers: dict[str, dict[str, float]] = {}
    for name, walk in lines.items():
        ways = {algorithm: column(walk, algorithm, "distance") for algorithm in ALGORITHMS}
        for algorithm, way in ways.items():
            row = {
                "iterations": float(len(way)),
                "first": way[0],
                "last": way[-1],
                "steps away": float(sum(b > a for a, b in pairwise(way))),
            }
            if near := [step for step, distance in enumerate(way, 1) if distance <= NEAR * way[0]]:
                row["steps to a tenth"] = float(near[0])
            nearer = sum(a <= b for a, b in zip(ways["IDEAL"], way, strict=False))
            numbers[f"{name}: {algorithm}"] = row | {"IDEAL as near, %": 100 * nearer / min(len(way), len(ways["IDEAL"]))}
    return Finding(numbers, pictures=pictures)


def _steps(row: Mapping[str, float]) -> float:
    return row.get("steps to a tenth", math.inf)


FIGURE_1 = (
    Claim(
        "PROBE* and IDEAL come nearer to w* at every step: no step away",
        lambda numbers: all(row["steps away"] == 0 for name in ALGORITHMS[1:] for row in ending(numbers, f": {name}")),
    ),
    Claim(
        "IDEAL is always nearer to w* than PROBE* (or as near), at every step that both take",
        lambda numbers: all(row["IDEAL as near, %"] == 100 for row in ending(numbers, ": PROBE*")),
    ),
    Claim(
        "PROBE steps away from w* at times, for one heading at least",
        lambda n: any(row["steps away"] > 0 for row in ending(n, ": PROBE")),
    ),
    Claim(
        "PROBE sometimes converges more rapidly than PROBE*: for one heading at least it is first to come within a tenth of ‖w*‖",
        lambda n: any(_steps(ours) < _steps(star) for ours, star in zip(ending(n, ": PROBE"), ending(n, ": PROBE*"), strict=True)),
    ),
)


def figure_2(study: PaperStudy) -> Finding:
    """The objective at each step of PROBE; how often it rises."""
    lines, pictures = walks(study)
    numbers = {}
    for name, walk in lines.items():
        f, distance = (column(walk, "PROBE", what) for what in ("f", "distance"))
        steps = list(zip(pairwise(f), pairwise(distance), strict=True))
        rises = [b < a for (before, after), (a, b) in steps if after > before]
        row = {"iterations": len(f), "first f": f[0], "least f": min(f), "rises": len(rises), "rises nearer to w*": sum(rises)}
        numbers[name] = {what: float(value) for what, value in row.items()}
    return Finding(numbers, pictures=pictures)


FIGURE_2 = (
    Claim("f rises again and again, for each heading: ten times at least", lambda n: all(row["rises"] >= 10 for row in n.values())),
    Claim(
        "It rises whether w has moved away from w* or not: for each heading some rises come nearer to w*",
        lambda n: all(row["rises nearer to w*"] > 0 for row in n.values()),
    ),
)


def figure_3(study: PaperStudy) -> Finding:
    """The break-even on test rows at every tenth step of PROBE."""
    lines, pictures = walks(study)
    numbers = {}
    for name, walk in lines.items():
        values = column(walk, "PROBE", "break_even")
        numbers[name] = {"at 10": values[0], "half-way": values[len(values) // 2], "best": max(values), "last": values[-1]}
    return Finding(numbers, pictures=pictures)


FIGURE_3 = (
    Claim(
        "BE rises steadily for two of three headings: the last is at most 0.01 below the best, and above that of step 10",
        lambda n: sum(row["best"] - row["last"] <= 0.01 and row["last"] > row["at 10"] for row in n.values()) >= 2,
    ),
    Claim(
        "It declines only slightly after an early maximum: nowhere by more than 0.05",
        lambda n: all(row["best"] - row["last"] <= 0.05 for row in n.values()),
    ),
)
