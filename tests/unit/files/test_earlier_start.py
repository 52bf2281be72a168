"""A job that is begun anew replaces what its earlier start wrote, and nothing else."""

import pytest

from hpcml import mpi
from hpcml.errors import ConfigError
from hpcml.files import earlier_start
from hpcml.files.atomic import check_output, temporary_path
from hpcml.log import Log
from hpcml.methods.probe.options import ProbeOptions
from hpcml.run.folder import RunConfig, RunFolder
from hpcml.run.session import Target

SELF = mpi.self_comm()


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Call it where the job starts once more."""
    monkeypatch.setenv(earlier_start.VARIABLE, str(tmp_path / "noted"))
    earlier_start._noted.cache_clear()
    yield earlier_start._noted.cache_clear
    earlier_start._noted.cache_clear()


def write(path, text):
    with temporary_path(SELF, path) as temporary:
        temporary.write_text(text)


def test_what_an_earlier_start_wrote_is_replaced(tmp_path, start):
    write(tmp_path / "made.csv", "first")
    start()
    write(tmp_path / "made.csv", "second")
    assert (tmp_path / "made.csv").read_text() == "second"


def test_what_was_there_before_the_job_stays(tmp_path, start):
    (tmp_path / "mine.csv").write_text("mine")
    for _ in range(2):
        with pytest.raises(ConfigError, match="exists already"):
            check_output(tmp_path / "mine.csv", overwrite=False)
        start()
    assert (tmp_path / "mine.csv").read_text() == "mine"


def test_what_came_during_this_start_stays(tmp_path, start):
    check_output(tmp_path / "other.csv", overwrite=False)
    (tmp_path / "other.csv").write_text("of another job")
    with pytest.raises(ConfigError, match="exists already"):
        check_output(tmp_path / "other.csv", overwrite=False)


def test_without_a_job_nothing_is_noted(tmp_path, monkeypatch):
    monkeypatch.delenv(earlier_start.VARIABLE, raising=False)
    write(tmp_path / "made.csv", "first")
    assert [path.name for path in tmp_path.iterdir()] == ["made.csv"]
    with pytest.raises(ConfigError, match="exists already"):
        write(tmp_path / "made.csv", "second")


def test_folder_that_an_earlier_start_made_is_replaced(tmp_path, start):
    config = RunConfig("probe", "data.h5", ProbeOptions())
    with RunFolder(SELF, tmp_path / "run", Log(1)) as run, run.replaced(config.values(), force=False) as fresh:
        (fresh / "model.h5").write_text("first")
    with pytest.raises(ConfigError, match="exists already"):
        RunFolder(SELF, tmp_path / "run", Log(1)).prepare(config, Target(tmp_path))
    start()
    with RunFolder(SELF, tmp_path / "run", Log(1)) as run, run.replaced(config.values(), force=False) as fresh:
        (fresh / "model.h5").write_text("second")
    assert (tmp_path / "run" / "model.h5").read_text() == "second"
