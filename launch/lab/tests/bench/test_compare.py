"""Comparing methods: the table says what the run folders hold, and nothing is overwritten or trained twice by accident."""

import math

import numpy as np
import pytest
from support.judged import judged
from support.make import dataset, random_data
from support.tables import table
from support.training import compare, shared, train

from hpcml.bench import compare as module
from hpcml.bench.compare import MethodLine, read_lines, write_csv
from hpcml.bench.shared_options import choose_methods, minimisers
from hpcml.errors import ConfigError, DataError, InUseError
from hpcml.evaluation import evaluate
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.mpi.memory import forget_peak, peak_mib
from hpcml.run.lock import FolderLock

TWO = ("probe", "pegasos")
OPTIONS = {"max_steps": 30, "bias": False}


@pytest.fixture
def data(tmp_path):
    return dataset(tmp_path / "data.h5", *random_data(3, 120, 30, 4), splits={"train": np.arange(80), "test": np.arange(80, 120)})


def run(data, folder, methods=TWO, options=OPTIONS, **more):
    return compare(None, data, folder, methods, options, log=Log(1), **more)


def test_every_line_says_what_training_and_evaluating_gave(data, tmp_path):
    result = run(data, tmp_path / "out")
    assert [line.method for line in result.lines] == list(TWO)
    for line in result.lines:
        options = OPTIONS if line.method == "probe" else {"max_steps": 30}
        alone = train(line.method, None, data, tmp_path / line.method, options, log=Log(1))
        model = Model(alone.model)
        assert (tmp_path / "out" / line.method / "model.h5").read_bytes() == alone.model.read_bytes()
        found = judged(model, data, "test")
        assert (line.average_precision, line.break_even) == (found.macro("average_precision"), found.macro("break_even"))
        assert (line.iterations, line.f) == (alone.mean_steps, model.labels["f_min"].mean())
        assert line.seconds > 0
        assert line.ranks == 1
        assert line.peak_mib > 10
    text = str(result)
    assert "trained on 80 rows (train), judged on 40 (test)" in text
    assert "; hinge loss, λ = " in text and ", without an intercept\n" in text
    assert "pegasos: with an intercept all the same" in text
    rows = table(tmp_path / "out" / "compare.csv")
    assert [float(row["average_precision"]) for row in rows] == [line.average_precision for line in result.lines]


def test_a_folder_has_one_comparison_at_a_time(data, tmp_path):
    lock = FolderLock(tmp_path / "out", Log(1))
    lock.acquire()
    with pytest.raises(InUseError, match="out is in use by process"):
        run(data, tmp_path / "out")
    assert not (tmp_path / "out" / "probe").exists()
    lock.release()
    run(data, tmp_path / "out")
    assert not lock.path.exists()


def test_degenerate_labels_count_in_no_mean(tmp_path):
    X, Y = random_data(3, 60, 20, 2)
    Y = Y.tolil()
    Y[:, 1] = 0
    data = dataset(tmp_path / "data.h5", X, Y.tocsr())
    result = run(data, tmp_path / "out", ("probe",), {"max_steps": 30, "min_positives": 0})
    model = Model(tmp_path / "out" / "probe" / "model.h5")
    assert result.lines[0].iterations == model.labels["steps"][0] > 0
    assert result.lines[0].f == model.labels["f_min"][0]
    assert "MAP and break-even: 1, those that all has" in str(result)


def test_existing_runs_are_refused_before_anything_is_trained(data, tmp_path):
    (tmp_path / "out" / "pegasos").mkdir(parents=True)
    (tmp_path / "out" / "pegasos" / "mine.txt").write_text("precious")
    for more, words in (
        ({}, "exists already"),
        ({"force": True}, "holds other files"),
        ({"force": True, "resume": True}, "only one"),
    ):
        with pytest.raises(ConfigError, match=words):
            run(data, tmp_path / "out", **more)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["pegasos"]
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="is a file"):
        run(data, tmp_path / "file")
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "compare.csv").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        run(data, tmp_path / "table")


def test_resume_trains_only_what_is_missing_and_keeps_what_the_rest_took(data, tmp_path):
    out = tmp_path / "out"
    first = run(data, out, ("probe",)).lines[0]
    stamp = (out / "probe" / "model.h5").stat().st_mtime_ns
    both = run(data, out, resume=True)
    assert (out / "probe" / "model.h5").stat().st_mtime_ns == stamp
    assert both.lines[0] == first
    assert both.lines[1].seconds > 0
    assert "not known" not in str(both)
    (out / "compare.csv").unlink()
    later = run(data, out, ("probe",), resume=True)
    assert math.isnan(later.lines[0].seconds)
    assert later.lines[0].average_precision == first.average_precision
    assert "nan" not in str(later)
    assert "not known" in str(later)


def test_failing_while_judging_again_loses_no_costs(data, tmp_path, monkeypatch):
    before = run(data, tmp_path / "out")

    def fail(*_):
        raise DataError("no")

    calls = iter([evaluate, fail])
    monkeypatch.setattr(module, "evaluate", lambda *arguments: next(calls)(*arguments))
    with pytest.raises(DataError, match="no"):
        run(data, tmp_path / "out", resume=True)
    assert list(read_lines(tmp_path / "out" / "compare.csv").values()) == before.lines


