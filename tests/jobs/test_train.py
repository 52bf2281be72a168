"""Training as processes: options of files, readers that go away, many checkpoints. (Signals and killed ranks: test_faults.py.)"""

import re
import subprocess
import sys
from shlex import quote

import pytest
from support.jobs import done, refused
from support.make import dataset, random_data
from support.training import train


@pytest.fixture
def data(tmp_path):
    return dataset(tmp_path / "data.h5", *random_data(7, 3000, 400, 40, density=0.05))


def test_config_file_gives_the_options_and_flags_win(mpirun, standing, data, tmp_path):
    config = tmp_path / "a.toml"
    config.write_text(f'method = "probe"\ndata = "{data}"\noutput = "{tmp_path / "run"}"\nlambda = "X/2"\nmin-positives = 3\n')
    done(mpirun(2, "train", "--config", config, "--epsilon", "0.3"))
    written = (tmp_path / "run" / "config.toml").read_text()
    assert 'lambda = "X/2"' in written
    assert "epsilon = 0.3" in written
    done(mpirun(0, "train", f"--config={config}", "-o", tmp_path / "equals", "--label", "label3"))
    assert 'lambda = "X/2"' in (tmp_path / "equals" / "config.toml").read_text()
    config.write_text('method = "probe"\nmin-positive = 3\n')
    refused(standing(2, "train", "--config", config), "did you mean 'min-positives'")
    done(standing(1, "train", "--config", tmp_path / "run" / "config.toml", "-o", tmp_path / "again"))
    assert (tmp_path / "again" / "model.h5").read_bytes() == (tmp_path / "run" / "model.h5").read_bytes()


def test_reader_that_goes_away_does_not_stop_the_run(mpirun, data, tmp_path):
    hpcml, run = f"{quote(sys.executable)} -m hpcml", quote(str(tmp_path / "run"))
    command = f"{hpcml} train probe {quote(str(data))} -o {run} 2>&1 | true; exit ${{PIPESTATUS[0]}}"
    done(subprocess.run(["bash", "-c", command], timeout=120, check=False))
    assert (tmp_path / "run" / "model.h5").exists()


def test_many_checkpoints_of_ranks_that_share_the_rows(mpirun, tmp_path):
    data, run = dataset(tmp_path / "data.h5", *random_data(7, 1000, 200, 12, density=0.05)), tmp_path / "run"
    undisturbed = train("probe", None, data, tmp_path / "undisturbed", {"max_steps": 60}).model.read_bytes()
    done(mpirun(4, "train", "probe", data, "-o", run, "--ranks-per-group", "2", "--checkpoint-every", "0.001", "--max-steps", "60"))
    assert (run / "model.h5").read_bytes() == undisturbed


# Checkpoints are worth it all the time, and the process dies as soon as 20 labels are done.
DIES_LATE = """
import os, signal
from hpcml.methods.linear.run import LabelRun
from hpcml.run import checkpoint
checkpoint.MIN_SECONDS, checkpoint.COST_RATIO = 0.0, 0.0
keep = LabelRun.keep
def dies(run, finished):
    keep(run, finished)
    if run.n_done >= 20:
        os.kill(os.getpid(), signal.SIGKILL)
LabelRun.keep = dies
from hpcml.__main__ import main
main()
"""


def test_killed_run_goes_on_where_it_was_though_nobody_asked_for_checkpoints(mpirun, standing, data, tmp_path):
    command = ("train", "dual", data, "--labels-per-pass", "4")
    killed = mpirun(0, *command, "-o", tmp_path / "run", program=("-c", DIES_LATE))
    assert killed.returncode == -9, killed.stderr
    resumed = done(standing(1, *command, "-o", tmp_path / "run", "--resume"))
    known = re.search(r"resuming from state-\d+\.h5: (\d+) of 40 labels done", resumed.stderr)
    assert known and int(known[1]) >= 12, resumed.stderr
    done(standing(1, *command, "-o", tmp_path / "undisturbed"))
    assert (tmp_path / "run" / "model.h5").read_bytes() == (tmp_path / "undisturbed" / "model.h5").read_bytes()
