"""PSBML as processes: files, signals, a killed rank, damaged checkpoints, and what is refused."""

import json
import os
import re
import shutil
import signal
import tomllib

import numpy as np
import pytest
from make import class_data, dataset, random_data

from hpcml.classifier import ClassifierModel
from hpcml.config import PsbmlOptions
from hpcml.errors import Interrupted
from hpcml.psbml.train import train_psbml

OPTIONS = ("--grid", "2x2", "--cycles", "40", "--seed", "3")
SAME = PsbmlOptions(grid="2x2", cycles=40, seed=3)
ASYNCHRONOUS = ("--asynchronous", "--cycles", "250", "--seed", "3")
# Commands one after another in the same processes, for starting them takes seconds; before each its number, after it its exit code.
SEVERAL = """
import json, sys
from hpcml.__main__ import main
from mpi4py import MPI

def tell(*words):
    if MPI.COMM_WORLD.rank == 0:
        print(*words, file=sys.stderr, flush=True)

for number, sys.argv[1:] in enumerate(json.loads(sys.argv[1])):
    tell("COMMAND", number)
    code = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    tell("CODE", code)
    MPI.COMM_WORLD.Barrier()
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, _, Y = class_data(7, 1500, 8, 3, density=0.6)
    return dataset(tmp_path_factory.mktemp("psbml") / "data.h5", X, Y)


@pytest.fixture(scope="module")
def undisturbed(data):
    """The bytes of the model that one rank makes without an interruption, and its history."""
    return result_of(train_psbml(None, data, data.with_name("undisturbed"), SAME).model.parent)


def result_of(run):
    """The bytes of a model, and of each cycle what does not depend on the ranks: its error and AUC, its rows, their range."""
    return (run / "model.h5").read_bytes(), [line.split(",")[:6] for line in (run / "history.csv").read_text().splitlines()]


def checkpoints(run):
    return sorted((run / "checkpoint").glob("state-*.h5"))


def outcomes(mpirun, commands):
    """The exit code and what was printed of each of some commands, on two ranks."""
    result = mpirun(2, json.dumps([[str(token) for token in command] for command in commands]), program=("-c", SEVERAL))
    assert result.returncode == 0, result.stderr
    found = re.findall(r"^COMMAND (\d+)\n(.*?)^CODE (\d+)$", result.stderr, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _, _ in found] == list(range(len(commands))), result.stderr
    return [(int(code), text) for _, text, code in found]


def refused(outcome, pattern):
    """A command ended with code 2 and exactly one line from us, which matches."""
    code, text = outcome
    assert code == 2, text
    ours = [line for line in text.splitlines() if line.startswith("hpcml: ")]
    assert len(ours) == 1, text
    assert re.search(pattern, ours[0]), ours[0]
    assert "Traceback" not in text


def test_from_points_to_predictions(mpirun, tmp_path):
    convert = ("--rows", 3000, "--test-share", "0.3", "-o", tmp_path / "board.h5")
    assert mpirun(0, "convert", "synthetic", "checkerboard", *convert).returncode == 0
    run = tmp_path / "run"
    result = mpirun(2, "train", "psbml", tmp_path / "board.h5", "-o", run, "--cycles", "5", "--profile")
    assert result.returncode == 0, result.stderr
    assert sorted(path.name for path in run.iterdir()) == ["config.toml", "history.csv", "log.txt", "model.h5"]
    assert re.search(r"best: cycle \d, validation error +[\d.]+ %, margin data: [\d,]+ rows; model: ", result.stderr)
    assert re.search(r"rank 1: .*train [\d.]+ s", result.stderr)
    assert len((run / "history.csv").read_text().splitlines()) == 6
    written = tomllib.loads((run / "config.toml").read_text())
    assert (written["method"], written["cycles"], written["base"], written["grid"]) == ("psbml", 5, ["tree"], "3x3")
    model = ClassifierModel(run / "model.h5")
    assert model.margin_rows.size > 0
    assert float(model.attrs["validation_error"]) < 0.35

    for code, text in outcomes(
        mpirun,
        [
            ("evaluate", run / "model.h5", tmp_path / "board.h5", "--csv", tmp_path / "labels.csv"),
            ("predict", run / "model.h5", tmp_path / "board.h5", "-o", tmp_path / "predictions.csv"),
            ("train", "--config", run / "config.toml", "-o", tmp_path / "again"),  # the file names the method
        ],
    ):
        assert code == 0, text
    assert (tmp_path / "labels.csv").stat().st_size > 0
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) >= 900  # the test rows
    assert (tmp_path / "again" / "model.h5").read_bytes() == (run / "model.h5").read_bytes()


def test_signal_writes_a_checkpoint_and_ends_with_75(mpirun, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    job = mpirun.start(2, "train", "psbml", data, "-o", run, *OPTIONS, "--checkpoint-every", "1e-4")
    job.until(lambda: checkpoints(run))
    os.kill(job.process.pid, signal.SIGTERM)
    result = job.wait(30)
    assert result.returncode == 75, result.stderr
    assert "continue with --resume" in result.stderr
    assert result.stderr.count("hpcml: ") == 1
    assert not (run / "model.h5").exists()
    result = mpirun(3, "train", "psbml", data, "-o", run, *OPTIONS, "--resume")
    assert result.returncode == 0, result.stderr
    assert "resuming from" in result.stderr
    assert result_of(run) == undisturbed


def test_asynchronous_run_ends_with_75_and_resumes(mpirun, data, tmp_path):
    """More ranks than nodes, and ranks at different cycles, when the signal comes."""
    command = ("train", "psbml", data, "-o", tmp_path / "run", "--grid", "2x1", *ASYNCHRONOUS)
    job = mpirun.start(3, *command, "--checkpoint-every", "0.05")
    job.until(lambda: checkpoints(tmp_path / "run"))
    os.kill(job.rank_pids()[1], signal.SIGTERM)
    result = job.wait(30)
    assert result.returncode == 75, result.stderr
    result = mpirun(2, *command, "--resume")
    assert result.returncode == 0, result.stderr
    assert "resuming from" in result.stderr
    assert len((tmp_path / "run" / "history.csv").read_text().splitlines()) == 251


def test_killed_rank_ends_all_and_the_run_resumes(mpirun, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    job = mpirun.start(2, "train", "psbml", data, "-o", run, *OPTIONS, "--checkpoint-every", "1e-4")
    job.until(lambda: checkpoints(run))
    os.kill(job.rank_pids()[1], signal.SIGKILL)
    assert job.wait(30).returncode not in (0, 2, 75)
    assert not (run / "model.h5").exists()
    result = mpirun(1, "train", "psbml", data, "-o", run, *OPTIONS, "--resume")
    assert result.returncode == 0, result.stderr
    assert "resuming from" in result.stderr
    assert result_of(run) == undisturbed


def test_killed_rank_ends_an_asynchronous_run(mpirun, data, tmp_path):
    run = tmp_path / "run"
    job = mpirun.start(2, "train", "psbml", data, "-o", run, "--grid", "2x2", *ASYNCHRONOUS)
    job.until(lambda: (run / "log.txt").exists())
    os.kill(job.rank_pids()[0], signal.SIGKILL)
    assert job.wait(30).returncode not in (0, 2, 75)


class After:
    """A signal that arrives after so many cycles."""

    def __init__(self, n):
        self.left = n

    @property
    def seen(self):
        self.left -= 1
        return self.left < 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def test_damaged_checkpoints_and_other_runs(mpirun, data, undisturbed, tmp_path):
    run, worse = tmp_path / "run", tmp_path / "worse"
    for turn in range(2):
        with pytest.raises(Interrupted):
            train_psbml(None, data, run, SAME, resume=turn > 0, signals=After(5))
    older, newest = checkpoints(run)
    shutil.copytree(run, worse)
    for path in checkpoints(worse):
        path.write_bytes(path.read_bytes()[:1000])
    X, _, Y = class_data(8, 1500, 8, 3, density=0.6)
    other = dataset(tmp_path / "other.h5", X, Y)
    command = ("train", "psbml", data, "-o", run, *OPTIONS)
    exists, changed, foreign, damaged, method = outcomes(
        mpirun,
        [
            command,
            (*command, "--replace", "0.3", "--resume"),
            ("train", "psbml", other, "-o", run, *OPTIONS, "--resume"),
            ("train", "psbml", data, "-o", worse, *OPTIONS, "--resume"),
            ("train", "probe", data, "-o", run, "--resume"),
        ],
    )
    refused(exists, "run exists already; choose another --output, or use --resume or --force")
    refused(changed, r"this run had replace = 0\.2, not 0\.3; resume with the same options")
    refused(foreign, "this run was started on other data; resume with the same file")
    refused(damaged, "every checkpoint is damaged; start again with --force")
    refused(method, "resume with the same options")
    assert checkpoints(run) == [older, newest]

    raw = bytearray(newest.read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 64] = bytes(64 * [170])
    newest.write_bytes(raw)
    again, finished = outcomes(mpirun, [(*command, "--resume"), (*command, "--resume")])
    assert again[0] == 0, again[1]
    assert f"checkpoint {newest.name} is damaged" in again[1]
    assert f"resuming from {older.name}: 5 of 40 cycles done" in again[1]
    assert result_of(run) == undisturbed
    assert finished[0] == 0
    assert "is finished already" in finished[1]


REFUSED = {
    ("good", "--grid", "3x"): r"--grid 3x: expected WIDTHxHEIGHT",
    ("good", "--grid", "9x9"): r"--grid 9x9: 81 nodes, but only 17 rows to train on",
    ("good", "--neighbourhood", "C8"): r"--neighbourhood C8: expected one of L5, L9, C9, C13",
    ("good", "--base", "nosuch"): r"--base nosuch: no such learner",
    ("good", "--base", "sklearn.tree.NoTree"): r"--base sklearn\.tree\.NoTree: sklearn\.tree has no NoTree",
    ("good", "--base", "tree", "max_dpth=3"): r"no option 'max_dpth'; did you mean 'max_depth'",
    ("good", "--replace", "2"): r"--replace 2\.0: expected a probability",
    ("good", "--replace", "0"): r"--replace 0\.0: expected a probability",
    ("good", "--cycles", "0"): r"--cycles 0: expected at least 1",
    ("good", "--validation-share", "1"): r"--validation-share 1\.0: expected",
    ("good", "--validation-share", "0.001"): r"no row of 20 is left to validate",
    ("good", "--checkpoint-every", "0"): r"--checkpoint-every 0\.0: expected seconds above 0",
    ("many",): r"many\.h5: row \d+ has \d labels, .* choose one label with --label",
    ("good", "--label", "lable1"): r"no label 'lable1'; did you mean 'label1'",
    ("good", "--split", "tset"): r"tset",
    ("one",): r"one\.h5: all 20 rows of the split all are of one class",
    ("good", "--slow-rank", "9"): r"--slow-rank 9: there are ranks 0 to 1",
    ("good", "--force", "--resume"): r"--force starts anew and --resume continues",
    ("good", "--epsilon", "0.1"): r"epsilon",
    ("absent",): r"absent\.h5: .*No such file",
}


def test_refused(mpirun, tmp_path):
    X, _, Y = class_data(1, 20, 5, 3)
    for name, matrices in {"good": (X, Y), "many": random_data(2, 20, 5, 3, density=0.5), "one": (X, np.ones((20, 1)))}.items():
        dataset(tmp_path / f"{name}.h5", *matrices)
    (tmp_path / "file").touch()
    before = sorted(tmp_path.iterdir())
    commands = [("train", "psbml", tmp_path / f"{name}.h5", "-o", tmp_path / "run", *rest) for name, *rest in REFUSED]
    file = ("train", "psbml", tmp_path / "good.h5", "-o", tmp_path / "file", "--force")
    *found, is_file = outcomes(mpirun, [*commands, file])
    for outcome, pattern in zip(found, REFUSED.values(), strict=True):
        refused(outcome, pattern)
    refused(is_file, "is a file; --output must name a folder")
    assert sorted(tmp_path.iterdir()) == before


def test_learner_that_refuses_the_rows_and_options_of_a_file(mpirun, tmp_path):
    X, _, Y = class_data(1, 60, 5, 3)
    data, config = dataset(tmp_path / "good.h5", X, Y), tmp_path / "a.toml"
    config.write_text(f'method = "psbml"\ndata = "{data}"\ncycles = 2\ngrid = "2x1"\nlabel = "label0"\n')
    config.with_name("b.toml").write_text(f'method = "psbml"\ndata = "{data}"\ncycle = 2\n')
    learner = ("train", "psbml", data, "--grid", "2x1", "--base", "sklearn.naive_bayes.MultinomialNB")  # takes no negative values
    step, asynchronous, typing_error, good = outcomes(
        mpirun,
        [
            (*learner, "-o", tmp_path / "step"),
            (*learner, "-o", tmp_path / "asynchronous", "--asynchronous"),
            ("train", "--config", config.with_name("b.toml"), "-o", tmp_path / "run"),
            ("train", "--config", config, "-o", tmp_path / "run", "--cycles", "3"),
        ],
    )
    for outcome in (step, asynchronous):
        refused(outcome, r"MultinomialNB: it cannot be trained on these rows: Negative")
    refused(typing_error, "unknown key 'cycle'; did you mean 'cycles'")
    assert good[0] == 0, good[1]
    assert len((tmp_path / "run" / "history.csv").read_text().splitlines()) == 4
