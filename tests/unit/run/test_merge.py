import json
import shutil

import numpy as np
import pytest
import support.training as training
from support.make import dataset, random_data
from support.tables import table
from support.training import asked, merge

from hpcml import mpi
from hpcml.errors import ConfigError, DataError
from hpcml.log import Log
from hpcml.methods.registry import METHODS
from hpcml.model.linear import Model
from hpcml.run.folder import read_config
from hpcml.run.merge import merge_sweep

SELF = mpi.self_comm()
QUIET = Log(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return dataset(tmp_path_factory.mktemp("data") / "data.h5", *random_data(3, 60, 40, 7))


def train(data, run, method="probe", **options):
    training.train(method, None, data, run, options, log=QUIET)
    return run


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [train(data, folder / "whole"), *(train(data, folder / f"part{k}", label_part=f"{k}/3") for k in (1, 2, 3))]


def free_keys(method):
    return METHODS[method].free_keys


def without_seconds(run):
    return [line.rsplit(",", 2)[0] for line in (run / "history.csv").read_text().splitlines()]


def test_parts_in_any_order_give_the_run_of_all_labels(runs, tmp_path):
    whole, first, second, third = runs
    report = merge(SELF, [third, first, second], tmp_path / "joined", log=QUIET)
    assert report.endswith(": 7 labels of 3 runs")
    assert (tmp_path / "joined" / "model.h5").read_bytes() == (whole / "model.h5").read_bytes()
    assert without_seconds(tmp_path / "joined") == without_seconds(whole)
    assert read_config(tmp_path / "joined" / "config.toml") == read_config(whole / "config.toml")


@pytest.mark.parametrize("method", ["dual", "staged-bayes"])  # with one and with several weight vectors per label
def test_parts_with_dense_and_sparse_weights(tmp_path, method):
    X, Y = random_data(3, 60, 200, 7, density=0.05)
    Y = np.random.default_rng(3).random(Y.shape) < 0.5
    Y[:, :4] = np.eye(60, 4)  # labels with one positive row, most of whose weights are small
    data, options = dataset(tmp_path / "data.h5", X, Y), {"drop": 0.02} if method == "dual" else {}
    runs = [train(data, tmp_path / "whole", method, **options)]
    runs += [train(data, tmp_path / f"part{k}", method, label_part=f"{k}/2", **options) for k in (1, 2)]
    forms = [Model(run / "model.h5").sparse for run in runs]
    assert all(forms) if method == "staged-bayes" else len(set(forms[1:])) == 2
    merge(SELF, runs[1:], tmp_path / "joined", log=QUIET)
    assert (tmp_path / "joined" / "model.h5").read_bytes() == (runs[0] / "model.h5").read_bytes()


@pytest.mark.parametrize("part", ["0/3", "4/3", "3", "²/3"])
def test_rejects_invalid_part(part):
    with pytest.raises(ConfigError, match="--label-part"):
        asked("probe", label_part=part).validate()


def test_rejects_parts_that_do_not_fit(runs, data, tmp_path):
    whole, first, second, third = runs
    output = tmp_path / "joined"
    other = train(dataset(tmp_path / "data.h5", *random_data(4, 60, 40, 7)), tmp_path / "other", label_part="2/3")
    epsilon = train(data, tmp_path / "epsilon", label_part="2/3", epsilon=0.2)
    halves = train(data, tmp_path / "half", label_part="2/2")
    unfinished, many = tmp_path / "unfinished", tmp_path / "many"
    unfinished.mkdir()
    shutil.copy(second / "config.toml", unfinished)
    shutil.copytree(first, many)
    (many / "config.toml").write_text((many / "config.toml").read_text().replace('"1/3"', '"1/99999999999"'))
    with pytest.raises(ConfigError, match="there are only 7 labels to train"):
        train(data, tmp_path / "none", label_part="1/8")
    cases = {
        "part 2 of 3 is missing": [first, third],
        "are both part 1/3": [first, first, second, third],
        "has no --label-part": [first, whole],
        "had epsilon = 0.2, but": [first, epsilon, third],
        "differ in lambda .* train all parts on the same data": [first, other, third],
        "one of 2 parts, but": [first, halves],
        "not a run folder": [first, tmp_path],
        "the run of part 2/3 is not finished": [first, unfinished],
        "part 2 of 99999999999 is missing": [many],
    }
    for sentence, parts in cases.items():
        with pytest.raises((ConfigError, DataError), match=sentence):
            merge(SELF, parts, output, log=QUIET)
        assert not output.exists()


def test_merge_keeps_inputs_and_finished_runs(runs, tmp_path):
    _, *parts = runs
    before = [(part / "model.h5").read_bytes() for part in parts]
    with pytest.raises(ConfigError, match="is one of the runs to merge"):
        merge(SELF, parts, parts[1], force=True, log=QUIET)
    merge(SELF, parts, tmp_path / "joined", log=QUIET)
    with pytest.raises(ConfigError, match="exists already"):
        merge(SELF, parts, tmp_path / "joined", log=QUIET)
    merge(SELF, parts, tmp_path / "joined", force=True, log=QUIET)
    assert [(part / "model.h5").read_bytes() for part in parts] == before


def test_failed_merge_keeps_the_existing_run(runs, tmp_path):
    _, *parts = runs
    merge(SELF, parts, tmp_path / "joined", log=QUIET)
    before = {path.name: path.read_bytes() for path in (tmp_path / "joined").iterdir()}
    for part in parts:
        shutil.copytree(part, tmp_path / part.name)
    copies = [tmp_path / part.name for part in parts]
    (copies[2] / "history.csv").unlink()
    with pytest.raises(DataError, match=r"history\.csv is missing"):
        merge(SELF, copies, tmp_path / "joined", force=True, log=QUIET)
    (copies[2] / "history.csv").mkdir()  # is noticed when the model is written already
    with pytest.raises(DataError):
        merge(SELF, copies, tmp_path / "joined", force=True, log=QUIET)
    assert {path.name: path.read_bytes() for path in (tmp_path / "joined").iterdir()} == before
    assert not list(tmp_path.glob(".*"))


def test_sweep_lists_differing_options_and_best_run_first(runs, data, tmp_path):
    plain = train(data, tmp_path / "plain")
    better = train(data, tmp_path / "better", lam="X/10", loss="huber")
    for run, value in ((plain, 0.25), (better, 0.75)):
        measures = {"macro": {"average_precision": {"value": value}, "auc": {"value": None}}}
        (run / "measures.json").write_text(json.dumps(measures))
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "config.toml").write_text((plain / "config.toml").read_text())
    sweep = merge_sweep(SELF, [plain, unfinished, better], tmp_path / "sweep.csv", False, free_keys)
    rows = table(tmp_path / "sweep.csv")
    assert list(rows[0]) == ["run", "lambda", "loss", "state", "labels", "iterations", "average_precision", "auc"]
    assert [row["run"] for row in rows] == [str(better), str(plain), str(unfinished)]
    assert [row["loss"] for row in rows] == ["huber", "hinge", "hinge"]
    assert [row["state"] for row in rows] == ["finished", "finished", "not finished"]
    assert [row["average_precision"] for row in rows] == ["0.75", "0.25", ""]
    best = sweep.splitlines()[1]
    assert best.startswith(f"{better} ") and best.removeprefix(str(better)).split()[:2] == ["X/10", "huber"]
    with pytest.raises(ConfigError, match="exists already"):
        merge_sweep(SELF, [plain], tmp_path / "sweep.csv", False, free_keys)


@pytest.mark.parametrize("text", ["", '{"macro": 3}', '{"macro": {"auc": {"value": "x"}}}', "[" * 100000])
def test_damaged_measures(runs, text):
    whole = runs[0]
    file = whole / "measures.json"
    file.write_text(text)
    try:
        with pytest.raises(DataError, match="damaged"):
            merge_sweep(SELF, [whole], whole.parent / "sweep.csv", False, free_keys)
    finally:
        file.unlink()