def test_another_training_in_the_folder_is_not_credited_with_the_old_costs(data, tmp_path):
    run(data, tmp_path / "out", ("probe",))
    train("probe", None, data, tmp_path / "out" / "probe", {"max_steps": 20}, force=True, log=Log(1))
    line = run(data, tmp_path / "out", ("probe",), {"max_steps": 20}, resume=True).lines[0]
    assert math.isnan(line.seconds)


def test_force_starts_anew(data, tmp_path):
    run(data, tmp_path / "out")
    again = run(data, tmp_path / "out", options={"max_steps": 20}, force=True)
    assert again.lines[1].iterations == 20


def test_peaks_that_cannot_begin_anew_are_called_so(data, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "forget_peak", lambda: False)
    assert "since the program began" in str(run(data, tmp_path / "out", ("probe",)))


def test_a_peak_begins_anew():
    if not forget_peak():
        pytest.skip("this system does not let the peak of memory begin anew")
    block = np.ones(1 << 24)
    high = peak_mib()
    del block
    assert forget_peak()
    assert peak_mib() < high - 100


def test_methods_are_chosen_by_name_or_by_loss():
    assert choose_methods((), shared(loss="hinge")) == list(minimisers())
    assert choose_methods((), shared(loss="huber")) == ["probe"]
    assert choose_methods(("pegasos", "probe", "pegasos"), shared(loss="hinge")) == ["pegasos", "probe"]
    with pytest.raises(ConfigError, match="did you mean 'pegasos'"):
        choose_methods(("pegasus",), shared())
    with pytest.raises(ConfigError, match="--loss huber: pegasos minimises hinge only"):
        choose_methods(("probe", "pegasos"), shared(loss="huber"))


def test_table_is_read_as_it_was_written(tmp_path):
    lines = [
        MethodLine("probe", 0.1, 0.2, 30.5, 1.25, 4, 200.5, 1 / 3),
        MethodLine("pegasos", math.nan, math.nan, 500.0, math.nan, 0, math.nan, 0.5),
    ]
    write_csv(tmp_path / "t.csv", lines)
    read = read_lines(tmp_path / "t.csv")
    assert read["probe"] == lines[0]
    assert read["pegasos"].iterations == 500.0
    assert math.isnan(read["pegasos"].seconds)
    assert "nan" not in (tmp_path / "t.csv").read_text()
    for text in ("", "a,b\n1,2\n", "method,f\nprobe,x\n", "\x00\x01"):
        (tmp_path / "other.csv").write_text(text)
        assert read_lines(tmp_path / "other.csv") == {}
    assert read_lines(tmp_path / "none.csv") == {}


def test_a_method_with_another_penalty_keeps_its_own_loss_and_defaults(data, tmp_path):
    result = run(data, tmp_path / "out", ("dual", "elastic-net"), {"bias": False})
    for line, options in zip(result.lines, ({"loss": "hinge", "bias": False}, {}), strict=True):
        alone = train(line.method, None, data, tmp_path / line.method, options, log=Log(1))
        assert (tmp_path / "out" / line.method / "model.h5").read_bytes() == alone.model.read_bytes()
    assert [line.objective.split(" = ")[0] for line in result.lines] == ["hinge loss, λ", "logistic loss, λ₁"]
    text = str(result)
    assert "; each method's own objective, without an intercept\n" in text and result.lines[1].objective in text
    assert "elastic-net: with an intercept all the same" in text
    assert "values of different objectives cannot be compared" in text
    again = run(data, tmp_path / "out", ("dual", "elastic-net"), resume=True, options={})
    assert again.lines == result.lines
    alone = run(data, tmp_path / "one", ("elastic-net",), {"loss": "squared", "l1": "0.1/m", "lam": "0.5/m", "drop": 0.01})
    assert str(alone).split("; ")[1].startswith("squared loss, λ₁ = 0.00125, λ₂ = 0.00625, with")
    options = {"lam": "0.5/m", "drop": 0.01}  # --l1 is that of the run: 0.11's default
    assert run(data, tmp_path / "one", ("elastic-net",), options, resume=True).lines == alone.lines


@pytest.mark.parametrize(
    ("methods", "given", "words"),
    [
        (("elastic-net",), {"loss": "hinge"}, "--loss hinge: elastic-net minimises logistic, squared only"),
        (("dual",), {"loss": "squared"}, "--loss squared: dual minimises hinge, logistic, squared-hinge only"),
        (("dual", "elastic-net"), {"loss": "huber"}, "--loss huber: dual minimises hinge, logistic, squared-hinge only"),
        (("dual", "elastic-net"), {"positive_weight": "2"}, "--positive-weight is for the method dual, not for elastic-net"),
        (("dual",), {"l1": "1/m"}, "--l1 1/m has no effect on dual, it is for elastic-net"),
        (("elastic-net",), {"bias": False}, "--no-bias has no effect on elastic-net"),
    ],
)
def test_options_of_methods_with_different_penalties(methods, given, words):
    assert choose_methods(("elastic-net", "probe"), shared(loss="logistic")) == ["elastic-net", "probe"]
    assert choose_methods((), shared(loss="logistic")) == ["probe", "dual", "elastic-net"]
    assert choose_methods((), shared(loss="squared")) == ["elastic-net"]
    with pytest.raises(ConfigError, match=words):
        choose_methods(methods, shared(**given))
