"""Sparse models as processes: killed and resumed, damaged results, invalid commands, and predictions through pipes."""

import os
import re
import signal
import subprocess
import sys

import pytest
from support import make
from support.edits import edit, entry
from support.jobs import done, refused

DROP = ("--drop", "0.15", "--min-positives", "0", "--no-bias")  # with an intercept, the weights for random rows would be tiny


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, Y = make.random_data(7, 4000, 600, 60, density=0.05)
    return make.dataset(tmp_path_factory.mktemp("data") / "data.h5", X, Y, splits={"test": range(0, 4000, 20)})


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "undisturbed"
    command = [sys.executable, "-m", "hpcml", "train", "probe", str(data), "-o", str(run), *DROP]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return run


def test_killed_and_resumed_on_other_ranks(mpirun, standing, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    job = mpirun.start(3, "train", "probe", data, "-o", run, *DROP, "--labels-per-pass", "2", "--checkpoint-every", "0.05")
    job.until(lambda: list((run / "checkpoint").glob("state-*.h5")) and list((run / "checkpoint").glob("results-*.bin")))
    for pid in job.rank_pids():
        os.kill(pid, signal.SIGKILL)
    job.kill()
    assert not (run / "model.h5").exists()
    stopped = standing(
        1, "train", "probe", data, "-o", run, *DROP, "--labels-per-pass", "2", "--time-limit", "0.000001", "--resume"
    )
    assert stopped.returncode == 75, stopped.stderr
    result = done(standing(2, "train", "probe", data, "-o", run, *DROP, "--resume"))
    assert re.search(r"% of the weights are not 0, [\d.]+ MB", result.stderr)
    assert (run / "model.h5").read_bytes() == (undisturbed / "model.h5").read_bytes()
    assert not (run / "checkpoint").exists()


@pytest.mark.parametrize("how", ["lost", "truncated"])
def test_trains_lost_labels_again(mpirun, standing, data, undisturbed, tmp_path, how):
    run = tmp_path / "run"
    file = run / "checkpoint" / "results-000000.bin"
    job = mpirun.start(0, "train", "probe", data, "-o", run, *DROP, "--labels-per-pass", "2", "--checkpoint-every", "0.05")
    job.until(lambda: file.exists() and file.stat().st_size)
    job.process.send_signal(signal.SIGTERM)
    assert job.wait().returncode == 75
    if how == "lost":
        file.unlink()
    else:
        os.truncate(file, file.stat().st_size // 2)
    done(standing(2, "train", "probe", data, "-o", run, *DROP, "--resume"))
    assert (run / "model.h5").read_bytes() == (undisturbed / "model.h5").read_bytes()


def test_rejects_invalid_commands(standing, data, undisturbed, tmp_path):
    model, out = undisturbed / "model.h5", tmp_path / "out.csv"
    damaged = tmp_path / "damaged.h5"
    damaged.write_bytes(model.read_bytes())
    edit(damaged, entry("W/indices", 0, 10**6))
    for pattern, *command in (
        (r"--drop -1\.0: ", "train", "probe", data, "-o", tmp_path / "run", "--drop", "-1"),
        (r"--top 3: ", "predict", model, data, "-o", out, "--top", "3", "--all-scores"),
        (r"--below nan: ", "prune", model, data, "--below", "nan"),
        (r"also an input", "prune", model, data, "--below", "0.1", "-o", model, "--force"),
        (r"damaged model: W/indices", "evaluate", damaged, data),
        (r"damaged model: W/indices", "predict", damaged, data, "-o", out, "--top", "3"),
        (
            r"without the weights u and v of its state",
            "select",
            model,
            "-o",
            tmp_path / "few.h5",
            "--features",
            "5",
            "--data",
            data,
        ),
        (r"trained with method = probe, not mbw", "train", "mbw", data, "-o", tmp_path / "run", "--initial-model", model),
    ):
        refused(standing(3, *command), pattern=pattern)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged.h5"]
    refused(standing(3, "prune", model, data), "below")
