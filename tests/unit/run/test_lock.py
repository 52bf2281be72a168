"""The lock on a run folder: who is let in, who is not, and what is said: holders alive, dead, on other nodes, not understood."""

import errno
import fcntl
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from hpcml.errors import EXIT_IN_USE, InUseError
from hpcml.log import Log
from hpcml.run import holder, lock
from hpcml.run.holder import ALIVE, DEAD, UNKNOWN, Holder
from hpcml.run.lock import LOCK, FolderLock

ELSEWHERE = {"boot": "another", "node": "far-node"}


class Clock:
    """The time that the lock sees: it goes on where the lock would wait. `each` is called every time."""

    def __init__(self):
        self.now, self.each = 0.0, lambda: None

    def monotonic(self):
        return self.now

    def time(self):
        return 1e9 + self.now

    def sleep(self, seconds):
        self.now += seconds
        self.each()


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(lock, "time", made)
    for name in [*os.environ]:
        if name.startswith("SLURM_"):
            monkeypatch.delenv(name)
    return made


@pytest.fixture
def file(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()  # so that the folder stays
    return tmp_path / "run" / LOCK


@pytest.fixture
def locked(file):
    """Hold the lock with this content of its file: `locked(bytes)`."""
    descriptors = []

    def hold(content):
        file.write_bytes(content)
        descriptors.append(os.open(file, os.O_RDWR))
        fcntl.flock(descriptors[0], fcntl.LOCK_EX)

    yield hold
    for descriptor in descriptors:
        os.close(descriptor)


def ended():
    """A process of this machine that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return replace(Holder.this(), process=child.pid)


def taken(file, log=None):
    """Take the lock and let it go again."""
    ours = FolderLock(file.parent, log or Log(1))
    ours.acquire()
    assert Holder.of(file.read_bytes()).process == os.getpid()
    ours.release()
    assert not file.exists()


def refused(file):
    """Try to take the lock: the sentence."""
    before = file.read_bytes()
    with pytest.raises(InUseError) as raised:
        FolderLock(file.parent, Log(1)).acquire()
    assert raised.value.exit_code == EXIT_IN_USE == 73
    assert file.read_bytes() == before
    assert str(raised.value).isprintable()
    return str(raised.value)


def touch_at(file, seconds):
    os.utime(file, (1e9 + seconds, 1e9 + seconds))


def test_holder_that_is_alive_is_waited_for(clock, file, locked):
    locked(Holder.this().signature())
    sentence = refused(file)
    assert f"is in use by process {os.getpid()} on {Holder.this().node} since " in sentence
    assert sentence.endswith("wait for it, or choose another --output")
    assert clock.now == pytest.approx(lock.PATIENCE, abs=0.2)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"started": 1}, "that process has ended"),  # its number was given to another one
        ({"boot": "another"}, "was booted since"),
        ({**ELSEWHERE, "job": "12", "restart": "0"}, "that was an earlier start of this job"),
    ],
)
def test_lock_that_outlives_its_holder_is_told(clock, file, locked, monkeypatch, changes, why):
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    locked(replace(Holder.this(), **changes).signature())
    sentence = refused(file)
    assert f"but {'' if why.startswith('that') else Holder.this().node + ' '}{why}; " in sentence
    assert f"remove {file}" in sentence


@pytest.mark.parametrize(
    ("squeue", "over"),
    [
        ("exit 0", True),
        ("echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", True),
        ("echo RUNNING", False),
        ("echo Unable to contact slurm controller >&2; exit 1", False),
        ("exec sleep 60", False),
    ],
)
def test_slurm_is_asked_but_not_for_long(clock, file, locked, tmp_path, monkeypatch, squeue, over):
    monkeypatch.setattr(holder, "_SQUEUE_SECONDS", 0.5)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "squeue").write_text(f"#!/bin/sh\n{squeue}\n")
    (tmp_path / "squeue").chmod(0o755)
    locked(replace(Holder.this(), **ELSEWHERE, job="34").signature())
    sentence = refused(file)
    assert "(Slurm job 34)" in sentence
    assert ("but that job is over; " in sentence) is over


def test_holder_that_is_dead_is_followed_at_once(clock, file):
    file.write_bytes(ended().signature())
    taken(file)
    assert clock.now == 0


def changed(name, value):
    return json.dumps({**json.loads(Holder.this().signature()), name: value}).encode()


GARBAGE = [
    *(b"", b"\0" * 100, b"process 12 on node1 since 2026-01-01 00:00:00\n", b"\xff"),
    *(b"[" * 1999, b"1" * 1999, b"{}", b"[]", b'"\\ud800"'),
    *(changed(name, value) for name in ("process", "started") for value in (-1, 2**63, 1.5, "1", None, True, [])),
    *(changed(name, value) for name in ("node", "boot", "job", "since") for value in ("a\nb", "\x1b[31m", 1, None, {})),
]


@pytest.mark.parametrize("content", GARBAGE)
def test_file_that_is_not_understood(clock, file, content):
    assert Holder.of(content) is None
    file.write_bytes(content)
    taken(file)
    assert clock.now == 0


def test_holder_that_is_not_understood(clock, file, locked):
    locked(b"\x1b[31m")
    assert "is in use by another process; wait for it" in refused(file)


def test_node_that_sees_no_locks_of_others_watches_them(clock, file, capsys):
    """A holder on another node that goes on touching the file keeps it, one that does not has lost it after a while."""
    file.write_bytes(replace(Holder.this(), **ELSEWHERE).signature())
    touch_at(file, -lock.BEAT)
    clock.each = lambda: touch_at(file, 0) if clock.now > lock.BEAT else None
    assert "on far-node since" in refused(file)
    assert clock.now == pytest.approx(lock.BEAT, abs=1)
    clock.each = lambda: None
    begin = clock.now
    taken(file, Log(0))
    assert clock.now - begin == pytest.approx(lock.SILENCE, abs=1)
    assert "was in use by process" in capsys.readouterr().err


def test_holder_of_long_ago_is_not_waited_for(clock, file):
    file.write_bytes(replace(Holder.this(), **ELSEWHERE).signature())
    touch_at(file, -lock.LONG_AGO - 1)
    taken(file)
    assert clock.now == 0


def test_file_system_without_locks_is_told_and_the_file_serves(clock, file, monkeypatch, capsys):
    def cannot(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", cannot)
    first = FolderLock(file.parent, Log(0))
    first.acquire()
    assert "the file system has no locks; see that no other job uses the folder" in capsys.readouterr().err
    assert "wait for it" in refused(file)
    first.release()
    taken(file)
    file.write_bytes(ended().signature())
    taken(file)


def test_holder_touches_the_file_until_it_lets_go(file, monkeypatch):
    monkeypatch.setattr(lock, "BEAT", 0.001)
    ours = FolderLock(file.parent, Log(1))
    ours.acquire()
    beats = ours._beats
    for _ in range(2):
        touch_at(file, 0)
        while file.stat().st_mtime == 1e9:
            assert beats.is_alive()
    ours.release()
    assert not beats.is_alive()


def test_lock_that_was_removed_and_taken_by_another_is_left_to_it(file):
    first, second = FolderLock(file.parent, Log(1)), FolderLock(file.parent, Log(1))
    first.acquire()
    file.unlink()
    second.acquire()
    first.release()
    assert file.exists()
    second.release()
    assert not file.exists()


def test_states():
    mine = Holder.this()
    assert Holder.of(mine.signature()) == mine
    assert mine.state() == ALIVE
    assert ended().state() == DEAD
    for changes in ({"boot": "another"}, {"numbers": "of a container"}, {"boot": ""}):
        assert replace(mine, **changes).state() == UNKNOWN
