"""PSBML on any number of ranks: the textbook cycle, the bits of one rank, the asynchronous mode, and `on_cycle`."""

import csv
from functools import cache

import numpy as np
import pytest
from mpi4py import MPI
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC
from support.make import by_one_rank, class_data, dataset_for_all
from support.methods import AtLook
from support.oracles_psbml import psbml_cycle
from support.training import changed, same_as_alone, train

from hpcml import PsbmlClassifier, mpi
from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError, Interrupted
from hpcml.methods.psbml.asynchronous import Asynchronous
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.run import TorusRun
from hpcml.methods.psbml.snapshot import HISTORY
from hpcml.methods.psbml.synchronous import Synchronous
from hpcml.methods.psbml.torus import parse_grid
from hpcml.methods.psbml.train import make_problem
from hpcml.model.classifier import ClassifierModel
from hpcml.model.decision_tree import DecisionTree
from hpcml.model.learner import parse_learner

pytestmark = pytest.mark.mpi

LEARNERS = {
    "tree": (("tree",), lambda seed: DecisionTree(min_samples_leaf=2)),
    "bayes": (("sklearn.naive_bayes.GaussianNB",), lambda seed: GaussianNB()),
    "svm": (("linear-svm",), lambda seed: LinearSVC(random_state=seed)),
}
OFTEN_OTHER = {"bytes_sent", "seconds"}  # columns that depend on the ranks


@pytest.fixture
def comm():
    return MPI.COMM_WORLD


def write(comm, path, n_rows, n_features, n_classes, density=0.4, seed=3):
    X, y, Y = class_data(seed, n_rows, n_features, n_classes, density)
    dataset_for_all(comm, path, X, Y)
    return X, y


def problem_of(comm, opened, options):
    return make_problem(comm, opened, parse_learner(options.base), options)


def history(run):
    with (run / "history.csv").open() as file:
        return list(csv.DictReader(file))


def rank_independent(run):
    return [{key: value for key, value in line.items() if key not in OFTEN_OTHER} for line in history(run)]


def gathered(comm, slots):
    return {
        node: values for of_rank in comm.allgather({n: s.tolist() for n, s in slots.items()}) for node, values in of_rank.items()
    }


CASES = [
    ("3x3", "C9", "tree", 2),
    ("2x2", "C13", "tree", 4),
    ("2x2", "L5", "svm", 2),
    ("5x1", "L9", "tree", 3),
    ("4x3", "C9", "svm", 2),
]
N_CYCLES, N_ROWS, N_FEATURES = 3, 90, 6


@cache
def textbook(grid, kind, learner, n_classes, begin):
    X, y, _ = class_data(3, N_ROWS, N_FEATURES, n_classes, 0.4)
    X = X if learner == "svm" else X.toarray().astype(np.float64 if learner == "bayes" else np.float32)
    slots, found = {node: list(rows) for node, rows in enumerate(begin)}, []
    for cycle in range(1, N_CYCLES + 1):
        slots, *facts = psbml_cycle(X, y, slots, LEARNERS[learner][1], *parse_grid(grid), kind, 0.5, 11, cycle)
        found.append((slots, *facts))
    return found


@pytest.mark.parametrize(("grid", "kind", "learner", "n_classes"), CASES)
def test_cycles_are_those_of_the_textbook(comm, mpi_tmp_path, grid, kind, learner, n_classes):
    write(comm, mpi_tmp_path / "data.h5", N_ROWS, N_FEATURES, n_classes)
    options = PsbmlOptions(base=LEARNERS[learner][0], grid=grid, neighbourhood=kind, replace=0.5, seed=11)
    with DataFile(mpi_tmp_path / "data.h5") as opened:
        problem = problem_of(comm, opened, options)
        assert problem.dense == (learner != "svm")
        cycles = Synchronous(problem, problem.first_slots)
        begin = gathered(comm, cycles.slots)
        states = tuple(tuple(begin[node]) for node in sorted(begin))
        expected = by_one_rank(comm, lambda: textbook(grid, kind, learner, n_classes, states))
        for slots, fitness, low, high in expected:
            snapshot = cycles.step()
            assert gathered(comm, cycles.slots) == slots
            assert (snapshot.facts.low, snapshot.facts.high) == (low, high)
            for node in problem.torus.nodes:
                entries = snapshot.entries[snapshot.entries["node"] == node]
                assert entries["position"].tolist() == sorted(set(slots[node]))
                for position, weight in zip(entries["position"], entries["weight"], strict=True):
                    least = min(value for row, value in zip(slots[node], fitness[node], strict=True) if row == position)
                    assert weight == np.float32(1.0 - (least - low) / (high - low) if high > low else 1.0)


