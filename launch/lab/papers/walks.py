"""Convergence of PROBE, and of PROBE* and IDEAL, which know w*, on MeSH headings (PROBE 2012, figures 1 to 3).

All three move from w₁ = 0 along the subgradient, `w_{t+1} = w_t − η g(w_t)`, on all rows in double precision, and differ in η
alone. For any η, by convexity,

    ‖w_{t+1} − w*‖² ≤ ‖w_t − w*‖² + η²‖g‖² − 2η (f(w_t) − f(w*))        (paper, equation 2)

which is least for `η = Δ/‖g‖²` with `Δ = f(w_t) − f(w*)` (equation 3). PROBE estimates f(w*), PROBE* is given it, and IDEAL is
given w* too and takes the nearest point on the line. w* is the w_t with the least f of PROBE.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import hpcml
from launch.lab.core.exhibit import Claim, Finding, ending
from launch.lab.core.pictures import BLUE, GREEN, VERMILION, drawn
from launch.lab.core.study import PaperStudy, flags, safe
from launch.lab.papers import mesh

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALGORITHMS = ("PROBE", "PROBE*", "IDEAL")
NEAR = 0.1  # of the distance at the start, ‖w*‖
EPSILON, GAMMA = 0.05, 2 / 3  # of PROBE: the least φ, and the ratio of successive φ
MAX_STEPS = 5000
EVERY = 10  # steps between two measurements of the break-even

Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray]]  # w (d,) to f(w), g(w) (d,)
StepRule = Callable[[np.ndarray, float, np.ndarray], float]  # w, f, g to η; 0 or less stops at w


class HingeObjective:
    """f(w) = λ/2 ‖w‖² + (1/m) Σ max(0, 1 − y_i x_i·w) and a subgradient g."""

    def __init__(self, X: Any, y: np.ndarray, lam: float) -> None:
        """X: (m, d) sparse; y: (m,) of −1 and 1."""
        self.X, self.XT, self.y, self.lam = X.astype(np.float64), X.astype(np.float64).T.tocsr(), y, lam

    def __call__(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Return f(w) and g(w) = λ w − (1/m) Σ y_i x_i over the rows with a margin below 1."""
        losses = 1 - self.y * (self.X @ w)
        f = 0.5 * self.lam * (w @ w) + np.maximum(losses, 0).mean()
        return float(f), self.lam * w - self.XT @ np.where(losses > 0, self.y, 0.0) / self.y.size


def probe_steps(epsilon: float = EPSILON) -> StepRule:
    """Return PROBE's rule (Algorithm 1): η = (f(w_t) − (1−φ) f_min) / ‖g‖², 0 once φ < ε or w is optimal.

    A cycle ends with the second rise of f. If f_min did not fall in a normal cycle, a test cycle tries a smaller φ, and a retest
    cycle the larger one again; the φ whose f_min fell faster is kept.
    """
    phi, f_min, f_before, f_min_before, average_before = GAMMA, math.inf, math.inf, math.inf, 0.0
    cycle, rises, length = "normal", 0, 0

    def eta(_w: np.ndarray, f: float, g: np.ndarray) -> float:
        nonlocal phi, f_min, f_before, f_min_before, average_before, cycle, rises, length
        length += 1
        rises += f > f_before
        f_before, f_min = f, min(f, f_min)
        if rises == 2:
            average = (f_min_before - f_min) / length
            if cycle == "test":
                phi, average_before, cycle = phi / GAMMA, average, "retest"
            elif cycle == "retest":
                phi, cycle = phi * GAMMA if average <= average_before else phi, "normal"
            elif f_min == f_min_before:
                phi, cycle = phi * GAMMA, "test"
            rises, length, f_min_before = 0, 0, f_min
        return 0.0 if phi < epsilon else _ratio(f - (1 - phi) * f_min, g)

    return eta


def _ratio(gap: float, g: np.ndarray) -> float:
    return gap / (g @ g) if (g @ g) else 0.0  # no subgradient: w is optimal


