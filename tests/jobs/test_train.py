"""Training as processes: a killed rank, signals, resuming on other numbers of ranks; the bits of an undisturbed run."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest
from make import dataset, random_data


@pytest.fixture
def data(tmp_path):
    X, Y = random_data(7, 3000, 400, 40, density=0.05)
    return dataset(tmp_path / "data.h5", X, Y)


@pytest.fixture
def undisturbed(mpirun, data, tmp_path):
    result = mpirun(1, "train", "probe", data, "-o", tmp_path / "undisturbed")
    assert result.returncode == 0, result.stderr
    return (tmp_path / "undisturbed" / "model.h5").read_bytes()


def checkpoints(run):
    return list((run / "checkpoint").glob("state-*.h5"))


@pytest.mark.parametrize("victim", [0, 1])
def test_killed_rank_ends_all_and_the_run_resumes(mpirun, data, undisturbed, tmp_path, victim):
    run = tmp_path / "run"
    job = mpirun.start(2, "train", "probe", data, "-o", run, "--checkpoint-every", "0.05")
    job.until(lambda: checkpoints(run))
    os.kill(job.rank_pids()[victim], signal.SIGKILL)
    assert job.wait(30).returncode not in (0, 2, 75)
    assert not (run / "model.h5").exists()
    result = mpirun(3, "train", "probe", data, "-o", run, "--resume")
    assert result.returncode == 0, result.stderr
    assert "resuming from" in result.stderr
    assert (run / "model.h5").read_bytes() == undisturbed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.parametrize("who", ["launcher", "rank 1"])
def test_signal_writes_a_checkpoint_and_ends_with_75(mpirun, data, undisturbed, tmp_path, number, who):
    run = tmp_path / "run"
    job = mpirun.start(2, "train", "probe", data, "-o", run, "--checkpoint-every", "0.05")
    job.until(lambda: checkpoints(run))
    os.kill(job.process.pid if who == "launcher" else job.rank_pids()[1], number)
    result = job.wait(30)
    assert result.returncode == 75, result.stderr
    assert "continue with --resume" in result.stderr
    assert result.stderr.count("hpcml: ") == 1
    result = mpirun(1, "train", "probe", data, "-o", run, "--resume")
    assert result.returncode == 0, result.stderr
    assert (run / "model.h5").read_bytes() == undisturbed


def test_killed_before_the_first_checkpoint_starts_again(mpirun, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    job = mpirun.start(2, "train", "probe", data, "-o", run)
    job.until(lambda: (run / "history.csv").exists())
    os.kill(job.rank_pids()[1], signal.SIGKILL)
    job.wait(30)
    result = mpirun(2, "train", "probe", data, "-o", run, "--resume")
    assert result.returncode == 0, result.stderr
    assert (run / "model.h5").read_bytes() == undisturbed


def test_config_file_gives_the_options_and_flags_win(mpirun, data, tmp_path):
    config = tmp_path / "a.toml"
    config.write_text(f'method = "probe"\ndata = "{data}"\noutput = "{tmp_path / "run"}"\nlambda = "X/2"\nmin-positives = 3\n')
    result = mpirun(2, "train", "--config", config, "--epsilon", "0.3")
    assert result.returncode == 0, result.stderr
    written = (tmp_path / "run" / "config.toml").read_text()
    assert 'lambda = "X/2"' in written
    assert "epsilon = 0.3" in written
    result = mpirun(0, "train", f"--config={config}", "-o", tmp_path / "equals", "--label", "label3")
    assert result.returncode == 0, result.stderr
    assert 'lambda = "X/2"' in (tmp_path / "equals" / "config.toml").read_text()
    config.write_text("min-positive = 3\n")
    result = mpirun(2, "train", "--config", config)
    assert result.returncode == 2
    assert "did you mean 'min-positives'" in result.stderr
    again = mpirun(1, "train", "--config", tmp_path / "run" / "config.toml", "-o", tmp_path / "again")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again" / "model.h5").read_bytes() == (tmp_path / "run" / "model.h5").read_bytes()


def test_second_signal_while_ending_changes_nothing(mpirun, data, tmp_path):
    run = tmp_path / "run"
    job = mpirun.start(2, "train", "probe", data, "-o", run)
    job.until(lambda: (run / "history.csv").exists())
    pids = job.rank_pids()
    os.kill(pids[0], signal.SIGUSR1)
    job.until(lambda: checkpoints(run))
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    assert job.wait(30).returncode == 75


def test_reader_that_goes_away_does_not_stop_the_run(mpirun, data, tmp_path):
    command = f"{sys.executable} -m hpcml train probe {data} -o {tmp_path / 'run'} 2>&1 | true; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", command], timeout=120, check=False)
    assert result.returncode == 0
    assert (tmp_path / "run" / "model.h5").exists()


def test_many_checkpoints_of_ranks_that_share_the_rows(mpirun, data, undisturbed, tmp_path):
    run = tmp_path / "run"
    result = mpirun(4, "train", "probe", data, "-o", run, "--shards", "2", "--checkpoint-every", "0.001")
    assert result.returncode == 0, result.stderr
    assert (run / "model.h5").read_bytes() == undisturbed


def history(run):
    """The lines without the seconds."""
    return [line.rpartition(",")[0] for line in (run / "history.csv").read_text().splitlines()]


def test_killed_when_the_model_is_complete_but_has_no_name_yet(data, undisturbed, tmp_path, mpirun):
    code = (
        "import os, signal, hpcml.convex.train as t; t.finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL);"
        "from hpcml.__main__ import main; main()"
    )
    run = tmp_path / "run"
    killed = mpirun(1, "train", "probe", data, "-o", run, "--block", "3", "--checkpoint-every", "0.2", program=("-c", code))
    assert killed.returncode not in (0, 2, 75)
    assert not (run / "model.h5").exists()
    result = mpirun(2, "train", "probe", data, "-o", run, "--resume")
    assert result.returncode == 0, result.stderr
    assert (run / "model.h5").read_bytes() == undisturbed
    assert history(run) == history(tmp_path / "undisturbed")
    assert not (run / "history.csv.sorted").exists()


def test_history_that_lost_its_end_is_refused(data, tmp_path, mpirun):
    run = tmp_path / "run"
    stopped = mpirun(1, "train", "probe", data, "-o", run, "--block", "3", "--time-limit", "0.3")
    assert stopped.returncode == 75, stopped.stderr
    (run / "history.csv").write_text("")
    result = mpirun(1, "train", "probe", data, "-o", run, "--resume")
    assert result.returncode == 2
    assert "shorter than the checkpoint says" in result.stderr
