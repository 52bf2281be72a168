"""PSBML near the margin, compared with mean shift and with an SVM (Kamath et al. 2018, section 5).

In both synthetic sets (`large_margin`) one coordinate of a point, its position, separates the classes. Results are JSON values:
numbers by row and column, curves as lists of x and y.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import hpcml
from hpcml import mpi
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.problem import TorusProblem
from hpcml.methods.psbml.selection import Population, finite_range, selection_weights
from hpcml.methods.psbml.synchronous import Synchronous
from hpcml.methods.psbml.torus import Torus
from hpcml.methods.psbml.train import make_problem
from hpcml.model import learner as learners
from hpcml.slices import StopCheck
from launch.lab.papers.large_margin import SETS, Mixture, Weighting, modes

GRID, NEIGHBOURHOOD, REPLACE = "3x3", "C9", 0.2  # as in the paper
DEVIATION = 0.3  # s of the weighting function, in parts of the largest distance of a training row from the boundary
COMPONENTS = 5  # of a class's mixture
NEAR = 0.1  # what is called near the boundary
BANDS = (0.0, 0.1, 0.2, 0.4, np.inf)  # of distance from the boundary
BINS = 30
HARD = 0.1  # the share of the rows that are called hard
COSTS = tuple(2.0**power for power in range(-5, 16, 2))  # that cross-validation chooses from: those of LIBSVM's guide
FOLDS = 5


class MarginSizes(NamedTuple):
    rows: int = 2000  # of which a tenth validates
    cycles: int = 50
    grid_runs: int = 5  # of PSBML, and of mixtures on the grid, with other draws
    runs: int = 30  # of mixtures without a grid, as in the paper
    seeds: int = 10  # of sets and runs that the overlap with support vectors is the mean of


QUICK = MarginSizes(300, 4, 1, 1, 2)


class MarginGrid(Synchronous):
    """PSBML on one rank, whose judges can be applied to any row (experiment 1)."""

    def weights(self, positions: np.ndarray) -> np.ndarray:
        """Return the selection weights of rows as if all nodes judged them."""
        matrix = self.problem.read(positions)
        fitness = np.min([learners.confidence(self._train(node, self.cycle), matrix) for node in self.slots], axis=0)
        return selection_weights(fitness, *finite_range(fitness))


class MixtureGrid(Synchronous):
    """The same cycle with constant row weights (experiment 2). Mixtures are fitted only when modes are requested."""

    def __init__(self, problem: TorusProblem, weights: np.ndarray) -> None:
        super().__init__(problem, problem.first_slots)
        self.weights = weights

    def _train(self, node: int, cycle: int) -> object:
        return None

    def _test(self, judges: dict[int, object], around: dict[int, Population], look: StopCheck) -> dict[int, np.ndarray]:
        return {node: 1.0 - self.weights[rows.positions] for node, rows in around.items()}


class Experiments:
    """The three experiments and table 1 on the rows of a problem."""

    def __init__(self, name: str, problem: TorusProblem) -> None:
        self.problem, self.kind, self.options = problem, SETS[name], problem.options
        self.points = np.asarray(problem.read(np.arange(problem.classes.rows.size)), dtype=np.float64)
        self.position = self.kind.position(self.points)
        self.distance = np.abs(self.position - self.kind.boundary)
        self.train = np.flatnonzero(problem.start >= 0)
        self.weighting = Weighting(self.kind.project, DEVIATION * float(self.distance[self.train].max()))
        self.weights = np.exp(self.weighting.log(self.points))
        self.edges = np.linspace(self.position[self.train].min(), self.position[self.train].max(), BINS + 1)
        self.reported = (0, self.options.cycles // 2, self.options.cycles)

    def with_other_draws(self, run: int, problem: TorusProblem | None = None) -> TorusProblem:
        """Return the problem with the same rows on the same nodes and other random draws."""
        return replace(problem or self.problem, options=replace(self.options, seed=self.options.seed + run))

    def grids(self, n_runs: int) -> dict[str, Any]:
        """Return the numbers and curves of figures 3 and 6 without modes (experiments 1 and 2)."""
        slots = {
            "PSBML": [slots_of(MarginGrid(self.with_other_draws(run), self.problem.first_slots)) for run in range(n_runs)],
            "mixtures": [slots_of(MixtureGrid(self.with_other_draws(run), self.weights)) for run in range(n_runs)],
        }
        numbers: dict[str, dict[str, float]] = {name: {} for name in (*slots, "both", "two runs of PSBML")}
        histograms: dict[str, dict[str, list[float]]] = {}
        for cycle in self.reported:
            shares = {grid: [self.histogram(run[cycle]) for run in runs] for grid, runs in slots.items()}
            histograms[f"cycle {cycle}"] = {grid: np.mean(of, axis=0).tolist() for grid, of in shares.items()}
            for grid, runs in slots.items():
                near = np.mean([np.mean(self.distance[run[cycle]] < NEAR) for run in runs])
                numbers[grid][f"near, cycle {cycle}"] = 100 * float(near)
            if cycle:
                means = np.array([*histograms[f"cycle {cycle}"].values()])
                numbers["both"][f"distance, cycle {cycle}"] = variation(means[0], means[1])
                pairs = zip(shares["PSBML"], np.roll(shares["PSBML"], 1, axis=0), strict=True)
                numbers["two runs of PSBML"][f"distance, cycle {cycle}"] = float(np.mean([variation(a, b) for a, b in pairs]))
        return {"numbers": numbers, "edges": self.edges.tolist(), "histograms": histograms, "bands": self.bands(slots["PSBML"][0])}

    def histogram(self, positions: np.ndarray) -> np.ndarray:
        return np.histogram(self.position[positions], self.edges)[0] / positions.size

    def bands(self, slots: list[np.ndarray]) -> dict[str, list[float]]:
        shares = np.array([np.histogram(self.distance[positions], BANDS)[0] / positions.size for positions in slots])
        return dict(zip(band_names(BANDS), shares.T.tolist(), strict=True))

    def modes(self, positions: np.ndarray, run: int, weighting: Weighting | None) -> dict[str, np.ndarray]:
        """Return the modes (k × 2) of a mixture for each class of the rows in the slots."""
        from sklearn.mixture import GaussianMixture

        by_class = {}
        for label, what in enumerate(("negative", "positive")):
            rows = self.points[positions[self.problem.classes.of[positions] == label]]
            n = min(COMPONENTS, len(np.unique(rows, axis=0)))
            if n == 0:
                by_class[what] = np.empty((0, 2))
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted = GaussianMixture(n, reg_covar=1e-5, random_state=run).fit(rows if len(rows) > 1 else rows[[0, 0]])
            by_class[what] = modes(Mixture(fitted.weights_, fitted.means_, fitted.precisions_), weighting)
        return by_class

    def alone(self, n_runs: int) -> dict[str, Any]:
        """Return modes of mixtures of the whole set: without weights, and of rows drawn by weight (experiment 3)."""
        single = replace(self.problem, start=np.where(self.problem.start < 0, -1, 0), torus=Torus(1, 1, NEIGHBOURHOOD))
        last = [slots_of(MixtureGrid(self.with_other_draws(run, single), self.weights))[-1] for run in range(n_runs)]
        kinds = {
            "modes without weights": [self.modes(self.train, run, None) for run in range(n_runs)],
            "modes, cycle 0": [self.modes(self.train, run, self.weighting) for run in range(n_runs)],
            "modes, last cycle": [self.modes(last[run], run, self.weighting) for run in range(n_runs)],
        }
        numbers = {what: self.position_of(runs) for what, runs in kinds.items()}
        points = {what: np.concatenate([*runs[0].values()]).T.tolist() for what, runs in kinds.items()}
        return {"numbers": numbers, "points": points}

    def position_of(self, runs: Sequence[dict[str, np.ndarray]]) -> dict[str, float]:
        means = {
            label: [self.kind.position(run[label]).mean() for run in runs if len(run[label])] for label in ("negative", "positive")
        }
        numbers = {label: float(np.mean(of)) for label, of in means.items() if of}
        return numbers | {"deviation": max(float(np.std(of)) for of in means.values() if of)}

    def weight_shares(self, edges: Sequence[float]) -> list[list[float]]:
        """Return the share (%) of all weight on the grid by band of position (cycles × bands), for figure 4."""
        grid, shares = MarginGrid(self.problem, self.problem.first_slots), []
        for _ in range(self.options.cycles):
            entries = grid.step().entries
            weights = np.histogram(self.position[entries["position"]], edges, weights=entries["weight"])[0]
            shares.append((100 * (weights / weights.sum())).tolist())
        return shares

    def overlaps(self) -> list[dict[str, float]]:
        grid = MarginGrid(self.problem, self.problem.first_slots)
        for _ in range(self.options.cycles):
            grid.step()
        weights = grid.weights(self.train)
        of = self.problem.classes.of[self.train]
        vectors = support_vectors(self.points[self.train], of, self.kind.kernel, self.options.seed)
        return [overlap(weights, each)._asdict() for each in vectors]


@contextmanager
def experiments_on(name: str, path: Path, cycles: int, seed: int) -> Iterator[Experiments]:
    """Yield the experiments on a synthetic set. Uses one thread: arrays this small gain nothing from more."""
    comm, kind = mpi.self_comm(), SETS[name]
    options = PsbmlOptions(grid=GRID, neighbourhood=NEIGHBOURHOOD, replace=REPLACE, cycles=cycles, seed=seed)
    learner = learners.Learner(name, f"{kind.__module__}.{kind.__name__}", ())
    with threadpool_limits(1), hpcml.Dataset(path) as dataset:
        yield Experiments(name, make_problem(comm, dataset, learner, options))


def band_names(edges: Sequence[float]) -> list[str]:
    return [*(f"{low:g} to {high:g}" for low, high in pairwise(edges[:-1])), f"{edges[-2]:g} and more"]


def variation(a: np.ndarray, b: np.ndarray) -> float:
    """Return the total variation distance of two histograms of shares."""
    return float(np.abs(a - b).sum() / 2)


def slots_of(grid: Synchronous) -> list[np.ndarray]:
    """Return all slots of a grid, node by node, before the first cycle and after each."""
    by_cycle = [np.concatenate([*grid.slots.values()])]
    for _ in range(grid.problem.options.cycles):
        grid.step()
        by_cycle.append(np.concatenate([*grid.slots.values()]))
    return by_cycle


class SupportVectors(NamedTuple):
    """The support vectors of an SVM: positions among its training rows, α, and C."""

    positions: np.ndarray
    alphas: np.ndarray
    C: float

    @classmethod
    def of(cls, fitted: Any) -> SupportVectors:
        return cls(fitted.support_, np.abs(fitted.dual_coef_[0]), float(fitted.C))


class Overlap(NamedTuple):
    """Overlap of the hardest rows and the support vectors, as shares, and the shares expected for random rows."""

    vectors: float  # of highest α, as many as there are hard rows (or all), that are hard
    vectors_by_chance: float
    hard: float  # rows that are support vectors
    hard_by_chance: float
    n_vectors: int
    C: float


def support_vectors(X: np.ndarray, y: np.ndarray, kernel: str, seed: int) -> tuple[SupportVectors, SupportVectors]:
    """Return the SVMs of the least and the greatest C with the best cross-validated accuracy; easy classes have many such C."""
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.svm import SVC

    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    accuracies = [cross_val_score(SVC(C=C, kernel=kernel), X, y, cv=folds).mean() for C in COSTS]
    best = [C for C, accuracy in zip(COSTS, accuracies, strict=True) if accuracy >= max(accuracies) - 1e-12]
    least, greatest = (SVC(C=C, kernel=kernel).fit(X, y) for C in (best[0], best[-1]))
    return SupportVectors.of(least), SupportVectors.of(greatest)


def overlap(weights: np.ndarray, vectors: SupportVectors) -> Overlap:
    n = weights.size
    hard = hardest(weights, max(1, round(HARD * n)))
    strongest = vectors.positions[highest(vectors.alphas, hard.size)]
    return Overlap(
        vectors=share_within(strongest, hard),
        vectors_by_chance=hard.size / n,
        hard=share_within(hard, vectors.positions),
        hard_by_chance=vectors.positions.size / n,
        n_vectors=vectors.positions.size,
        C=vectors.C,
    )


def hardest(weights: np.ndarray, n: int) -> np.ndarray:
    """Return the positions of the n greatest weights; ties: the first."""
    return np.sort(np.argsort(-weights, kind="stable")[:n])


def highest(alphas: np.ndarray, n: int) -> np.ndarray:
    """Return the positions of the n greatest α and of those equal to the last (all at the bound C are equal)."""
    least = np.sort(alphas)[::-1][min(n, alphas.size) - 1]
    return np.flatnonzero(alphas >= least * (1 - 1e-9))


def share_within(members: np.ndarray, others: np.ndarray) -> float:
    return float(np.isin(members, others).mean())
