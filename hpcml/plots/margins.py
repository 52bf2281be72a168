"""How PSBML finds the margin (Kamath et al. 2018, section 5): beside mean shift, and an SVM.

In each of two made-up sets (`large_margin`) one number of a point, its position, tells the classes
apart.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hpcml import mpi
from hpcml.conversion.convert import convert
from hpcml.conversion.options import ConvertOptions
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, nearest
from hpcml.files.table import write_table
from hpcml.files.temporary import scratch_folder
from hpcml.log import Log
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.problem import TorusProblem
from hpcml.methods.psbml.selection import Population, finite_range, selection_weights
from hpcml.methods.psbml.synchronous import Synchronous
from hpcml.methods.psbml.torus import Placement, Torus, parse_grid
from hpcml.methods.psbml.train import make_problem
from hpcml.model import learner as learners
from hpcml.plots.figure import check_outputs, told
from hpcml.plots.large_margin import SETS
from hpcml.plots.margins_drawing import DrawnCurve, Study, plot_margins
from hpcml.plots.mean_shift import Mixture, Weighting, modes
from hpcml.plots.overlap import HARD, Overlap, hardest, overlap, support_vectors
from hpcml.slices import Look

GRID, NEIGHBOURHOOD, REPLACE = "3x3", "C9", 0.2  # as in the paper
FEWEST_ROWS, MOST_ROWS = 100, 50_000
DEVIATION = 0.3  # s of the weighting function, in parts of the largest distance of a training row from the boundary
COMPONENTS = 5  # of a class's mixture
GRID_RUNS = 5  # of PSBML, and of mixtures on the grid, with other draws
RUNS = 30  # of mixtures without a grid, as in the paper
NEAR = 0.1  # what is called near the boundary
BANDS = (0.0, 0.1, 0.2, 0.4, math.inf)  # of distance from the boundary
BINS = 30
SEEDS = 10  # of sets and runs that the overlap with support vectors is the mean of
OVERLAP = "share of the support vectors (highest α) that are hard"
COVERED = "share of the hardest 10 % that are support vectors"


class MarginGrid(Synchronous):
    """PSBML on one rank, whose judges can be asked about any row (experiment 1)."""

    def weights(self, places: np.ndarray) -> np.ndarray:
        """The selection weights of rows, still on the grid or not, if all nodes judged them."""
        matrix = self.problem.read(places)
        fitness = np.min([learners.confidence(self._train(node), matrix) for node in self.slots], axis=0)
        return selection_weights(fitness, *finite_range(fitness))


class MixtureGrid(Synchronous):
    """The same cycle with rows of a weight given once for all (experiment 2).

    The mixtures of the nodes' rows do not steer it: they are made only when modes are asked for.
    """

    def __init__(self, problem: TorusProblem, weights: np.ndarray) -> None:
        """`weights` (n) of the split's rows. Local; raises DataError, OSError, MemoryError."""
        super().__init__(problem, problem.first_slots)
        self.weights = weights

    def _train(self, node: int) -> object:
        return None

    def _test(self, judges: dict[int, object], around: dict[int, Population], look: Look) -> dict[int, np.ndarray]:
        return {node: 1.0 - self.weights[rows.places] for node, rows in around.items()}


@contextmanager
def problem_of(name: str, rows: int, options: PsbmlOptions) -> Iterator[TorusProblem]:
    """A made-up set on the torus with its large margin learner. Local."""
    comm, kind = mpi.self_comm(), SETS[name]
    with scratch_folder("hpcml-margins") as folder:
        path = folder / "data.h5"
        convert(comm, "synthetic", [Path(name)], path, ConvertOptions(rows=rows, seed=options.seed), False, Log(1))
        learner = learners.Learner(name, f"{kind.__module__}.{kind.__name__}", ())
        with DataFile(path) as dataset:
            yield make_problem(comm, dataset, Torus(*parse_grid(options.grid), options.neighbourhood), learner, options)


