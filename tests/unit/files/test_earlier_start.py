"""A job that is begun anew replaces what its earlier start wrote, and nothing else."""

import os

import pytest

from hpcml import mpi
from hpcml.errors import ConfigError
from hpcml.files.atomic import JOB_MARKER, check_output
from hpcml.log import Log
from hpcml.methods.probe.options import ProbeOptions
from hpcml.run.folder import RunConfig, RunFolder
from hpcml.run.session import Target

SELF = mpi.self_comm()


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """The file that the job script made at time 1000."""
    monkeypatch.setenv(JOB_MARKER, str(tmp_path / "marker"))
    (tmp_path / "marker").touch()
    os.utime(tmp_path / "marker", (1000, 1000))


@pytest.mark.parametrize(("time", "replaced"), [(999, False), (1000, True), (1001, True)])
def test_outputs_that_are_not_older_than_the_job_are_replaced(tmp_path, marker, time, replaced):
    (tmp_path / "out.csv").write_text("it")
    os.utime(tmp_path / "out.csv", (time, time))
    if replaced:
        check_output(tmp_path / "out.csv", overwrite=False)
    else:
        with pytest.raises(ConfigError, match="exists already"):
            check_output(tmp_path / "out.csv", overwrite=False)


@pytest.mark.parametrize("name", ["", "absent"])
def test_without_a_marker_nothing_is_replaced(tmp_path, monkeypatch, name):
    monkeypatch.setenv(JOB_MARKER, name and str(tmp_path / name))
    (tmp_path / "out.csv").write_text("it")
    with pytest.raises(ConfigError, match="exists already"):
        check_output(tmp_path / "out.csv", overwrite=False)


def test_a_run_folder_is_replaced_by_the_time_of_its_configuration(tmp_path, marker):
    config = RunConfig("probe", "data.h5", ProbeOptions())
    with RunFolder(SELF, tmp_path / "run", Log(1)) as run, run.replaced(config.values(), force=False) as fresh:
        (fresh / "model.h5").write_text("first")
    with RunFolder(SELF, tmp_path / "run", Log(1)) as run, run.replaced(config.values(), force=False) as fresh:
        (fresh / "model.h5").write_text("second")
    assert (tmp_path / "run" / "model.h5").read_text() == "second"
    os.utime(tmp_path / "run" / "config.toml", (999, 999))
    with pytest.raises(ConfigError, match="exists already"):
        RunFolder(SELF, tmp_path / "run", Log(1)).prepare(config, Target(tmp_path))
