"""Pictures of PSBML runs, mean shift, and the experiments on the margin."""

import math

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from support.make import class_data, dataset
from support.tables import table
from support.training import train

from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.plots import large_margin, margins, overlap
from hpcml.plots import psbml as analysis
from hpcml.plots.mean_shift import Mixture, Weighting, climb, log_density, modes

START = {".pdf": b"%PDF", ".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml"}
QUIET = Log(1)


@pytest.fixture(scope="module", autouse=True)
def _drawing():
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'hpcml[plot]')")


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
    monkeypatch.setattr("hpcml.plots.mean_shift.MAX_STEPS", 1)
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


def few_runs(patch, without_grid):
    for name, number in (("RUNS", without_grid), ("GRID_RUNS", 2), ("SEEDS", 2)):
        patch.setattr(margins, name, number)


@pytest.fixture(scope="module", params=sorted(large_margin.SETS))
def study(request):
    with pytest.MonkeyPatch.context() as patch:
        few_runs(patch, 3)
        return margins.study_set(request.param, 600, 0, 20, None, QUIET)


def test_rows_move_to_the_margin_on_both_grids(study):
    for grid in ("PSBML", "mixtures"):
        near = "slots nearer than 0.1 to the boundary"
        first, half, last = (study.numbers[f"{near}, cycle {cycle}, {grid}"] for cycle in (0, 10, 20))
        assert first < half < last
        for cycle in (10, 20):
            assert study.panels[f"cycle {cycle}"][grid].y.sum() == pytest.approx(1.0)
    assert study.numbers["total variation distance, cycle 20, the means of the runs"] < 0.35


def test_weights_move_the_modes_to_the_margin(study):
    for label in ("negative", "positive"):
        off = [
            abs(study.numbers[f"modes without a grid, {what}, {label}: mean"] - study.boundary)
            for what in ("without weights", "weighted, cycle 0", "weighted, cycle 20")
        ]
        assert off[0] > off[1] > off[2]


def test_the_hardest_rows_and_the_support_vectors_overlap(study):
    """Table 1. The smaller of the two sets lies in the larger one, far beyond chance."""
    numbers = study.numbers
    for which in ("least C", "greatest C"):
        shares = [numbers[f"{what}, {which}: mean"] for what in (margins.OVERLAP, margins.COVERED)]
        chances = [numbers[f"{what}, {which}: by chance"] for what in (margins.OVERLAP, margins.COVERED)]
        n_vectors = numbers[f"SVM of the {which}: support vectors, mean"]
        assert chances == pytest.approx([0.1, n_vectors / study.n_rows], rel=0.01)
        assert max(shares) >= 0.9
        assert all(share > 2 * chance for share, chance in zip(shares, chances, strict=True))
        by_seed = study.panels[f"SVM of the {which}"]
        assert np.mean(by_seed["vectors"].y) == pytest.approx(shares[0])
        assert np.mean(by_seed["hard"].y) == pytest.approx(shares[1])
        assert by_seed["C"].x.tolist() == [0, 1]


def test_a_study_is_drawn_and_written_whole(study, tmp_path):
    margins.plot_margins(study, tmp_path / "a.png")
    margins.write_study(study, tmp_path / "a.csv")
    assert (tmp_path / "a.png").read_bytes().startswith(START[".png"])
    lines = table(tmp_path / "a.csv")
    assert {line["panel"] for line in lines} == {"numbers", *study.panels}
    found = {line["series"]: float(line["y"]) for line in lines if line["panel"] == "numbers"}
    assert found == {what: pytest.approx(value, nan_ok=True) for what, value in study.numbers.items()}
    shown = [(float(line["x"]), float(line["y"])) for line in lines if (line["panel"], line["series"]) == ("cycle 20", "PSBML")]
    assert shown == list(zip(*map(np.ndarray.tolist, study.panels["cycle 20"]["PSBML"]), strict=True))
    assert str(study).count("\n") + 1 == len(study.numbers)


def test_very_few_rows_and_a_lost_class_are_no_accident(tmp_path, monkeypatch):
    few_runs(monkeypatch, 2)
    output = tmp_path / "few.svg"
    output.touch()
    said = margins.plot_set("circle", output, margins.FEWEST_ROWS, 3, 40, 0.05, True, QUIET)
    assert said.endswith(f"numbers: {tmp_path / 'few.csv'}")
    assert output.read_bytes().startswith(START[".svg"])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"name": "circel"}, "did you mean 'circle'"),
        ({"rows": 99}, "--rows 99: expected 100 to 50000"),
        ({"cycles": 1}, "--cycles 1: expected at least 2"),
        ({"cycles": 0}, "--cycles 0"),
        ({"seed": -1}, "--seed -1"),
        ({"seed": 2**32 - 9}, "--seed 4294967287: expected at most 4,294,967,286, for 10 seeds"),
        ({"s": 0.0}, "--s 0.0: expected a number above 0"),
        ({"output": "a.jpg"}, "cannot draw a .jpg"),
        ({"output": "old.png"}, "old.csv exists already"),
    ],
)
def test_studies_that_make_no_sense_are_refused(tmp_path, changed, words):
    (tmp_path / "old.csv").touch()
    given = {"name": "circle", "output": "a.png", "rows": 200, "seed": 0, "cycles": 4, "s": None, "force": False} | changed
    with pytest.raises(ConfigError) as raised:
        margins.plot_set(**given | {"output": tmp_path / given["output"]}, log=QUIET)
    assert words in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["old.csv"]


