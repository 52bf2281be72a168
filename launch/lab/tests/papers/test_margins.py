"""The rows near PSBML's margin: mean shift, large margin learners, support vectors, and the experiments with them."""

import math

import numpy as np
import pytest
from hpcml.papers import large_margin, margins, overlap
from hpcml.papers.mean_shift import Mixture, Weighting, climb, log_density, modes
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from support.converted import converted


def mixture(seed, n, d=2, spread=1.0):
    """A random mixture: its shares, means and covariances; and a Mixture of them."""
    rng = np.random.default_rng(seed)
    shares, means = rng.dirichlet(np.full(n, 5.0)), spread * rng.uniform(-1, 1, (n, d))
    roots = 0.2 * rng.normal(size=(n, d, d)) + 0.1 * np.eye(d)
    covariances = roots @ roots.transpose(0, 2, 1) + 0.01 * np.eye(d)
    return shares, means, covariances, Mixture(shares, means, np.linalg.inv(covariances))


def textbook_density(shares, means, covariances, kind, s, points):
    """W(x) Σ π N(x; μ, Σ) of each point, term by term."""
    total = np.zeros(len(points))
    for share, mean, covariance in zip(shares, means, covariances, strict=True):
        away = points - mean
        squared = np.sum(away * np.linalg.solve(covariance, away.T).T, axis=1)
        total += share * np.exp(-squared / 2) / math.sqrt(np.linalg.det(2 * math.pi * covariance))
    if kind is None:
        return total
    x, y = points.T
    away = abs(np.hypot(x, y) - 0.4) if kind == "circle" else abs(x + y) / math.sqrt(2)
    return total * np.exp(-(away**2) / (2 * s**2))


@pytest.mark.parametrize("kind", [None, "circle", "gaussians"])
@pytest.mark.parametrize("seed", range(4))
def test_the_highest_mode_is_where_the_density_is_greatest(kind, seed):
    shares, means, covariances, mixed = mixture(seed, 6)
    weighting = None if kind is None else Weighting(large_margin.SETS[kind].project, 0.25)
    best = modes(mixed, weighting)[0]
    steps = np.linspace(-1.5, 1.5, 121)
    grid = np.array([(x, y) for x in steps for y in steps])
    densities = textbook_density(shares, means, covariances, kind, 0.25, grid)
    (at_best,) = textbook_density(shares, means, covariances, kind, 0.25, best[None])
    assert at_best >= densities.max() * (1 - 1e-6)
    assert np.linalg.norm(grid[np.argmax(densities)] - best) < 0.05


@pytest.mark.parametrize("kind", [None, "circle", "gaussians"])
def test_a_step_never_lowers_the_density_and_the_end_is_a_fixed_point(kind, monkeypatch):
    *_, mixed = mixture(7, 8, spread=1.5)
    weighting = None if kind is None else Weighting(large_margin.SETS[kind].project, 0.3)
    x = np.random.default_rng(1).uniform(-2, 2, (50, 2))
    ends = climb(mixed, weighting, x)
    monkeypatch.setattr("hpcml.papers.mean_shift.MAX_STEPS", 1)
    for _ in range(30):
        before, x = log_density(mixed, weighting, x), climb(mixed, weighting, x)
        assert (log_density(mixed, weighting, x) >= before - 1e-9).all()
    np.testing.assert_allclose(climb(mixed, weighting, ends), ends, atol=2e-6)


def test_modes_of_one_gaussian_near_a_line_are_the_weighted_average_of_equation_4():
    mixed = Mixture(np.ones(1), np.array([[1.0, 1.0]]), np.eye(2)[None] / 0.5**2)
    (mode,) = modes(mixed, Weighting(large_margin.LineLearner.project, 0.5))
    np.testing.assert_allclose(mode, [0.5, 0.5], atol=1e-5)  # half-way between the mean and the line: equal deviations
    (mode,) = modes(mixed)
    np.testing.assert_allclose(mode, [1.0, 1.0])


