import json

import pytest

from hpcml import mpi
from hpcml.errors import ConfigError, DataError, InUseError
from hpcml.log import Log
from hpcml.methods.probe.options import ProbeOptions
from hpcml.run.checkpoint import COST_RATIO, MAX_SECONDS, MIN_SECONDS, Pace
from hpcml.run.environment import record, record_end
from hpcml.run.folder import NEW, RunConfig, RunFolder
from hpcml.run.lock import LOCK
from hpcml.run.session import Target

SELF = mpi.self_comm()
CONFIG = RunConfig("probe", "data.h5", ProbeOptions())


def folder(path):
    return RunFolder(SELF, path, Log(1))


def test_rejects_second_run_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("hpcml.run.lock.PATIENCE", 0.1)
    with folder(tmp_path / "run") as first:
        assert first.prepare(CONFIG, Target(tmp_path, force=False, resume=False)) == NEW
        for flags in ({"force": True, "resume": False}, {"force": False, "resume": True}):
            with folder(tmp_path / "run") as second, pytest.raises(InUseError, match="is in use by process"):
                second.prepare(CONFIG, Target(tmp_path, **flags))
        assert (tmp_path / "run" / "config.toml").exists()
    with folder(tmp_path / "run") as third:
        third.prepare(CONFIG, Target(tmp_path, force=False, resume=True))


@pytest.mark.parametrize("name", ["lock", "notes.txt", LOCK])
def test_keeps_other_files_in_the_folder(tmp_path, name):
    (tmp_path / name).write_text("mine")
    (tmp_path / "more.txt").write_text("mine")
    for flags in ({"force": False, "resume": False}, {"force": True, "resume": False}, {"force": False, "resume": True}):
        with folder(tmp_path) as run, pytest.raises(ConfigError):
            run.prepare(CONFIG, Target(tmp_path, **flags))
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine", "more.txt": "mine"}


def test_lock_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "run" / LOCK).symlink_to("../mine")
    with folder(tmp_path / "run") as run, pytest.raises(DataError):
        run.prepare(CONFIG, Target(tmp_path, force=False, resume=False))
    assert (tmp_path / "mine").read_text() == "mine"


def test_reports_another_processor_or_version_once(tmp_path):
    here = {"processor": "A", "architecture": "x86_64", "target": "haswell", "features": "avx avx2", "numpy": "2"}
    path, now = tmp_path / "environment.jsonl", {"hpcml": "1", "computed_by": here}
    assert [record(path, now), record(path, now), record(path, now | {"computed_by": here | {"numpy": "3"}})] == [[], [], []]
    there = now | {"computed_by": here | {"processor": "B", "target": "znver4"}}
    message = "this run started on another type of processor, A (compiled for haswell), and continues on B (compiled for znver4)"
    assert [record(path, there), record(path, there)] == [[f"{message}; the results are bit-identical"], []]
    assert "B (compiled for znver4), and continues on A" in record(path, now)[0]
    (message,) = record(path, now | {"computed_by": here | {"features": "avx"}})
    assert "A (compiled for haswell), with other features, and continues" in message
    versions = [record(path, now | {"hpcml": version}) for version in ("1", "2", "2")]
    assert "started with hpcml 1 and continues with 2" in versions[1][0] and not versions[2]
    assert len(path.read_text().splitlines()) == 10
    damages = [b"", b'{"computed_by"', b"\xff\n", b"[1]\n", b'{"computed_by": {"processor": 1}}\n', b"[" * 100_000 + b"\n"]
    for damage in [b'{"time": "1"}\n', *damages]:  # the first is of an earlier version
        path.write_bytes(damage)
        assert record(path, now) == []


@pytest.mark.parametrize("end", [b"", b'{"a": 1', b"[" * 100_000 + b"\n"])
def test_run_end_is_not_written_to_a_damaged_file(tmp_path, end):
    path = tmp_path / "environment.jsonl"
    path.write_bytes(b'{"time": "1"}\n' + end)
    record_end(mpi.self_comm(), path)
    text = path.read_bytes()
    assert text == b'{"time": "1"}\n' + end if end else json.loads(text)["finished"]


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def wait_of(pace, clock, cost):
    with pace.saving():
        clock.now += cost
    low, high, begin = 0.0, 1e6, clock.now
    while high - low > 1e-4:
        clock.now = begin + (low + high) / 2
        low, high = (low, clock.now - begin) if pace.due else (clock.now - begin, high)
    clock.now = begin
    return high


@pytest.mark.parametrize(("cost", "wait"), [(0.001, MIN_SECONDS), (1.0, COST_RATIO), (2.0, 2 * COST_RATIO), (60.0, MAX_SECONDS)])
def test_checkpoints_take_two_percent_of_the_time(cost, wait):
    clock = Clock()
    assert wait_of(Pace(None, clock), clock, cost) == pytest.approx(wait, abs=1e-3)


def test_interval_in_seconds_is_kept():
    clock = Clock()
    assert wait_of(Pace(0.25, clock), clock, 60.0) == pytest.approx(0.25, abs=1e-3)