def test_classifier_of_one_class_is_ignored(comm, mpi_tmp_path):
    X = np.random.default_rng(0).standard_normal((24, 3)).astype(np.float32)
    y = np.arange(24) < 2  # two rows have the label, so at most two of four nodes have both classes
    dataset_for_all(comm, mpi_tmp_path / "data.h5", X, y[:, None])
    options = PsbmlOptions(base=("tree", "min_samples_leaf=1"), grid="4x1", neighbourhood="L5", replace=0.5, seed=2)
    with DataFile(mpi_tmp_path / "data.h5") as opened:
        problem = problem_of(comm, opened, options)
        cycles = Synchronous(problem, problem.first_slots)
        slots = gathered(comm, cycles.slots)
        assert any(len(set(y[rows])) == 1 for rows in slots.values())
        for cycle in range(1, 4):

            def make(seed):
                return DecisionTree()

            slots, _, low, high = psbml_cycle(X, y.astype(int), slots, make, 4, 1, "L5", 0.5, 2, cycle)
            facts = cycles.step().facts
            assert gathered(comm, cycles.slots) == slots
            assert comm.allgather((facts.low, facts.high)) == [(low, high)] * comm.size


@pytest.mark.parametrize(
    ("grid", "kind", "base", "n_classes"),
    [
        ("3x3", "C9", ("tree",), 3),
        ("2x2", "L5", ("linear-svm",), 2),
        ("1x1", "C9", ("kernel-nb",), 2),
        ("2x1", "C13", ("sklearn.naive_bayes.GaussianNB",), 3),
    ],
)
def test_model_has_the_bytes_of_one_rank(comm, mpi_tmp_path, grid, kind, base, n_classes):
    write(comm, mpi_tmp_path / "data.h5", 150, 6, n_classes)
    options = PsbmlOptions(base=base, grid=grid, neighbourhood=kind, cycles=5)
    reports = same_as_alone(comm, "psbml", mpi_tmp_path / "data.h5", mpi_tmp_path, options)
    assert len({(each.cycle, each.validation_error, each.n_margin_rows) for each in reports}) == 1
    ranks, one = history(mpi_tmp_path / "ranks"), history(mpi_tmp_path / "alone")
    assert list(ranks[0]) == list(HISTORY)
    assert [int(line["cycle"]) for line in ranks] == [0, 1, 2, 3, 4, 5]
    assert rank_independent(mpi_tmp_path / "ranks") == rank_independent(mpi_tmp_path / "alone")
    for here, there in zip(ranks[1:], one[1:], strict=True):
        assert int(there["bytes_sent"]) == 0
        assert (int(here["bytes_sent"]) > 0) == (comm.size > 1 and grid != "1x1")
    assert {line["auc"] == "nan" for line in ranks} == {n_classes > 2}


