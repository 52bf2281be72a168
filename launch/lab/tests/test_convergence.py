"""The traces of PROBE, PROBE* and IDEAL against the paper's statements, and the files they are shown in."""

import csv
import math
import sys

import numpy as np
import pytest
from support.oracles import hinge_objective, hinge_pass, probe

from hpcml.errors import ConfigError, DataError
from hpcml.methods.probe.convergence import Trace, probe_limit, trace_all, trace_ideal, trace_probe, trace_probe_star
from hpcml.plots.figure import check_picture, plot_convergence, write_traces_csv

LAM = 0.01
SEEDS = range(5)
START = {".png": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF-", ".svg": b"<?xml"}


class Problem:
    """The hinge objective of a random problem that no plane separates, and PROBE's limit on it.

    `visited` are the w that it was evaluated at, `squares` its ‖g‖² there.
    """

    def __init__(self, seed, n_rows=60, d=8):
        rng = np.random.default_rng(seed)
        self.X, self.d, self.visited, self.squares = rng.normal(size=(n_rows, d)), d, [], []
        self.sign = np.where(self.X @ rng.normal(size=d) + rng.normal(size=n_rows) > 0.5, 1.0, -1.0)
        self.w_star, self.f_star = probe_limit(self.evaluate, d)

    def evaluate(self, w):
        _, summed, _ = hinge_pass(self.X, self.sign, w)
        g = LAM * w + summed / self.sign.size
        self.visited.append(w.copy())
        self.squares.append(g @ g)
        return hinge_objective(self.X, self.sign, w, LAM), g

    def traces(self):
        return trace_all(self.evaluate, self.w_star, lambda w: float(w[0]))


@pytest.mark.parametrize("seed", SEEDS)
def test_probe_is_algorithm_1_as_printed(seed):
    problem = Problem(seed)
    ours = trace_probe(problem.evaluate, problem.w_star, lambda w: 0.0)
    f_min, _, theirs = probe(problem.evaluate, problem.d)
    np.testing.assert_allclose(ours.f[:60], [f for f, _, _ in theirs[:60]], rtol=1e-9)
    assert len(ours.f) > 60
    assert problem.f_star == pytest.approx(f_min, rel=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_probe_passes_through_its_limit(seed):
    problem = Problem(seed)
    ours = problem.traces()[0]
    best = int(np.argmin(ours.f))
    assert ours.f[best] == problem.f_star == problem.evaluate(problem.w_star)[0]
    assert ours.distance[best] == 0.0
    assert ours.distance[0] == pytest.approx(np.linalg.norm(problem.w_star))


@pytest.mark.parametrize("seed", SEEDS)
def test_only_probe_moves_away_from_the_limit(seed):
    ours, *idealised = Problem(seed).traces()
    assert np.diff(ours.distance).max() > 0
    for trace in idealised:
        assert np.diff(trace.distance).max() <= 1e-12 * trace.distance[0], trace.name
        assert trace.distance[-1] < trace.distance[0] / 2, trace.name


@pytest.mark.parametrize("seed", SEEDS)
def test_probe_star_gains_what_equation_4_promises(seed):
    problem = Problem(seed)
    trace = trace_probe_star(problem.evaluate, problem.w_star, problem.f_star, 40, lambda w: 0.0)
    squares = np.square(trace.distance)
    promised = np.square(np.array(trace.f) - problem.f_star) / problem.squares[-len(trace.f) :]  # Δ²/‖g‖²
    assert (squares[:-1] - squares[1:] >= promised[:-1] - 1e-12 * squares[0]).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_ideal_takes_the_nearest_point_of_the_line(seed):
    problem = Problem(seed)
    trace = trace_ideal(problem.evaluate, problem.w_star, problem.f_star, 25, lambda w: 0.0)
    for w, after in zip(problem.visited[-len(trace.f) :], trace.distance[1:], strict=False):
        _, g = problem.evaluate(w)
        etas = np.linspace(0, 2 * np.linalg.norm(w - problem.w_star) / np.linalg.norm(g), 2001)
        away = np.linalg.norm(w - np.outer(etas, g) - problem.w_star, axis=1)
        assert after <= away.min() * (1 + 1e-12)
        assert after == pytest.approx(away.min(), rel=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
def test_ideal_is_ahead_after_the_step_that_both_take_from_the_same_point(seed):
    _, star, ideal = Problem(seed).traces()
    assert ideal.distance[0] == star.distance[0]
    assert ideal.distance[1] <= star.distance[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_idealised_algorithms_stop_at_the_minimum_or_after_as_many_steps_as_probe(seed):
    problem = Problem(seed)
    ours, *idealised = problem.traces()
    for trace in idealised:
        assert len(trace.f) == len(ours.f) or (len(trace.f) < len(ours.f) and trace.f[-1] <= problem.f_star)
        assert min(trace.f[:-1]) > problem.f_star


@pytest.mark.parametrize("trace", [trace_probe_star, trace_ideal])
@pytest.mark.parametrize(
    ("points", "w_star"), [([(3.0, [1, 0]), (2.5, [0, 1]), (2.0, [1, 0])], (-5.0, -5.0)), ([(3.0, [0, 0])], (1.0, 1.0))]
)
def test_idealised_algorithms_stop_at_the_minimum_or_where_the_subgradient_vanishes(trace, points, w_star):
    calls = iter([(f, np.array(g, float)) for f, g in points])
    result = trace(lambda w: next(calls), np.array(w_star), 2.0, 100, lambda w: 0.5)
    assert result.f == [f for f, _ in points]
    assert next(calls, None) is None
    assert result.break_even == [(len(points), 0.5)]


@pytest.mark.parametrize(("max_steps", "measured"), [(1, [1]), (9, [9]), (10, [10]), (25, [10, 20, 25]), (30, [10, 20, 30])])
def test_break_even_is_measured_every_10_steps_and_at_the_last(max_steps, measured):
    problem = Problem(0)
    problem.visited.clear()
    trace = trace_probe(problem.evaluate, problem.w_star, lambda w: float(w.sum()), max_steps=max_steps)
    visited = problem.visited
    assert len(trace.f) == len(trace.distance) == len(visited) == max_steps
    assert trace.break_even == [(t, float(visited[t - 1].sum())) for t in measured]


def test_arguments_are_left_alone():
    problem = Problem(1)
    w_star = problem.w_star.copy()
    problem.traces()
    assert (problem.w_star == w_star).all()


def test_csv_has_a_line_per_algorithm_and_step(tmp_path):
    traces = Problem(2).traces()
    write_traces_csv(traces, tmp_path / "traces.csv")
    with (tmp_path / "traces.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for trace in traces:
        mine = [row for row in rows if row["algorithm"] == trace.name]
        assert [int(row["step"]) for row in mine] == list(range(1, len(trace.f) + 1))
        assert [float(row["distance"]) for row in mine] == trace.distance
        assert [float(row["f"]) for row in mine] == trace.f
        assert [(int(row["step"]), float(row["break_even"])) for row in mine if row["break_even"]] == trace.break_even
    assert len(rows) == sum(len(trace.f) for trace in traces)


def test_csv_leaves_an_undefined_break_even_empty(tmp_path):
    write_traces_csv([Trace("PROBE", [1.0, 0.5], [1.0, 0.25], [(2, math.nan)])], tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "algorithm,step,distance,f,break_even\nPROBE,1,1.0,1.0,\nPROBE,2,0.5,0.25,\n"


def test_a_file_that_cannot_be_written_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match="cannot write"):
        write_traces_csv([], tmp_path / "missing" / "t.csv")


@pytest.mark.parametrize("suffix", sorted(START))
def test_pictures_are_valid_and_equal_for_equal_traces(tmp_path, suffix):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'hpcml[plot]')")
    traces = Problem(3).traces()
    pictures = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for picture in pictures:
        plot_convergence("rats, wistar", traces, picture)
    contents = [picture.read_bytes() for picture in pictures]
    assert contents[0].startswith(START[suffix])
    assert contents[0] == contents[1]
    assert sorted(tmp_path.iterdir()) == pictures  # nothing left over


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("label", ["costs $5 \\frac_^{ and $", "word " * 100, "", "a\nb"])
def test_any_label_and_an_undefined_break_even_can_be_drawn(tmp_path, label):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'hpcml[plot]')")
    traces = trace_all(Problem(4).evaluate, Problem(4).w_star, lambda w: math.nan)
    plot_convergence(label, traces, tmp_path / "p.PNG")
    plot_convergence(label, [Trace("PROBE", [0.0], [0.0], [(1, math.nan)])], tmp_path / "q.png")
    assert (tmp_path / "p.PNG").read_bytes().startswith(START[".png"])


@pytest.mark.parametrize("name", ["curves.xyz", "curves", ".png"])
def test_unknown_suffixes_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match=r"ends in \.pdf, \.png, \.svg .*pip install 'hpcml\[plot\]'"):
        plot_convergence("earn", [], tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_missing_matplotlib_is_one_sentence(tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install 'hpcml\[plot\]'"):
        check_picture(tmp_path / "curves.png")
