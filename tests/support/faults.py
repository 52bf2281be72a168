"""Faults of a run, as a table: `tests/jobs/test_faults.py` walks it; `python -m launch.lab bench faults` measures."""

import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import pytest

from hpcml.methods.psbml.options import PsbmlOptions
from support.make import class_data, dataset, random_data
from support.training import train as train_method

TRAIN = {method: functools.partial(train_method, method) for method in ("probe", "dual", "psbml")}
OPTIONS = {
    "probe": {},
    "dual": {"loss": "hinge", "dual_tol": 1e-6, "lam": "2e-3", "labels_per_pass": 1, "max_steps": 200},
    "psbml": PsbmlOptions(grid="2x2", cycles=12, seed=3),
}
FLAGS = {
    "probe": ("probe",),
    "dual": ("dual", "--loss", "hinge", "--dual-tol", "1e-6", "--lambda", "2e-3", "--labels-per-pass", "1", "--max-steps", "200"),
    "psbml": ("psbml", "--grid", "2x2", "--cycles", "12", "--seed", "3"),
    "asynchronous": ("psbml", "--grid", "2x2", "--cycles", "400", "--asynchronous"),
}
KILLED = -1  # any exit code but those that have a meaning


def make_data(method, path, seed=7):
    """A dataset that keeps a method busy for about a second. Returns its path."""
    if method != "psbml":
        return dataset(path, *random_data(seed, 3000, 400, 40, density=0.05))
    X, _, Y = class_data(seed, 1500, 8, 3, density=0.6)
    return dataset(path, X, Y)


def result_of(run):
    """A model's bytes, and of its history what depends neither on the ranks nor on the time."""
    lines = [line.split(",") for line in (run / "history.csv").read_text().splitlines()]
    return (run / "model.h5").read_bytes(), [line[:6] if "auc" in lines[0] else line[:-1] for line in lines]


class Case:
    """One run and what is done to it."""

    def __init__(self, mpirun, method, data, undisturbed, folder):
        """The case has a copy of the dataset to itself; `undisturbed` is what `result_of` says of the run without the fault."""
        self.mpirun, self.method, self.undisturbed, self.folder = mpirun, method, undisturbed, folder
        self.data, self.run = Path(shutil.copy(data, folder / "data.h5")), folder / "run"
        self.stack, self.struck, self.ended = contextlib.ExitStack(), 0.0, 0.0

    def start(self, *more, n=2, every=0.005, **options):
        """The job that trains, on two ranks, with a checkpoint every so many seconds."""
        flags = (*FLAGS[self.method], self.data, "-o", self.run, "--checkpoint-every", every)
        return self.mpirun.start(n, "train", *flags, *more, **options)

    def checkpoints(self):
        return sorted((self.run / "checkpoint").glob("state-*.h5"))

    def begun(self, n_checkpoints=1):
        """The job, as soon as it has written some checkpoints."""
        job = self.start()
        job.until(lambda: self.checkpoints() and int(self.checkpoints()[-1].stem[-6:]) >= n_checkpoints)
        return job

    def strike(self):
        """Now the fault happens."""
        self.struck = time.monotonic()

    def end(self, job):
        """The result of the job once all of its processes are gone."""
        result = job.wait(60)
        end = time.monotonic() + 10
        while job.environments():
            assert time.monotonic() < end, "processes of the job are left"
        self.ended = time.monotonic()
        if told := re.search(r"^FAULT (\S+)$", result.stderr, re.MULTILINE):
            self.struck = float(told[1])
        return result

    def interrupted(self, n_checkpoints=2):
        """The result of the run, stopped by a signal after some checkpoints."""
        job = self.begun(n_checkpoints)
        self.strike()
        os.kill(job.process.pid, signal.SIGTERM)
        result = self.end(job)
        assert result.returncode == 75, result.stderr
        return result

    def resume(self, n=1):
        """Continue the run to its end, here or on several ranks. Returns what it told."""
        before = (self.run / "log.txt").stat().st_size if (self.run / "log.txt").is_file() else 0
        if n == 1:
            TRAIN[self.method](None, self.data, self.run, OPTIONS[self.method], resume=True)
        else:
            result = self.start("--resume", n=n).wait(60)
            assert result.returncode == 0, result.stderr
        return (self.run / "log.txt").read_bytes()[before:].decode()

    def small_disk(self, kibibytes):
        """A file system of that size; skips the test where none can be mounted."""
        folder = self.folder / "disk"
        folder.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", folder], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            pytest.skip(f"needs to mount a small file system: {mounted.stderr.decode().strip()}")
        self.stack.callback(subprocess.run, ["umount", "--lazy", folder], check=True)
        self.run = folder / "run"
        return folder

    @property
    def same(self):
        """Whether the model has the undisturbed bits; None without a model."""
        return result_of(self.run) == self.undisturbed if (self.run / "model.h5").exists() else None