def iterates(evaluate: Evaluate, n_weights: int, rule: StepRule, max_steps: int) -> Iterator[tuple[np.ndarray, float, bool]]:
    """Yield (w_t, f(w_t), is it the last) from w₁ = 0; w_t changes in place afterwards."""
    w = np.zeros(n_weights)
    for t in range(1, max_steps + 1):
        f, g = evaluate(w)
        eta = rule(w, f, g)
        last = not eta > 0.0 or t == max_steps
        yield w, f, last
        if last:
            return
        w -= eta * g


def walk(
    evaluate: Evaluate, n_weights: int, break_even: Callable[[np.ndarray], float], max_steps: int = MAX_STEPS
) -> dict[str, dict[str, list]]:
    """Return of each algorithm ‖w_t − w*‖ and f(w_t) at each t, and (t, break-even) at each tenth and at the last.

    PROBE* and IDEAL stop where f(w_t) ≤ f(w*), and after as many steps as PROBE took. IDEAL's η is at least that of PROBE*, by
    convexity.
    """
    w_star, f_star = np.zeros(n_weights), math.inf
    for w, f, _ in iterates(evaluate, n_weights, probe_steps(), max_steps):
        if f < f_star:
            w_star[:], f_star = w, f
    f_star, _ = evaluate(w_star)
    rules: dict[str, StepRule] = {
        "PROBE": probe_steps(),
        "PROBE*": lambda w, f, g: _ratio(f - f_star, g),
        "IDEAL": lambda w, f, g: _ratio(g @ (w - w_star), g) if f > f_star else 0.0,
    }
    results: dict[str, dict[str, list]] = {}
    for name, rule in rules.items():
        trace = results[name] = {"distance": [], "f": [], "break_even": []}
        n_steps = max_steps if name == "PROBE" else len(results["PROBE"]["f"])
        for t, (w, f, last) in enumerate(iterates(evaluate, n_weights, rule, n_steps), start=1):
            trace["distance"].append(float(np.linalg.norm(w - w_star)))
            trace["f"].append(f)
            if t % EVERY == 0 or last:
                trace["break_even"].append((t, break_even(w)))
    return results


def walk_label(data: Path, run: Path, label: str) -> dict[str, dict[str, list]]:
    """Walk one label of a run without an intercept; see `walk`."""
    lam = float(hpcml.Model(run / "model.h5").attrs["lambda"])
    with hpcml.Dataset(data) as dataset:
        number = dataset.label_names().index(label)
        X, test = dataset.matrix("train"), dataset.matrix("test").astype(np.float64)
        y, truth = (dataset.labels(split)[:, [number]] for split in ("train", "test"))

    def break_even(w: np.ndarray) -> float:
        return float(hpcml.evaluate_scores((test @ w)[:, None], truth).values["break_even"][0])

    evaluate = HingeObjective(X, 2 * y.toarray().ravel().astype(np.float64) - 1, lam)
    return walk(evaluate, X.shape[1], break_even)