@pytest.mark.parametrize("name", sorted(large_margin.SETS))
def test_projections_lie_on_the_boundary_and_nothing_there_is_nearer(name):
    kind = large_margin.SETS[name]
    X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
    on_it = kind.project(X)
    np.testing.assert_allclose(kind.position(on_it), kind.boundary, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(X - on_it, axis=1), np.abs(kind.position(X) - kind.boundary), atol=1e-12)
    if name == "circle":
        assert kind.project(np.zeros((1, 2))).tolist() == [[0.4, 0.0]]


def test_large_margin_learners_halve_the_gap():
    circle = large_margin.CircleLearner().fit(np.array([[0.0, 0.5], [0.3, 0.0], [0.1, 0.1], [0.9, 0.0]]), np.array([1, 0, 0, 1]))
    assert circle.threshold_ == pytest.approx(0.4)
    assert circle.predict(np.array([[0.5, 0.5], [0.1, 0.0]])).tolist() == [1, 0]
    line = large_margin.LineLearner().fit(np.array([[1.0, 1.0], [-0.5, -0.5], [2.0, 2.0], [-3.0, 0.0]]), np.array([1, 0, 1, 0]))
    assert line.threshold_ == pytest.approx(0.25 * math.sqrt(2))
    assert line.decision_function(np.array([[1.0, 1.0]])) == pytest.approx(0.75 * math.sqrt(2))


def test_overlap_of_sets():
    assert overlap.hardest(np.array([0.1, 0.9, 0.5, 0.9, 0.2]), 3).tolist() == [1, 2, 3]
    assert overlap.highest(np.array([1.0, 0.2, 1.0, 1.0, 0.5]), 2).tolist() == [0, 2, 3]  # equal ones are in together
    assert overlap.highest(np.array([1.0, 0.2]), 5).tolist() == [0, 1]
    assert overlap.share_within(np.array([1, 2, 3, 4]), np.array([2, 4, 6])) == 0.5