# Programs in which something goes wrong by itself. `strike()` tells when; `rank` is that of the process.
PROGRAM = """
import os, signal, sys, time
rank = int(os.environ.get("PMI_RANK", "0"))

def strike():
    os.write(2, b"FAULT %f\\n" % time.monotonic())  # whole, though others write, too

def before(module, name, act):
    whole = getattr(module, name)
    def patched(*args, **kwargs):
        act(*args)
        return whole(*args, **kwargs)
    setattr(module, name, patched)

{}
from hpcml.__main__ import main
main()
"""


def program(body):
    return ("-c", PROGRAM.format(body))


DIES_IN_CHECKPOINT = """
import hpcml.run.checkpoint
count = 0
def act(*_):
    global count
    count += 1
    if rank == 0 and count == 3:
        before(hpcml.run.checkpoint.CheckpointWriter, "write_row", die)
def die(*_):
    strike()
    os.kill(os.getpid(), signal.SIGKILL)
before(hpcml.run.checkpoint.Checkpoints, "save", act)
"""
DIES_BEFORE_THE_NAME = """
import hpcml.run.results
def die(*_):
    if rank == 0:
        strike()
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
before(hpcml.run.results.Results, "write_labels", die)
"""
# Something happens to the data when the rows have been mapped, before they are read.
WHILE_READING = """
import hpcml.methods.linear.load
def act(comm, *_):
    if rank == 1:
        strike()
        {}
    comm.Barrier()
before(hpcml.methods.linear.load, "count_positives", act)
"""
# Rank 1 has a failure of its own that the others cannot know of.
FAILS_ALONE = """
import hpcml.methods.linear.run, hpcml.mpi.start, hpcml.methods.psbml.run
from hpcml.errors import DataError
hpcml.mpi.start.LEAVE_SECONDS = 0.5
count = 0
def act(*_):
    global count
    count += 1
    if rank == 1 and count == 3:
        strike()
        {}
before(hpcml.methods.linear.run.LabelRun, "save", act)
before(hpcml.methods.psbml.run.TorusRun, "save", act)
"""
CLOCK_JUMPS = """
import itertools
jumps, real, text = itertools.cycle((0, 3e8, -4e8)), time.time, time.strftime
time.time = lambda: real() + next(jumps)
time.strftime = lambda form, *when: text(form, *(when or (time.localtime(time.time()),)))
strike()
"""
# Of the address space, so many MiB besides what the libraries take.
LITTLE_MEMORY = """
import resource
import numba, sklearn.tree, skops.io, hpcml.mpi, hpcml.methods.psbml.train, hpcml.methods.linear.train
if rank == 1:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + {} * 2**20,) * 2)
    strike()
"""


def send(number, victim=None, begun=Case.begun):
    """Send a signal to a rank, or to the launcher, when the job has `begun`."""

    def inject(case):
        job = begun(case)
        pid = job.process.pid if victim is None else job.rank_pids()[victim]
        case.strike()
        os.kill(pid, number)
        return case.end(job)

    return inject


kill = functools.partial(send, signal.SIGKILL)


def before_the_first_checkpoint(case):
    job = case.start(every=1000)
    job.until(lambda: (case.run / "checkpoint" / "start.h5").exists())
    return job


def asynchronous(case):
    case.method = "asynchronous"
    job = case.start()
    job.until(lambda: (case.run / "log.txt").exists())
    return job


def signal_again(case):
    """Further signals while the run ends, after its checkpoint."""
    job = before_the_first_checkpoint(case)
    pids = job.rank_pids()
    case.strike()
    os.kill(pids[0], signal.SIGUSR1)
    job.until(case.checkpoints)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return case.end(job)


def goes_wrong(body, *more):
    def inject(case):
        case.strike()
        return case.end(case.start(*more, program=program(body.replace("DATA", repr(str(case.data))))))

    return inject


