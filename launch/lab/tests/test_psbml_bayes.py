"""The papers of PSBML and naive Bayes: the rule of each claim on given numbers, and their numbers against direct calculations."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from support import make
from support.converted import converted

from hpcml.rng import bits
from launch.lab.papers import bayes, margins, psbml_noise, psbml_scale, registry, top
from launch.lab.papers.large_margin import SETS, Mixture, Weighting, modes
from launch.lab.papers.psbml_margin import AT_THE_MARGIN, BAND_NAMES, overlap_row
from launch.lab.papers.psbml_quality import TEST, VALIDATION, p_value, spread

CLAIMS = {f"{paper.name} {exhibit.name}": exhibit.claims for paper in registry.all_papers() for exhibit in paper.exhibits}


def moved(numbers, row, columns):
    return numbers | {row: numbers[row] | columns}


def table(columns, **rows):
    return {name.replace("_", ", "): dict(zip(columns, values, strict=True)) for name, values in rows.items()}


NEAR = table(("near, cycle 0", "near, cycle 25", "near, cycle 50"), PSBML=(20, 40, 60), mixtures=(20, 40, 60))
GRIDS = NEAR | {"both": {"distance, cycle 25": 0.01, "distance, cycle 50": 0.05}}
GRIDS |= {"modes without weights": {"negative": 0.1, "positive": 0.8}, "modes, last cycle": {"negative": 0.38, "positive": 0.45}}
CYCLES = ("cycle 1", "cycle 10", "cycle 25", "cycle 50")
AT, OFF = (dict(zip(CYCLES, shares, strict=True)) for shares in ((10, 15, 20, 30), (4, 4, 4, 1)))
BANDS = {f"radius {band}": AT if band in AT_THE_MARGIN else OFF for band in BAND_NAMES}
ERRORS = ("error, cycle 5", "least error", "error, cycle 30", "rows, cycle 10")
COURSES = table(ERRORS, **{"L5_Pr 0.2": (9, 6, 7, 9), "L9_Pr 0.2": (6, 5, 6, 9), "C13_Pr 0.2": (6, 5, 6, 9)})
COURSES |= table(ERRORS, **{"C9_Pr 0.2": (7, 4, 4, 8), "C9_Pr 0.1": (7, 5, 6, 9)})
COURSES |= table(ERRORS, **{"C9_Pr 0.4": (7, 5, 6, 6), "C9_Pr 0.6": (7, 6, 7, 5)})
GAIN, LOSS, NOTHING = ({"difference": difference, "p": p} for difference, p in ((0.5, 0.01), (-0.5, 0.01), (-0.5, 0.2)))
GAINS = {f"{name}, {base}": GAIN for base in ("NB", "C4.5", "Linear SVM") for name in "abc"} | {"d, Linear SVM": LOSS}
WHO = (*psbml_noise.BOOSTED, "PSBML/NB")
NOISE = {f"{share} % noise, {who}": {"impact": 2 if "PS" in who else 3} for share in (10, 20) for who in WHO}
NOISE |= {f"no noise, {who}": dict.fromkeys("abcd", 81 if "PS" in who else 80) for who in WHO}
NOISE |= {f"no noise, p of PSBML/NB and {who}": {"a": 0.01, "b": 0.01, "c": 0.01, "d": 0.2} for who in psbml_noise.BOOSTED}
# Numbers by which all claims of an exhibit hold; for each claim the row and columns by which it does not.
RULES = {
    "psbml figure-3": (
        *(GRIDS, ("both", {"distance, cycle 50": 0.11}), ("PSBML", {"near, cycle 50": 49})),
        ("modes, last cycle", {"negative": 0.2}),
    ),
    "psbml figure-4": (BANDS, (f"radius {AT_THE_MARGIN[0]}", {"cycle 50": 19}), (f"radius {BAND_NAMES[0]}", {"cycle 50": 2.1})),
    "psbml figure-7": (
        *(COURSES, ("L9, Pr 0.2", {"error, cycle 5": 9.5}), ("C9, Pr 0.2", {"error, cycle 30": 9})),
        *(("L9, Pr 0.2", {"least error": 3.9}), ("C9, Pr 0.4", {"rows, cycle 10": 8.5}), ("C9, Pr 0.1", {"least error": 3})),
    ),
    "psbml table-2": ({"C": {"3x3": 98, "5x5": 98.5}, "C, p": {"5x5": 0.05}}, ("C, p", {"5x5": 0.049}), ("C", {"7x7": 97.4})),
    "psbml table-4": (GAINS, ("c, NB", NOTHING), ("c, C4.5", LOSS), ("c, Linear SVM", NOTHING)),
    "psbml table-8": (
        *(NOISE, ("no noise, p of PSBML/NB and AdaBoostM1/NB", {"c": 0.06})),
        *((f"{share} % noise, {who}", {"impact": 1.9}) for share, who in ((10, WHO[0]), (20, WHO[1]))),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_each_claim_holds_by_its_own_rule(name):
    good, *against = RULES[name]
    for claim, (row, columns) in zip(CLAIMS[name], against, strict=True):
        assert claim.holds(good) and not claim.holds(moved(good, row, columns))
        with pytest.raises(KeyError):
            claim.holds({"another": {"column": 1.0}})


@pytest.mark.parametrize("index", range(5))
def test_the_order_of_the_methods(index):
    good = {row: {"A": 50.0 + 5 * k, "A, p": 0.01} for k, row in enumerate(bayes.ORDER)}
    claim, row, before = CLAIMS["bayes table-1"][index], bayes.ORDER[index + 1], bayes.ORDER[index]
    assert len(CLAIMS["bayes table-1"]) == 5 and claim.holds(good)
    for change in ({"A, p": 0.011}, {"A": good[before]["A"]}, {"B": 90.0, "B, p": 0.02}):
        assert not claim.holds(moved(moved(good, before, {"B": 80.0}), row, change)), change


def test_exponents_p_values_and_rows_of_table_1():
    assert psbml_scale.exponent([10, 100, 1000], [3 * n**1.3 for n in (10, 100, 1000)]) == pytest.approx(1.3)
    gains = np.subtract([1.0, 2.0, 4.0], [0.5, 1.8, 3.0])
    t = gains.mean() / (gains.std(ddof=1) / math.sqrt(3))
    assert p_value([1.0, 2.0, 4.0], [0.5, 1.8, 3.0]) == pytest.approx(1 - abs(t) / math.sqrt(2 + t * t))  # 2 d.f.
    assert p_value([1.0, 2.0], [1.0, 2.0]) == 1.0
    result = overlap_row([margins.Overlap(1.0, 0.1, 0.2, 0.02, 20, 8.0), margins.Overlap(0.8, 0.1, 0.4, 0.04, 40, 2.0)])
    shares = {"overlap": 90, "deviation": 10 * math.sqrt(2), "by chance": 10, "hard rows that are vectors": 30}
    assert result == pytest.approx(shares | {"support vectors": 30, "C": 5})


@pytest.mark.parametrize("kind", [None, "circle", "gaussians"])
def test_the_highest_mode_is_where_the_density_is_greatest(kind):
    rng, n = np.random.default_rng(3), 6
    shares, means, roots = rng.dirichlet(np.full(n, 5.0)), rng.uniform(-1, 1, (n, 2)), 0.2 * rng.normal(size=(n, 2, 2))
    covariances = roots @ roots.transpose(0, 2, 1) + 0.02 * np.eye(2)

    def density(points):
        total = np.zeros(len(points))
        for share, mean, covariance in zip(shares, means, covariances, strict=True):
            squared = np.sum((points - mean) * np.linalg.solve(covariance, (points - mean).T).T, axis=1)
            total += share * np.exp(-squared / 2) / math.sqrt(np.linalg.det(2 * math.pi * covariance))
        x, y = points.T
        away = {None: 0.0 * x, "circle": np.hypot(x, y) - 0.4, "gaussians": (x + y) / math.sqrt(2)}[kind]
        return total * np.exp(-(away**2) / (2 * 0.25**2))

    weighting = None if kind is None else Weighting(SETS[kind].project, 0.25)
    best = modes(Mixture(shares, means, np.linalg.inv(covariances)), weighting)[0]
    grid = np.array([*itertools.product(np.linspace(-1.5, 1.5, 121), repeat=2)])
    assert density(best[None])[0] >= density(grid).max() * (1 - 1e-6)
    assert np.linalg.norm(grid[np.argmax(density(grid))] - best) < 0.05


@pytest.mark.parametrize(
    ("positions", "alphas", "of_vectors", "of_hard"),
    [
        ([18, 19, 3], [9.0, 8.0, 1.0], 1.0, 1.0),  # the third is not among the highest
        ([18, 3, 4], [9.0, 8.0, 1.0], 0.5, 0.5),
        ([19], [1.0], 1.0, 0.5),
        ([3, 18, 19, 4], [5.0, 5.0, 5.0, 5.0], 0.5, 1.0),  # none is higher than another
    ],
)
def test_overlap_of_hard_rows_and_support_vectors(positions, alphas, of_vectors, of_hard):
    result = margins.overlap(np.arange(20.0), margins.SupportVectors(np.array(positions), np.array(alphas), 2.0))
    assert result == (of_vectors, 0.1, of_hard, len(positions) / 20, len(positions), 2.0)


def test_rows_and_weight_move_to_the_margin(tmp_path):
    converted("synthetic", "circle", tmp_path / "points.h5", rows=400)
    with margins.experiments_on("circle", tmp_path / "points.h5", 12, 0) as experiments:
        result, shares = experiments.grids(1), np.array(experiments.weight_shares([0.0, 0.3, 0.5, np.inf]))
        radius = np.hypot(*experiments.points[experiments.train].T)
        (vectors, _) = experiments.overlaps()
    near = [result["numbers"]["PSBML"][f"near, cycle {cycle}"] for cycle in (0, 6, 12)]
    assert near[0] == pytest.approx(100 * np.mean(abs(radius - 0.4) < 0.1)) and near == sorted(set(near))
    ours, theirs = (np.array(of) for of in result["histograms"]["cycle 12"].values())
    assert result["numbers"]["both"]["distance, cycle 12"] == pytest.approx(np.maximum(ours - theirs, 0).sum())
    np.testing.assert_allclose(shares.sum(axis=1), 100)
    assert shares[0, 1] < shares[11, 1] and vectors["vectors"] > 2 * vectors["vectors_by_chance"]


def test_noisy_rows():
    rows = np.random.default_rng(1).permutation(5000)[:4000]
    drawn = {share: psbml_noise.noisy_rows(7, share, rows) for share in (0.0, 0.1, 0.2)}
    assert all(abs(is_noisy.mean() - share) < 0.03 for share, is_noisy in drawn.items())
    assert not (drawn[0.1] & ~drawn[0.2]).any()
    assert np.array_equal(psbml_noise.noisy_rows(7, 0.1, np.sort(rows)), drawn[0.1][np.argsort(rows)])  # by the row, not its place


def test_spread_deals_each_class_evenly():
    rng = np.random.default_rng(2)
    classes, rows = rng.choice(3, 200, p=[0.6, 0.3, 0.1]), rng.permutation(1000)[:200]
    start, order = spread(classes, rows, 4, 0.15, 5), rng.permutation(200)
    assert np.array_equal(spread(classes[order], rows[order], 4, 0.15, 5), start[order])
    for label in range(3):
        of = [np.count_nonzero(start[classes == label] == index) for index in (TEST, VALIDATION, *range(4))]
        assert sum(of) == np.count_nonzero(classes == label)
        assert of[0] == of[1] == math.floor(0.15 * np.count_nonzero(classes == label) + 0.5) and max(of[2:]) - min(of[2:]) <= 1
    assert not np.array_equal(spread(classes, rows, 4, 0.15, 6), start)


@pytest.mark.parametrize("seed", range(30))
def test_precision_is_the_mean_over_all_orders_of_ties(seed):
    rng = np.random.default_rng(seed)
    scores, positive = rng.choice([-math.inf, 0.0, 1.0, math.inf], 6), rng.random(6) < 0.5
    orders = [order for order in itertools.permutations(range(6)) if (np.sort(scores)[::-1] == scores[list(order)]).all()]
    for first in range(1, 7):
        expected = np.mean([100 * positive[list(order[:first])].mean() for order in orders])
        assert top.precision_at(scores, positive, first) == pytest.approx(expected)


def slow_p(differences, seed):
    n, mean = len(differences), sum(differences) / len(differences)
    draws = (bits(seed, "bootstrap", np.arange(10_000 * n)) % np.uint64(n)).astype(int).reshape(10_000, n).tolist()
    far = sum(abs(sum(differences[k] - mean for k in draw) / n) >= abs(mean) - 1e-10 for draw in draws)
    return (far + 1) / 10_001


def test_shift_test_beside_a_loop_and_all_resamples():
    series = [[1.0, 2.0, -1.0, 3.0, 0.5], [0.0, 0.0, 1.0, 0.0, 0.0], [-4.0, -5.0, -4.5, -6.0, -3.0], [2.0] * 5]
    result = top.shift_test(np.array(series), 3)
    assert result.tolist() == [slow_p(each, 3) for each in series]
    for p, each in zip(result, series, strict=True):
        shifted = np.array([*itertools.product(np.array(each) - np.mean(each), repeat=5)])
        exact = np.mean(abs(shifted.mean(axis=1)) >= abs(np.mean(each)) - 1e-12)
        assert abs(p - exact) < 1e-3 + 4 * math.sqrt(exact * (1 - exact) / 10_000)
    assert math.isnan(top.shift_test(np.zeros((1, 5)), 0)[0]) and top.shift_test(np.array([[1.0, -1.0]]), 0)[0] == 1.0
    p = top.shift_test(np.random.default_rng(0).standard_normal((300, 40)), 0)
    assert 0.02 < (p <= 0.05).mean() < 0.1  # the test holds its level


@pytest.mark.parametrize(("n_positive", "n_negative", "first"), [(20, 60, 10), (12, 7, 3), (40, 41, 7)])
def test_splits_hold_out_the_same_share(n_positive, n_negative, first):
    has = np.random.default_rng(0).permutation(n_positive + n_negative) < n_positive
    out = top.held_out(5, has, first)
    assert out[has].sum() == first and abs(out[~has].sum() - first * n_negative / n_positive) <= 0.5
    assert not np.array_equal(out, top.held_out(6, has, first))


@pytest.mark.parametrize(
    ("counts", "least", "label"), [((9, 30, 20, 4), 5, "A"), ((9, 30, 20, 4), 10, "B"), ((12, 3, 9, 8), 1, "C")]
)
def test_the_label_is_the_most_frequent_of_the_rare(tmp_path, counts, least, label):
    Y = np.array([[row < count for count in counts] for row in range(100)], float)
    assert bayes.chosen_label(make.dataset(tmp_path / "rows.h5", np.ones((100, 2)), Y, label_names=list("ABCD")), least) == label


def test_the_nearest_rows():
    X = sp.csr_matrix(np.array([[1, 0, 0], [0.6, 0.8, 0], [0.8, 0, 0.6], [0, 1, 0], [0, 0, 1.0], [0.6, 0, 0.8]]))
    assert bayes.nearest(X, np.array([0, 4]), np.array([1, 2, 3, 5]), 3).tolist() == [2, 5, 1]