def walked(study: PaperStudy) -> tuple[dict[str, dict[str, dict[str, list]]], tuple[Path, ...]]:
    """Walk three headings (the first, the middle and the last of the rare ones); return the walks by heading, and pictures."""
    rows, _, every = mesh.headings(study)
    headings = every[:1] if study.quick else list(dict.fromkeys((every[0], every[len(every) // 2], every[-1])))
    run = study.folder / "probe"
    study.run("train", "probe", rows.train, "-o", run, "--no-bias", "--lambda", mesh.LAMBDA, *flags("--label", headings))
    results = study.compute_once("walks", *(partial(walk_label, rows.train, run, name) for name in headings))
    pictures = [study.folder / f"{safe(name)}.png" for name in headings]
    for name, traces, picture in zip(headings, results, pictures, strict=True):
        draw(picture, name, traces)
    return dict(zip(headings, results, strict=True)), tuple(pictures)


STYLES = {
    "PROBE": {"color": BLUE, "linestyle": "-", "linewidth": 1.8, "zorder": 4},
    "PROBE*": {"color": VERMILION, "linestyle": "--", "linewidth": 1.6, "zorder": 3},
    "IDEAL": {"color": GREEN, "linestyle": "-.", "linewidth": 1.6, "zorder": 2},
}


def draw(path: Path, label: str, traces: Mapping[str, Mapping[str, list]]) -> None:
    """Draw figures 1 to 3 for one label."""
    with drawn(path, 12, 11.5) as figure:
        panels: list[Axes] = list(figure.subplots(3, sharex=True))
        for name, trace in traces.items():
            steps = range(1, len(trace["f"]) + 1)
            panels[0].plot(steps, trace["distance"], label=name, **STYLES[name])
            panels[1].plot(steps, trace["f"], **STYLES[name])
            panels[2].plot(*zip(*trace["break_even"], strict=True), marker="o", markersize=4, **STYLES[name])
        every = [f for trace in traces.values() for f in trace["f"]]
        if 0 < 10 * min(every) < max(every):
            panels[1].set_yscale("log")
        panels[0].set(title="1  Distance to w*", ylabel=r"$\|w_t - w^*\|$", ylim=(0, None), xlim=(0, None))
        panels[1].set(title="2  Objective on the training rows", ylabel="$f(w_t)$")
        panels[2].set(title="3  Break-even on the test rows", ylabel="break-even", xlabel="iteration t")
        panels[0].legend(title=label).get_title().set(parse_math=False)


def figure_1(study: PaperStudy) -> Finding:
    """The distance to w* at each step of three algorithms; how often it grows."""
    walks, pictures = walked(study)
    numbers: dict[str, dict[str, float]] = {}
    for name, walk in walks.items():
        ways = {algorithm: walk[algorithm]["distance"] for algorithm in ALGORITHMS}
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
        "PROBE* and IDEAL approach w* at every step: the distance never grows",
        lambda numbers: all(row["steps away"] == 0 for name in ALGORITHMS[1:] for row in ending(numbers, f": {name}")),
    ),
    Claim(
        "IDEAL is at least as near to w* as PROBE* at every step that both make",
        lambda numbers: all(row["IDEAL as near, %"] == 100 for row in ending(numbers, ": PROBE*")),
    ),
    Claim(
        "PROBE sometimes moves away from w*: for at least one heading",
        lambda n: any(row["steps away"] > 0 for row in ending(n, ": PROBE")),
    ),
    Claim(
        "PROBE sometimes converges faster than PROBE*: for at least one heading it is the first within a tenth of ‖w*‖",
        lambda n: any(_steps(ours) < _steps(star) for ours, star in zip(ending(n, ": PROBE"), ending(n, ": PROBE*"), strict=True)),
    ),
)


def figure_2(study: PaperStudy) -> Finding:
    """The objective at each step of PROBE; how often it rises."""
    walks, pictures = walked(study)
    numbers = {}
    for name, walk in walks.items():
        f, distance = (walk["PROBE"][what] for what in ("f", "distance"))
        steps = list(zip(pairwise(f), pairwise(distance), strict=True))
        rises = [b < a for (before, after), (a, b) in steps if after > before]
        row = {"iterations": len(f), "first f": f[0], "least f": min(f), "rises": len(rises), "rises nearer to w*": sum(rises)}
        numbers[name] = {what: float(value) for what, value in row.items()}
    return Finding(numbers, pictures=pictures)


FIGURE_2 = (
    Claim("f rises repeatedly: at least ten times for each heading", lambda n: all(row["rises"] >= 10 for row in n.values())),
    Claim(
        "f also rises where w approaches w*: at some steps for each heading",
        lambda n: all(row["rises nearer to w*"] > 0 for row in n.values()),
    ),
)


def figure_3(study: PaperStudy) -> Finding:
    """The break-even on test rows at every tenth step of PROBE."""
    walks, pictures = walked(study)
    numbers = {}
    for name, walk in walks.items():
        values = [value for _, value in walk["PROBE"]["break_even"] if not math.isnan(value)]
        numbers[name] = {"at 10": values[0], "half-way": values[len(values) // 2], "best": max(values), "last": values[-1]}
    return Finding(numbers, pictures=pictures)


FIGURE_3 = (
    Claim(
        "BE rises steadily for two of three headings: the last is at most 0.01 below the best, and above the value at step 10",
        lambda n: sum(row["best"] - row["last"] <= 0.01 and row["last"] > row["at 10"] for row in n.values()) >= 2,
    ),
    Claim(
        "BE declines only slightly after an early maximum: by at most 0.05",
        lambda n: all(row["best"] - row["last"] <= 0.05 for row in n.values()),
    ),
)