def damage(how):
    def inject(case):
        result = case.interrupted()
        newest = case.checkpoints()[-1]
        raw = bytearray(newest.read_bytes())
        raw[len(raw) // 2 :] = b"" if how == "truncated" else bytes(byte ^ 170 for byte in raw[len(raw) // 2 :])
        newest.write_bytes(raw)
        return result

    return inject


def stop_for_a_while(case):
    job = case.begun()
    pid = job.rank_pids()[1]
    case.strike()
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1)  # the fault itself
    os.kill(pid, signal.SIGCONT)
    return case.end(job)


def fill(folder):
    """Take all the space that is left. Returns the file that has it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while True:
            out.write(bytes(4096))
    return filler


def disk_full(case):
    disk = case.small_disk(16384)
    job = case.begun(2)
    case.strike()
    filler = fill(disk)
    result = case.end(job)
    filler.unlink()
    assert case.checkpoints()
    return result


def disk_full_at_the_start(kibibytes):
    def inject(case):
        disk = case.small_disk(kibibytes)
        if kibibytes < 100:
            fill(disk)
        case.strike()
        return case.end(case.start())

    return inject


def no_room_for_the_log(case):
    job = case.begun()
    case.strike()
    (case.run / "full").symlink_to("/dev/full")
    (case.run / "full").replace(case.run / "log.txt")
    return case.end(job)


def read_only(case):
    disk = case.small_disk(16384)
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    case.strike()
    return case.end(case.start())


def data_gone(case):
    """Another file takes the name, then there is none."""
    other = make_data(case.method, case.folder / "other.h5", seed=8)
    job = case.begun()
    case.strike()
    other.replace(case.data)
    newest = case.checkpoints()[-1]
    job.until(lambda: case.checkpoints()[-1] != newest)
    case.data.unlink()
    return case.end(job)


def data_truncated(case):
    whole = case.data.read_bytes()
    job = case.begun()
    case.strike()
    os.truncate(case.data, 1000)
    result = case.end(job)
    case.data.write_bytes(whole)
    return result


def data_of_another_run(case):
    case.interrupted(1)
    make_data(case.method, case.folder / "other.h5", seed=8).replace(case.data)
    case.strike()
    return case.end(case.start("--resume"))


def two_jobs(case):
    """The second one comes while the first is at work, and must leave it alone, whatever it was told."""
    job = case.begun()
    pids = job.rank_pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    before = {path: path.stat().st_mtime_ns for path in case.run.rglob("*")}
    case.strike()
    result = case.end(case.start("--force"))
    assert f"process {pids[0]} on " in result.stderr
    assert {path: path.stat().st_mtime_ns for path in case.run.rglob("*")} == before
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert job.wait(60).returncode == 0
    return result


# Two ranks of a process that is named as a launcher.
OTHER_LAUNCHER = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(15, b"orted")
command = [sys.executable, "-m", "hpcml", *sys.argv[1:]]
launched = [os.environ | {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": str(rank)} for rank in range(2)]
ranks = [subprocess.Popen(command, env=each) for each in launched]
sys.exit(max(each.wait() for each in ranks))
"""


def other_launcher(case):
    """Two processes that the launcher of another MPI has started; one of them says so."""
    case.strike()
    return case.end(case.start(n=0, program=("-c", OTHER_LAUNCHER)))


def little_memory(mebibytes, wide=True):
    """So much memory on rank 1; `wide`: and so many features that an array of them does not fit."""

    def inject(case):
        with h5py.File(case.data, "r+") as file:
            n_rows, n_features = file["X"].attrs["shape"]
            file["X"].attrs["shape"] = [n_rows, 2**27 if wide else n_features]
        return goes_wrong(LITTLE_MEMORY.format(mebibytes))(case)

    return inject


@dataclass(frozen=True)
class Fault:
    """`inject` lets it happen and returns the result of the job: its exit code is `code`, its messages match `says`."""

    name: str
    inject: Callable
    code: int
    says: str = ""
    methods: tuple[str, ...] = ("probe", "psbml")
    resumes: bool = False  # the run is continued to its end
    tells: str = "resuming from"  # and says this
    ranks: int = 1  # that continue it
    model: bool = True  # there is a complete one in the end