def test_signal_during_assessment_loses_no_cycle(comm, mpi_tmp_path, monkeypatch):
    write(comm, mpi_tmp_path / "data.h5", 150, 6, 3)
    options, signals, judge = (
        PsbmlOptions(grid="2x2", cycles=6 * comm.size, asynchronous=True),
        AtLook(10**9),
        TorusRun._assess_cycle,
    )

    def judge_and_a_signal(self, cycle, entries):
        judged = judge(self, cycle, entries)
        if cycle >= 2 * comm.size:  # in the second batch, between other assessments
            signals.left = 0
        return judged

    with monkeypatch.context() as patch:
        patch.setattr(TorusRun, "_assess_cycle", judge_and_a_signal)
        with pytest.raises(Interrupted, match=f"of {6 * comm.size} cycles done"):
            train("psbml", comm, mpi_tmp_path / "data.h5", mpi_tmp_path / "run", options, signals=signals)
    assert 0 < len(history(mpi_tmp_path / "run")) <= 6 * comm.size
    train("psbml", comm, mpi_tmp_path / "data.h5", mpi_tmp_path / "run", options, resume=True)
    assert [int(line["cycle"]) for line in history(mpi_tmp_path / "run")] == list(range(6 * comm.size + 1))


@pytest.mark.parametrize(("size", "kind"), [("3x3", "C9"), ("2x1", "L5")])
def test_asynchronous_run_completes_its_cycles(comm, mpi_tmp_path, monkeypatch, size, kind):
    grids, begin = [], Asynchronous.__init__
    monkeypatch.setattr(Asynchronous, "__init__", lambda self, *args: (grids.append(self), begin(self, *args))[1])
    write(comm, mpi_tmp_path / "data.h5", 200, 6, 3, density=1.0)
    options = PsbmlOptions(grid=size, neighbourhood=kind, cycles=4, asynchronous=True)
    report = train("psbml", comm, mpi_tmp_path / "data.h5", mpi_tmp_path / "run", options)
    (grid,) = grids
    assert sorted(gathered(comm, grid.slots)) == list(range(np.prod(parse_grid(size))))
    done = min((grid.table[node, 0] for node in grid.slots), default=0)
    assert max(comm.allgather(done)) >= 4  # the fastest rank with all its nodes
    lines = history(mpi_tmp_path / "run")
    assert [int(line["cycle"]) for line in lines] == [0, 1, 2, 3, 4]
    assert report.validation_error == min(float(line["error"]) for line in lines)
    assert report.validation_error < 0.5  # guessing among three classes: 0.67
    for line in lines[1:]:
        assert 0 < int(line["distinct_rows"]) <= 180
        assert float(line["f_min"]) <= float(line["f_max"])
    model = ClassifierModel(report.model)
    assert model.margin_rows.size == report.n_margin_rows
    for node, slots in grid.slots.items():  # the number of slots does not change, and the store has every row
        assert slots.size == grid.problem.first_slots[node].size
        grid.store.take(slots)
        assert (grid.problem.start[slots] >= 0).all()


@pytest.mark.more("ranks", one_in=2)
@pytest.mark.usefixtures("in_step")  # else one rank may complete all cycles before the signal reaches it
@pytest.mark.parametrize("size", ["2x2", "2x1"])
def test_asynchronous_run_is_interrupted_and_finishes(comm, mpi_tmp_path, monkeypatch, size):
    write(comm, mpi_tmp_path / "data.h5", 200, 6, 2, density=1.0)
    options = PsbmlOptions(grid=size, neighbourhood="L5", cycles=60, asynchronous=True)
    run = mpi_tmp_path / "run"
    for turn, n in enumerate((12, 1, 12)):  # number of steps of the last rank, which has nodes
        signals = AtLook(n + 1 if comm.rank == comm.size - 1 else 10**6)
        with pytest.raises(Interrupted, match="a signal arrived"):
            train("psbml", comm, mpi_tmp_path / "data.h5", run, options, resume=turn > 0, signals=signals)
    with pytest.raises(Interrupted, match="the time limit is reached"):
        train("psbml", comm, mpi_tmp_path / "data.h5", run, changed(options, time_limit=1e-9), resume=True)
    if comm.rank == 0:
        with pytest.raises(Interrupted):
            train("psbml", None, mpi_tmp_path / "data.h5", run, changed(options, time_limit=1e-9), resume=True)
    comm.Barrier()
    monkeypatch.undo()  # the ranks no longer run in step
    report = train("psbml", comm, mpi_tmp_path / "data.h5", run, options, resume=True)
    lines = history(run)
    assert [int(line["cycle"]) for line in lines] == list(range(61))
    assert report.validation_error == min(float(line["error"]) for line in lines) < 0.5