@pytest.mark.parametrize(
    ("places", "alphas", "of_vectors", "of_hard"),
    [
        ([18, 19, 3], [9.0, 8.0, 1.0], 1.0, 1.0),  # the third is not among the highest
        ([18, 3, 4], [9.0, 8.0, 1.0], 0.5, 0.5),
        ([19], [1.0], 1.0, 0.5),
        ([3, 18, 19, 4], [5.0, 5.0, 5.0, 5.0], 0.5, 1.0),  # none is higher than another
    ],
)
def test_overlap_of_hard_rows_and_support_vectors(places, alphas, of_vectors, of_hard):
    found = overlap.overlap(np.arange(20.0), overlap.SupportVectors(np.array(places), np.array(alphas), 2.0))
    assert found == (of_vectors, 0.1, of_hard, len(places) / 20, len(places), 2.0)


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_the_svm_is_the_most_accurate_one_of_cross_validation(noise, monkeypatch):
    """scikit-learn's grid search finds the same; of classes with a gap several C are the best."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (200, 2))
    X = X[abs(X.sum(axis=1)) > 0.4]
    monkeypatch.setattr(overlap, "COSTS", overlap.COSTS[:5])  # large ones take long
    y = ((X.sum(axis=1) > 0) ^ (rng.random(len(X)) < noise)).astype(int)
    least, greatest = overlap.support_vectors(X, y, "linear", 5)
    search = GridSearchCV(SVC(kernel="linear"), {"C": overlap.COSTS}, cv=StratifiedKFold(5, shuffle=True, random_state=5)).fit(X, y)
    accuracies = search.cv_results_["mean_test_score"]
    best = [C for C, accuracy in zip(overlap.COSTS, accuracies, strict=True) if np.isclose(accuracy, accuracies.max(), atol=1e-9)]
    assert (search.best_params_["C"], best[-1]) == (least.C, greatest.C)
    assert noise > 0 or least.C < greatest.C
    for found in (least, greatest):
        twin = SVC(C=found.C, kernel="linear").fit(X, y)
        assert np.array_equal(found.places, twin.support_)
        assert np.array_equal(found.alphas, abs(twin.dual_coef_[0]))


@pytest.fixture(scope="module", params=sorted(large_margin.SETS))
def experiments(request, tmp_path_factory):
    """The experiments on 600 points of a set, 20 cycles."""
    path = tmp_path_factory.mktemp("set") / "points.h5"
    converted("synthetic", request.param, path, rows=600)
    with margins.experiments_on(request.param, path, 20, 0) as experiments:
        yield experiments


def test_rows_move_to_the_margin_on_both_grids(experiments):
    found = experiments.grids(2)
    for grid in ("PSBML", "mixtures"):
        first, half, last = (found["numbers"][grid][f"near, cycle {cycle}"] for cycle in (0, 10, 20))
        assert 0 < first < half < last <= 100
        for cycle in (0, 10, 20):
            assert sum(found["histograms"][f"cycle {cycle}"][grid]) == pytest.approx(1.0)
    ours, theirs = found["histograms"]["cycle 20"].values()
    distance = sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / 2
    assert found["numbers"]["both"]["distance, cycle 20"] == pytest.approx(distance)
    assert 0 < distance < 0.35
    assert sum(shares[-1] for shares in found["bands"].values()) == pytest.approx(1.0)


def test_the_first_histogram_is_that_of_the_points(experiments):
    """Counted one by one from the rows of the file."""
    found = experiments.grids(1)
    x, y = experiments.points[experiments.train].T
    position = np.hypot(x, y) if experiments.kind is large_margin.CircleLearner else (x + y) / math.sqrt(2)
    near = np.abs(position - experiments.kind.boundary) < 0.1
    assert found["numbers"]["PSBML"]["near, cycle 0"] == pytest.approx(100 * near.mean())
    low, high = found["edges"][3:5]
    share = found["histograms"]["cycle 0"]["mixtures"][3]
    assert share == pytest.approx(np.mean((position >= low) & (position < high)))


def test_weights_move_the_modes_to_the_margin(experiments):
    numbers = experiments.alone(3)["numbers"]
    for label in ("negative", "positive"):
        kinds = ("modes without weights", "modes, cycle 0", "modes, last cycle")
        off = [abs(numbers[kind][label] - experiments.kind.boundary) for kind in kinds]
        assert off[0] > off[1] > off[2]


def test_weight_moves_to_the_margin(experiments):
    middle = experiments.kind.boundary
    shares = experiments.weight_shares([-np.inf, middle - 0.1, middle + 0.1, np.inf])
    assert shares.shape == (20, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert shares[0, 1] < shares[9, 1] < shares[19, 1]


def test_the_hardest_rows_and_the_support_vectors_overlap(experiments):
    """Table 1. The smaller of the two sets lies in the larger one, far beyond chance."""
    for found in experiments.overlaps():
        chances = found["vectors_by_chance"], found["hard_by_chance"]
        assert chances == pytest.approx((0.1, found["n_vectors"] / experiments.train.size), rel=0.01)
        assert max(found["vectors"], found["hard"]) >= 0.9
        assert found["vectors"] > 2 * chances[0] and found["hard"] > 2 * chances[1]


def test_very_few_rows_and_a_lost_class_are_no_accident(tmp_path):
    path = tmp_path / "few.h5"
    converted("synthetic", "circle", path, rows=100, seed=3)
    with margins.experiments_on("circle", path, 40, 3) as experiments:
        assert set(experiments.grids(1)["numbers"]) == {"PSBML", "mixtures", "both", "two runs of PSBML"}
        assert all(experiments.alone(1)["numbers"].values())
    one_class = {"negative": np.zeros((2, 2)), "positive": np.empty((0, 2))}
    assert set(experiments.position_of([one_class])) == {"negative", "deviation"}