PROBE, PSBML, CONVEX, ALL = ("probe",), ("psbml",), ("probe", "dual"), ("probe", "dual", "psbml")
STOPPED = r"hpcml: a signal arrived: checkpoint written; continue with --resume"
FULL = r"hpcml: .*No space left on device.*; free some space or choose another folder"
NO_MEMORY = r"hpcml: rank 1 ran out of memory .*; use fewer ranks on a node, or more nodes"
LITTLE = "hpcml: not enough memory: .* fewer ranks per node"  # before an array is made
CHANGED = r"hpcml: .+data\.h5: the file was changed while it was in use; restore it"
SHORTER = r"hpcml: rank \d: .+data\.h5 became shorter while it was in use"
FAULTS = [
    Fault("kill -9 of rank 0", kill(0), KILLED, resumes=True),
    Fault("kill -9 of rank 1", kill(1), KILLED, "", ALL, resumes=True, ranks=3),
    Fault(
        "kill -9 before the first checkpoint",
        kill(1, before_the_first_checkpoint),
        KILLED,
        "",
        PROBE,
        True,
        "no checkpoint|resuming from",
    ),
    Fault("kill -9 in a checkpoint", goes_wrong(DIES_IN_CHECKPOINT), KILLED, resumes=True),
    Fault(
        "kill -9 before the model has its name", goes_wrong(DIES_BEFORE_THE_NAME, "--labels-per-pass", "3"), KILLED, "", PROBE, True
    ),
    Fault("kill -9 of rank 0, asynchronous", kill(0, asynchronous), KILLED, methods=PSBML, model=False),
    Fault("SIGTERM to all", send(signal.SIGTERM), 75, STOPPED, resumes=True),
    Fault("SIGTERM to rank 1", send(signal.SIGTERM, 1), 75, STOPPED, CONVEX, True),
    Fault("SIGUSR1 to all", send(signal.SIGUSR1), 75, STOPPED, PROBE, True),
    Fault("SIGUSR1 to rank 1", send(signal.SIGUSR1, 1), 75, STOPPED, PROBE, True),
    Fault("SIGTERM again while ending", signal_again, 75, STOPPED, PROBE, True),
    Fault("newest checkpoint truncated", damage("truncated"), 75, STOPPED, PROBE, True, r"is damaged \(.*using an older one"),
    Fault(
        "newest checkpoint corrupted", damage("corrupted"), 75, STOPPED, resumes=True, tells=r"is damaged \(.*using an older one"
    ),
    Fault("rank 1 stopped for a while", stop_for_a_while, 0),
    Fault("clock jumps", goes_wrong(CLOCK_JUMPS), 0, "FAULT"),
    Fault("disk full", disk_full, 2, FULL, resumes=True),
    Fault("disk full at the start", disk_full_at_the_start(8), 2, FULL, PROBE, model=False),
    Fault("disk too small for a checkpoint", disk_full_at_the_start(150), 2, FULL, PROBE, model=False),
    Fault("no room for the log", no_room_for_the_log, 0, r"log\.txt: cannot write: No space left on device; going on without it"),
    Fault("read-only folder", read_only, 2, r"hpcml: .*Read-only file system.*; choose another folder", PROBE, model=False),
    Fault("data replaced, then deleted", data_gone, 0),
    Fault("data truncated after the rows were copied", data_truncated, 0, methods=PROBE),
    Fault("data truncated", data_truncated, 2, CHANGED, PSBML, True),
    Fault("data written while read", goes_wrong(WHILE_READING.format("os.utime(DATA)")), 2, CHANGED, PROBE, model=False),
    Fault("data truncated while read", goes_wrong(WHILE_READING.format("os.truncate(DATA, 9000)")), 2, SHORTER, PROBE, model=False),
    Fault("data of another run", data_of_another_run, 2, "hpcml: .*this run was started on other data", PROBE, model=False),
    Fault("two jobs on one folder", two_jobs, 73, r"run is in use by process \d+ on \S+ since [\d-]+ [\d:]+; wait for it", PROBE),
    Fault("launcher of another MPI", other_launcher, 2, r"hpcml: the launcher started 2 ranks", PROBE, model=False),
    Fault("little memory on rank 1", little_memory(300), 2, f"{NO_MEMORY}|{LITTLE}", CONVEX, model=False),
    Fault("no memory on rank 1 in a checkpoint", goes_wrong(FAILS_ALONE.format("bytearray(2**60)")), 2, NO_MEMORY, resumes=True),
    Fault(
        "rank 1 fails alone", goes_wrong(FAILS_ALONE.format("raise DataError('alone')")), 2, "hpcml: rank 1: alone", CONVEX, True
    ),
]


def make_samples(folder, methods=tuple(TRAIN)):
    found = {}
    for method in methods:
        train = TRAIN[method]
        data = make_data(method, folder / f"{method}.h5")
        train(None, data, folder / method, OPTIONS[method])
        found[method] = data, result_of(folder / method)
    return found