def test_asynchronous_run_ends_at_a_plateau(comm, mpi_tmp_path):
    write(comm, mpi_tmp_path / "data.h5", 200, 6, 2, density=1.0)
    options = PsbmlOptions(grid="3x2", cycles=500, patience=3, asynchronous=True)
    report = train("psbml", comm, mpi_tmp_path / "data.h5", mpi_tmp_path / "run", options)
    lines = history(mpi_tmp_path / "run")
    errors = [float(line["error"]) for line in lines[1:]]
    assert len(errors) - 1 - errors.index(min(errors)) == 3
    assert report.validation_error == min(float(line["error"]) for line in lines)
    assert len(lines) < 500


def test_a_failing_assessment_ends_all_ranks(comm, mpi_tmp_path, monkeypatch):
    write(comm, mpi_tmp_path / "data.h5", 200, 6, 2, density=1.0)
    judge, options = TorusRun._assess_cycle, PsbmlOptions(grid="3x2", cycles=200, asynchronous=True)

    def failing(self, cycle, entries):
        if cycle >= 1:
            raise ConfigError(f"cycle {cycle}: too many rows")
        return judge(self, cycle, entries)

    with monkeypatch.context() as patch:
        patch.setattr(TorusRun, "_assess_cycle", failing)
        with pytest.raises(ConfigError, match="too many rows"):
            train("psbml", comm, mpi_tmp_path / "data.h5", mpi_tmp_path / "run", options)
    train(
        "psbml", comm, mpi_tmp_path / "data.h5", mpi_tmp_path / "again", changed(options, cycles=3)
    )  # no message of the failed run is left


CYCLES = 4


def rows_of_nodes(comm, X, y):
    cycles = []
    own = np.arange(len(y)) % comm.size == comm.rank if comm.size > 1 else np.ones(len(y), bool)
    order = np.concatenate([np.flatnonzero(np.arange(len(y)) % comm.size == rank) for rank in range(comm.size)])
    PsbmlClassifier(cycles=CYCLES, comm=comm).fit(X[own], y[own], on_cycle=cycles.append)
    found = []
    for cycle in cycles:
        parts = comm.allgather((cycle.cycle, dict(cycle.rows), dict(cycle.weights)))
        assert len({number for number, *_ in parts}) == 1
        found.append([{node: values for part in parts for node, values in part[k].items()} for k in (1, 2)])
    return order, found


def test_on_cycle_sees_the_same_rows_on_any_number_of_ranks(comm):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 3)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(int)
    order, together = rows_of_nodes(comm, X, y)
    _, alone = rows_of_nodes(mpi.self_comm(), X[order], y[order])
    assert len(together) == len(alone) == CYCLES
    for (rows, weights), (expected_rows, expected_weights) in zip(together, alone, strict=True):
        assert sorted(rows) == list(range(9))
        for node in rows:
            assert (rows[node] == expected_rows[node]).all()
            assert (weights[node] == expected_weights[node]).all()
            assert (weights[node] >= 0).all() and (weights[node] <= 1).all()
        n_slots = sum(of.size for of in rows.values())
        assert n_slots == sum(of.size for of in together[0][0].values())  # the number of slots is constant
    assert max(of.max() for of in together[-1][1].values()) > 0


def test_an_error_in_on_cycle_ends_all_ranks(comm):
    def fail(cycle):
        if comm.rank == comm.size - 1 and cycle.cycle == 2:
            raise ValueError("on purpose")

    X = np.arange(40.0).reshape(-1, 1)
    with pytest.raises(Exception, match="on purpose"):
        PsbmlClassifier(cycles=CYCLES, comm=comm).fit(X, np.arange(40) % 2, on_cycle=fail)