class Experiments:
    """The three experiments and Table 1 on the rows of a problem."""

    def __init__(self, name: str, problem: TorusProblem, s: float | None) -> None:
        """`s`: see DEVIATION."""
        self.problem, self.kind, self.options = problem, SETS[name], problem.options
        self.points = np.asarray(problem.read(np.arange(problem.classes.rows.size)), dtype=np.float64)
        self.position = self.kind.position(self.points)
        self.distance = np.abs(self.position - self.kind.boundary)
        self.train = np.flatnonzero(problem.start >= 0)
        s = DEVIATION * float(self.distance[self.train].max()) if s is None else s
        self.weighting = Weighting(self.kind.project, s)
        self.weights = np.exp(self.weighting.log(self.points))
        self.edges = np.linspace(self.position[self.train].min(), self.position[self.train].max(), BINS + 1)
        self.middles = (self.edges[1:] + self.edges[:-1]) / 2
        reported = (0, self.options.cycles // 2, self.options.cycles)
        about = (name, self.kind.axis, self.kind.boundary, reported, self.train.size)
        self.study = Study(*about, self.points[self.train], self.kind.line, s, GRID_RUNS)

    def histogram(self, places: np.ndarray) -> np.ndarray:
        """The shares of slots by position (BINS)."""
        return np.histogram(self.position[places], self.edges)[0] / places.size

    def redrawn(self, run: int, problem: TorusProblem | None = None) -> TorusProblem:
        """The same rows on the same nodes, with other draws."""
        return replace(problem or self.problem, options=replace(self.options, seed=self.options.seed + run))

    def grids(self) -> None:
        """Experiments 1 and 2: figures 3 and 6."""
        study = self.study
        ours = [_slots(MarginGrid(self.redrawn(run), self.problem.first_slots)) for run in range(GRID_RUNS)]
        theirs = [_slots(MixtureGrid(self.redrawn(run), self.weights)) for run in range(GRID_RUNS)]
        grids = {"PSBML": ours, "mixtures": theirs}
        for cycle in study.reported:
            shares = {name: [self.histogram(run[cycle]) for run in runs] for name, runs in grids.items()}
            first = {} if cycle == 0 else {"cycle 0": study.panels["cycle 0"]["PSBML"]}
            study.panels[f"cycle {cycle}"] = first | {
                name: DrawnCurve(self.middles, np.mean(of, axis=0)) for name, of in shares.items()
            }
            for name, runs in grids.items():
                near = np.mean([np.mean(self.distance[run[cycle]] < NEAR) for run in runs])
                study.numbers[f"slots nearer than {NEAR} to the boundary, cycle {cycle}, {name}"] = float(near)
            if cycle:
                pairs: dict[str, Iterable[Any]] = {"PSBML and mixtures": zip(*shares.values(), strict=True)}
                pairs["two runs of PSBML"] = zip(shares["PSBML"], np.roll(shares["PSBML"], 1, axis=0), strict=True)
                pairs["the means of the runs"] = [[np.mean(of, axis=0) for of in shares.values()]]
                for what, both in pairs.items():
                    value = np.mean([np.abs(a - b).sum() / 2 for a, b in both])
                    study.numbers[f"total variation distance, cycle {cycle}, {what}"] = float(value)
        self.bands(ours[0])
        ends = np.cumsum([slots.size for slots in self.problem.first_slots.values()])[:-1]  # of the nodes' slots
        for cycle in study.reported[1:]:
            found = [self.modes(part, 0, self.weighting) for part in np.split(theirs[0][cycle], ends)]
            self.count_modes(f"modes of the nodes' mixtures, cycle {cycle}", found)

    def bands(self, slots: list[np.ndarray]) -> None:
        """The share of slots in each band of distance, cycle by cycle."""
        cycles = np.arange(len(slots), dtype=np.float64)
        shares = np.array([np.histogram(self.distance[places], BANDS)[0] / places.size for places in slots])
        names = [f"{low:g} to {high:g}" for low, high in pairwise(BANDS[:-1])] + [f"{BANDS[-2]:g} and more"]
        self.study.panels["bands"] = {name: DrawnCurve(cycles, shares[:, band]) for band, name in enumerate(names)}

    def modes(self, places: np.ndarray, run: int, weighting: Weighting | None) -> dict[str, np.ndarray]:
        """The modes (k × 2) of a mixture of the rows of each class among some slots."""
        from sklearn.mixture import GaussianMixture

        found = {}
        for label, what in enumerate(("negative", "positive")):
            rows = self.points[places[self.problem.classes.of[places] == label]]
            n = min(COMPONENTS, len(np.unique(rows, axis=0)))
            if n == 0:
                found[what] = np.empty((0, 2))
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = GaussianMixture(n, reg_covar=1e-5, random_state=run).fit(rows if len(rows) > 1 else rows[[0, 0]])
            found[what] = modes(Mixture(fitted.weights_, fitted.means_, fitted.precisions_), weighting)
        return found

    def count_modes(self, what: str, found: list[dict[str, np.ndarray]]) -> None:
        """Note mean and standard deviation over the runs of each class's mode positions."""
        for label in ("negative", "positive"):
            means = [self.kind.position(run[label]).mean() for run in found if len(run[label])]
            self.study.numbers[f"{what}, {label}: mean"] = float(np.mean(means)) if means else math.nan
            self.study.numbers[f"{what}, {label}: deviation"] = float(np.std(means)) if means else math.nan

    def alone(self) -> None:
        """Experiment 3: mixtures of the whole set, of its rows drawn by weight, without weights."""
        placement = Placement(Torus(1, 1, NEIGHBOURHOOD), 1, 0)
        single = replace(self.problem, start=np.where(self.problem.start < 0, -1, 0), placement=placement)
        last = [_slots(MixtureGrid(self.redrawn(run, single), self.weights))[-1] for run in range(RUNS)]
        kinds = {
            "without weights": [self.modes(self.train, run, None) for run in range(RUNS)],
            "weighted, cycle 0": [self.modes(self.train, run, self.weighting) for run in range(RUNS)],
            f"weighted, cycle {self.options.cycles}": [self.modes(last[run], run, self.weighting) for run in range(RUNS)],
        }
        for what, found in kinds.items():
            self.count_modes(f"modes without a grid, {what}", found)
        self.study.panels["modes"] = {what: DrawnCurve(*np.concatenate([*found[0].values()]).T) for what, found in kinds.items()}

    def weight_curves(self) -> np.ndarray:
        """Figure 4: the weights of PSBML's rows by position; those of training rows at the end."""
        grid, curves = MarginGrid(self.problem, self.problem.first_slots), {}
        shown = sorted({1, max(1, self.options.cycles // 5), *self.study.reported[1:]})
        for cycle in range(1, self.options.cycles + 1):
            entries = grid.step().entries
            if cycle in shown:
                curves[f"cycle {cycle}"] = self.mean_weights(entries["place"], entries["weight"])
        self.study.panels["mean weight"] = curves
        return grid.weights(self.train)

    def mean_weights(self, places: np.ndarray, weights: np.ndarray) -> DrawnCurve:
        """The mean weight of rows by position, where there are any."""
        where = np.clip(np.searchsorted(self.edges, self.position[places], side="right") - 1, 0, BINS - 1)
        counts, sums = (np.bincount(where, of, BINS) for of in (None, weights))
        full = counts > 0
        return DrawnCurve(self.middles[full], sums[full] / counts[full])

    def overlaps(self, weights: np.ndarray) -> list[Overlap]:
        """Table 1 for the SVMs of least and greatest C; `weights` as of `weight_curves`."""
        points = self.points[self.train]
        vectors = support_vectors(points, self.problem.classes.of[self.train], self.kind.kernel, self.options.seed)
        hard = hardest(weights, max(1, round(HARD * weights.size)))
        self.study.panels["overlap"] = {
            "hardest 10 %": DrawnCurve(*points[hard].T),
            "support vectors": DrawnCurve(*points[vectors[0].places].T),
        }
        return [overlap(weights, each) for each in vectors]


def overlaps_by_seed(name: str, rows: int, options: PsbmlOptions, first: list[Overlap], study: Study) -> None:
    """Table 1 for SEEDS sets and runs, the first of which is known."""
    found = [first]
    for run in range(1, SEEDS):
        with problem_of(name, rows, replace(options, seed=options.seed + run)) as problem:
            experiments = Experiments(name, problem, study.s)
            found.append(experiments.overlaps(experiments.weight_curves()))
    seeds = options.seed + np.arange(SEEDS, dtype=np.float64)
    for which, lines in zip(("least C", "greatest C"), zip(*found, strict=True), strict=True):
        of = dict(zip(Overlap._fields, np.array(lines, dtype=np.float64).T.copy(), strict=True))
        study.panels[f"SVM of the {which}"] = {what: DrawnCurve(seeds, values) for what, values in of.items()}
        study.numbers[f"SVM of the {which}: C, median"] = float(np.median(of["C"]))
        study.numbers[f"SVM of the {which}: support vectors, mean"] = float(of["n_vectors"].mean())
        for what, share in ((OVERLAP, "vectors"), (COVERED, "hard")):
            study.numbers[f"{what}, {which}: mean"] = float(of[share].mean())
            study.numbers[f"{what}, {which}: deviation"] = float(of[share].std(ddof=1))
            study.numbers[f"{what}, {which}: by chance"] = float(of[f"{share}_by_chance"].mean())


def _slots(grid: Synchronous) -> list[np.ndarray]:
    """All slots of a grid, node by node, before its first cycle and after each."""
    taken = [np.concatenate([*grid.slots.values()])]
    for _ in range(grid.problem.options.cycles):
        grid.step()
        taken.append(np.concatenate([*grid.slots.values()]))
    return taken


def study_set(name: str, rows: int, seed: int, cycles: int, s: float | None, log: Log) -> Study:
    """All experiments on the set `name`. Local; raises ConfigError."""
    options = PsbmlOptions(grid=GRID, neighbourhood=NEIGHBOURHOOD, replace=REPLACE, cycles=cycles, seed=seed)
    options.validate()
    if name not in SETS:
        raise ConfigError(f"no set {name!r} whose margin is known; {nearest(name, SETS)}")
    if not FEWEST_ROWS <= rows <= MOST_ROWS:
        raise ConfigError(f"--rows {rows}: expected {FEWEST_ROWS} to {MOST_ROWS}")
    if cycles < 2:
        raise ConfigError(f"--cycles {cycles}: expected at least 2")
    if s is not None and not 0 < s < math.inf:
        raise ConfigError(f"--s {s}: expected a number above 0")
    if seed > 2**32 - SEEDS:
        raise ConfigError(f"--seed {seed}: expected at most {2**32 - SEEDS:,}, for {SEEDS} seeds from this one on are used")
    # Threads are of no use for arrays this small, and harm where cores are busy.
    with threadpool_limits(1), problem_of(name, rows, options) as problem:
        experiments = Experiments(name, problem, s)
        log(f"{name}: PSBML and mixtures on the torus, {GRID_RUNS} times each")
        experiments.grids()
        log(f"{name}: mixtures of the whole set, {RUNS} times")
        experiments.alone()
        log(f"{name}: PSBML on the torus, its hardest rows and SVMs; training rows: {experiments.train.size:,}")
        first = experiments.overlaps(experiments.weight_curves())
    with threadpool_limits(1):  # one set at a time, for each has the scratch folder
        log(f"{name}: hardest rows and SVMs of {SEEDS - 1} other seeds")
        overlaps_by_seed(name, rows, options, first, experiments.study)
    return experiments.study


def plot_set(name: str, output: Path, rows: int, seed: int, cycles: int, s: float | None, force: bool, log: Log) -> str:
    """Study a set, draw it, write it as CSV; in words. Local; raises ConfigError, DataError."""
    check_outputs(output, force, [])
    study = study_set(name, rows, seed, cycles, s, log)
    plot_margins(study, output)
    write_study(study, output.with_suffix(".csv"))
    return told(study, output)


def write_study(study: Study, path: Path) -> None:
    """The numbers and every curve of the picture. Local; raises DataError."""
    rows: list[tuple[object, ...]] = [("panel", "series", "x", "y")]
    rows += [("numbers", what, "", value) for what, value in study.numbers.items()]
    for panel, curves in study.panels.items():
        for series, curve in curves.items():
            rows += [(panel, series, float(x), float(y)) for x, y in zip(curve.x, curve.y, strict=True)]
    write_table(path, rows)
