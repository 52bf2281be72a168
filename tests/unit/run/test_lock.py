import errno
import fcntl
import os

import pytest

from hpcml.errors import EXIT_IN_USE, InUseError
from hpcml.log import Log
from hpcml.run import lock
from hpcml.run.lock import LOCK, FolderLock, signature

ELSEWHERE = b"process 7 on far-node (Slurm job 34) since 2026-01-01 00:00:00\nanother-boot\n"


class Clock:
    def __init__(self):
        self.now, self.each = 0.0, lambda: None

    def monotonic(self):
        return self.now

    def time(self):
        return 1e9 + self.now

    def strftime(self, _):
        return "2026-01-01 00:00:00"

    def sleep(self, seconds):
        self.now += seconds
        self.each()


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(lock, "time", made)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    return made


@pytest.fixture
def file(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()  # so that the folder stays
    return tmp_path / "run" / LOCK


@pytest.fixture
def locked(file):
    descriptors = []

    def hold(content):
        file.write_bytes(content)
        touch_at(file, 0)
        descriptors.append(os.open(file, os.O_RDWR))
        fcntl.flock(descriptors[0], fcntl.LOCK_EX)

    yield hold
    for descriptor in descriptors:
        os.close(descriptor)


def take_and_release(file, log=None):
    ours = FolderLock(file.parent, log or Log(1))
    ours.acquire()
    assert file.read_bytes() == signature()
    ours.release()
    assert not file.exists()


def refusal(file):
    before = file.read_bytes()
    with pytest.raises(InUseError) as raised:
        FolderLock(file.parent, Log(1)).acquire()
    assert raised.value.exit_code == EXIT_IN_USE == 73
    assert file.read_bytes() == before
    assert str(raised.value).isprintable()
    return str(raised.value)


def touch_at(file, seconds):
    os.utime(file, (1e9 + seconds, 1e9 + seconds))


def without_locks(monkeypatch):
    def cannot(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(lock.fcntl, "flock", cannot)


def test_waits_for_holder_and_names_it(clock, file, locked, monkeypatch):
    monkeypatch.setenv("SLURMD_NODENAME", "node3")
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    locked(signature())
    holder = f"process {os.getpid()} on node3 (Slurm job 12) since 2026-01-01 00:00:00"
    assert refusal(file) == f"{file.parent} is in use by {holder}; wait for it, or choose another --output"
    assert clock.now == pytest.approx(lock.PATIENCE, abs=0.2)


def test_reports_lock_of_silent_holder(clock, file, locked):
    locked(ELSEWHERE)
    touch_at(file, -lock.LONG_AGO - 60)
    assert refusal(file).endswith(f", which has been silent for 11 min; if no job uses the folder, remove {file}")


def test_takes_free_lock_of_the_same_kernel_at_once(clock, file):
    file.write_bytes(signature())
    touch_at(file, 0)
    take_and_release(file)
    assert clock.now == 0


GARBAGE = [
    *(b"", b"\0" * 100, b"\xff", b"process 12 on node1 since 2026-01-01 00:00:00\n", b"a\nb\nc\n", b"\nboot\n", b"\n\n"),
    *(b"a\x1b[31m\nboot\n", b"a\nboot\x1b[31m\n", "a\u2028\nboot\n".encode(), b'{"process": 12}\n'),
]


@pytest.mark.parametrize("content", GARBAGE)
def test_ignores_malformed_file(clock, file, content):
    file.write_bytes(content)
    touch_at(file, 0)
    take_and_release(file)
    assert clock.now == 0


@pytest.mark.parametrize("has_locks", [True, False])
def test_watches_holder_without_visible_lock(clock, file, monkeypatch, capsys, has_locks):
    if not has_locks:
        without_locks(monkeypatch)
    file.write_bytes(ELSEWHERE if has_locks else signature())
    touch_at(file, -lock.BEAT)
    clock.each = lambda: touch_at(file, 0) if clock.now > lock.BEAT else None
    assert "is in use by process" in refusal(file)
    assert clock.now == pytest.approx(lock.BEAT, abs=1)
    clock.each = lambda: None
    begin = clock.now
    take_and_release(file, Log(0))
    assert clock.now - begin == pytest.approx(lock.SILENCE, abs=1)
    assert "is locked by process" in capsys.readouterr().err


def test_takes_stale_lock_at_once(clock, file):
    file.write_bytes(ELSEWHERE)
    touch_at(file, -lock.LONG_AGO - 1)
    take_and_release(file)
    assert clock.now == 0


def test_warns_about_file_system_without_locks(clock, file, monkeypatch, capsys):
    without_locks(monkeypatch)
    take_and_release(file, Log(0))
    assert "the file system has no locks; make sure that no other job uses the folder" in capsys.readouterr().err


def test_holder_updates_the_file_until_release(file, monkeypatch):
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


def test_keeps_lock_that_another_run_holds(file):
    first, second = FolderLock(file.parent, Log(1)), FolderLock(file.parent, Log(1))
    first.acquire()
    file.unlink()
    second.acquire()
    first.release()
    assert file.exists()
    second.release()
    assert not file.exists()