def trained(folder, n_features, grid="3x2"):
    """A run on random data, its training rows not the first of the file."""
    X, _, Y = class_data(1, 300, n_features, 2)
    data = dataset(folder / "data.h5", X, Y, splits={"train": np.arange(10, 300)})
    options = PsbmlOptions(grid=grid, cycles=4, neighbourhood="L5")
    train("psbml", mpi.self_comm(), data, folder / "run", options, log=QUIET)
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on two features."""
    return trained(tmp_path_factory.mktemp("two"), 2)


def test_the_csv_holds_the_nodes_and_the_margin_rows(run, tmp_path):
    said = analysis.plot_run(None, run, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(START[".png"])
    model = analysis.ClassifierModel(run / "model.h5")
    assert f"{model.margin_rows.size} of 290 rows are margin data, from cycle {model.cycle} (validation error" in said
    nodes, margin = ([line for line in table(tmp_path / "a.csv") if line["kind"] == kind] for kind in ("node", "margin row"))
    assert [(line["x"], line["y"]) for line in nodes] == [(str(x), str(y)) for y in range(2) for x in range(3)]
    assert [int(line["margin_rows"]) for line in nodes] == model.attrs["node_rows"].tolist()
    assert [float(line["weight"]) for line in nodes] == model.attrs["node_weights"].tolist()
    assert [int(line["number"]) for line in margin] == model.margin_rows.tolist()
    np.testing.assert_allclose([float(line["weight"]) for line in margin], model.margin_weights)
    X = class_data(1, 300, 2, 2)[0].toarray().astype(np.float32)
    assert [[float(line["x"]), float(line["y"])] for line in margin] == X[model.margin_rows].tolist()


@pytest.mark.parametrize(("n_features", "grid"), [(1, "1x1"), (2, "2x12"), (30, "3x3")])
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_any_width_and_torus_can_be_drawn_and_equal_runs_look_equal(tmp_path, n_features, grid, suffix):
    run = trained(tmp_path, n_features, grid)
    pictures = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for picture in pictures:
        analysis.plot_run(None, run, picture)
    first, second = (picture.read_bytes() for picture in pictures)
    assert first.startswith(START[suffix])
    assert first == second
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_of_many_rows_a_sample_is_drawn(run, tmp_path, monkeypatch):
    monkeypatch.setattr(analysis, "MOST_ROWS", 50)
    analysis.plot_run(None, run, tmp_path / "a.png")
    drawn = [int(line["number"]) for line in table(tmp_path / "a.csv") if line["kind"] == "margin row"]
    assert len(drawn) == 50
    assert drawn == sorted(drawn)
    assert np.isin(drawn, analysis.ClassifierModel(run / "model.h5").margin_rows).all()


def other_run(tmp_path, method, finished=True):
    """A folder that says it is of another method, or has no model."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "config.toml").write_text(f'method = "{method}"\ndata = "x.h5"\n')
    if finished:
        (folder / "model.h5").touch()
    return folder


def strange(folder, n_features):
    """A dataset of other rows."""
    X, _, Y = class_data(1, 100, n_features, 2)
    return dataset(folder / "strange.h5", X, Y, splits={"train": np.arange(100)})


def with_damaged_history(run, folder):
    for name in ("config.toml", "model.h5"):
        (folder / name).write_bytes((run / name).read_bytes())
    (folder / "history.csv").write_text("cycle,error\n1,0.5\n")
    return folder


def unfinished(_, folder):
    return {"run": other_run(folder, "psbml", finished=False)}


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        (lambda _, tmp: {"run": tmp}, ConfigError, "is no run folder (it has no config.toml)"),
        (lambda _, tmp: {"run": other_run(tmp, "probe")}, ConfigError, "is a run of probe; the picture is about psbml"),
        (unfinished, ConfigError, "is not finished (it has no model.h5); continue it with --resume first"),
        (lambda _, tmp: (tmp / "a.csv").touch(), ConfigError, "exists already; choose another name or use --force"),
        (lambda run, _: {"output": run / "history.png", "force": True}, ConfigError, "history.csv is also an input"),
        (lambda _, tmp: {"output": tmp / "a.gif"}, ConfigError, "cannot draw a .gif"),
        (lambda _, tmp: {"output": tmp / "no" / "a.png"}, DataError, "does not exist; create it first"),
        (lambda _, tmp: {"data": strange(tmp, 3)}, DataError, "has 3 features but"),
        (lambda _, tmp: {"data": strange(tmp, 2)}, DataError, "was trained on other data"),
        (lambda _, tmp: {"data": tmp / "gone.h5"}, DataError, "cannot read"),
        (lambda run, tmp: {"run": with_damaged_history(run, tmp)}, DataError, "damaged history"),
    ],
)
def test_runs_that_cannot_be_drawn_are_refused(run, tmp_path, changed, error, words):
    given = {"run": run, "output": tmp_path / "a.png"} | (changed(run, tmp_path) or {})
    with pytest.raises(error) as raised:
        analysis.plot_run(None, **given)
    assert words in str(raised.value)
    assert not (tmp_path / "a.png").exists()
