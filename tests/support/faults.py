"""Faults that disturb a training run: the table of tests/jobs/test_faults.py."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import pytest

from support.make import class_data, dataset, random_data

FLAGS = {
    "probe": ("probe",),
    "dual": ("dual", "--loss", "hinge", "--dual-tol", "1e-6", "--lambda", "2e-3", "--labels-per-pass", "1", "--max-steps", "200"),
    "psbml": ("psbml", "--grid", "2x2", "--cycles", "12", "--seed", "3"),
}
KILLED = -1  # any exit code except those that have a meaning
SECONDS = 240  # until a job counts as hanging


def make_data(method, path, seed=7):
    if method != "psbml":
        return dataset(path, *random_data(seed, 3000, 400, 40, density=0.05))
    X, _, Y = class_data(seed, 1500, 8, 3, density=0.6)
    return dataset(path, X, Y)


def result_of(run):
    """Return the model's bytes, and its history without the columns that depend on the ranks or on the time."""
    lines = [line.split(",") for line in (run / "history.csv").read_text().splitlines()]
    return (run / "model.h5").read_bytes(), [line[:6] if "auc" in lines[0] else line[:-2] for line in lines]


class Case:
    """A run of a method in `folder`, on a copy of the dataset, that is to be disturbed by a fault."""

    def __init__(self, mpirun, standing, method, data, folder):
        self.mpirun, self.standing, self.method, self.folder = mpirun, standing, method, folder
        self.data, self.run = Path(shutil.copy(data, folder / "data.h5")), folder / "run"
        self.stack = contextlib.ExitStack()

    def words(self, *more):
        return ("train", *FLAGS[self.method], self.data, "-o", self.run, *more)

    def start(self, *more, every=0.005, **options):
        return self.mpirun.start(2, *self.words("--checkpoint-every", every), *more, **options)

    def checkpoints(self):
        return sorted((self.run / "checkpoint").glob("state-*.h5"))

    def start_until_checkpoint(self, number=1):
        job = self.start()
        job.until(lambda: self.checkpoints() and int(self.checkpoints()[-1].stem[-6:]) >= number)
        return job

    def end(self, job):
        result = job.wait(SECONDS)
        end = time.monotonic() + SECONDS
        while job.environments():
            assert time.monotonic() < end, "processes of the job remain"
            time.sleep(0.01)
        return result

    def interrupt(self):
        """Stop the training by SIGTERM after the second checkpoint and return its result."""
        job = self.start_until_checkpoint(2)
        os.kill(job.process.pid, signal.SIGTERM)
        return self.end(job)

    def resume(self, ranks):
        result = self.standing(ranks, *self.words("--resume"), timeout=SECONDS)
        assert result.returncode == 0, result.stderr
        return result.stderr

    def use_small_disk(self, kibibytes):
        folder = self.folder / "disk"
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", folder]
        mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
        if mounted.returncode != 0:
            pytest.skip(f"needs to mount a small file system: {mounted.stderr.strip()}")
        self.stack.callback(subprocess.run, ["umount", "--lazy", folder], check=True)
        self.run = folder / "run"
        return folder


# A program that patches functions of hpcml or of libraries. `rank` is the rank of the process; `report` writes that the patch ran.
PROGRAM = """
import os, signal, sys, time
rank = int(os.environ.get("PMI_RANK", "0"))

def report():
    os.write(2, b"FAULT\\n")  # in one piece, because other ranks write at the same time

def before(module, name, act):
    original = getattr(module, name)
    def patched(*args, **kwargs):
        act(*args)
        return original(*args, **kwargs)
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
        before(hpcml.run.checkpoint.CheckpointWriter, "write_row", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
before(hpcml.run.checkpoint.Checkpoints, "save", act)
"""
DIES_BEFORE_RENAME = """
import hpcml.run.results
def act(*_):
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)
before(hpcml.run.results.Results, "write_labels", act)
"""
# The data change after the rows have been mapped and before they are read.
CHANGED_WHILE_READ = """
import hpcml.methods.linear.load
def act(comm, *_):
    if rank == 1:
        os.utime(DATA)
    comm.Barrier()
before(hpcml.methods.linear.load, "count_positives", act)
"""
# Rank 1 fails and the others do not know.
FAILS_ALONE = """
import hpcml.methods.linear.run, hpcml.mpi.start, hpcml.methods.psbml.run
from hpcml.errors import DataError
hpcml.mpi.start.LEAVE_SECONDS = 0.5
count = 0
def act(*_):
    global count
    count += 1
    if rank == 1 and count == 3:
        {}
before(hpcml.methods.linear.run.LabelRun, "save", act)
before(hpcml.methods.psbml.run.TorusRun, "save", act)
"""
# Rank 1 may take 400 MiB of address space more than the libraries at this point; those that come later take 225 MiB.
LITTLE_MEMORY = """
import resource
import numba, sklearn.tree, skops.io, hpcml.mpi, hpcml.methods.psbml.train, hpcml.methods.linear.train
if rank == 1:
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 400 * 2**20,) * 2)
"""


def send(number, victim=None, start=Case.start_until_checkpoint):
    """Send a signal to a rank, or to the launcher, when `start(case)` has returned the job."""

    def inject(case):
        job = start(case)
        os.kill(job.process.pid if victim is None else job.rank_pids()[victim], number)
        return case.end(job)

    return inject


kill = functools.partial(send, signal.SIGKILL)


def start_without_checkpoint(case):
    job = case.start(every=1000)
    job.until((case.run / "checkpoint" / "start.h5").exists)
    return job


def patch(body, *more):
    """Run a program that patches hpcml."""
    return lambda case: case.end(case.start(*more, program=program(body.replace("DATA", repr(str(case.data))))))


def truncate_checkpoint(case):
    result = case.interrupt()
    newest = case.checkpoints()[-1]
    os.truncate(newest, newest.stat().st_size // 2)
    return result


def pause_rank(case):
    job = case.start_until_checkpoint()
    pid = job.rank_pids()[1]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1)
    os.kill(pid, signal.SIGCONT)
    return case.end(job)


def fill_disk(case):
    disk = case.use_small_disk(16384)
    job = case.start_until_checkpoint(2)
    with (disk / "filler").open("wb", buffering=0) as out, contextlib.suppress(OSError):
        while True:
            out.write(bytes(4096))
    result = case.end(job)
    (disk / "filler").unlink()
    return result


def start_on_full_disk(case):
    case.use_small_disk(150)
    return case.end(case.start())


def fill_log(case):
    job = case.start_until_checkpoint()
    (case.run / "full").symlink_to("/dev/full")
    (case.run / "full").replace(case.run / "log.txt")
    return case.end(job)


def replace_data(case):
    other = make_data(case.method, case.folder / "other.h5", seed=8)
    job = case.start_until_checkpoint()
    other.replace(case.data)
    newest = case.checkpoints()[-1]
    job.until(lambda: case.checkpoints()[-1] != newest)
    case.data.unlink()
    return case.end(job)


def truncate_data(case):
    content = case.data.read_bytes()
    job = case.start_until_checkpoint()
    os.truncate(case.data, 1000)
    result = case.end(job)
    case.data.write_bytes(content)
    return result


def start_second_job(case):
    """Start a second job on the folder of a running job, which must not change."""
    job = case.start_until_checkpoint()
    pids = job.rank_pids()
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    before = {path: path.stat().st_mtime_ns for path in case.run.rglob("*")}
    result = case.end(case.start("--force"))
    assert f"process {pids[0]} on " in result.stderr
    assert {path: path.stat().st_mtime_ns for path in case.run.rglob("*")} == before
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert job.wait(SECONDS).returncode == 0
    return result


def limit_memory(case):
    with h5py.File(case.data, "r+") as file:
        file["X"].attrs["shape"] = [file["X"].attrs["shape"][0], 2**25]
    return patch(LITTLE_MEMORY)(case)


@dataclass(frozen=True)
class Fault:
    """`inject(case)` returns the result of the job: its exit code is `code` and its stderr matches `says`.

    The first of the methods is always tested, unless `rare`; the others belong to a part.
    """

    name: str
    inject: Callable
    code: int
    says: str = ""
    methods: tuple[str, ...] = ("probe",)
    resumed_on: int = 0  # ranks that continue the run to its end; 0: it is not continued
    resumed: str = "resuming from"  # and what they print
    model: bool = True  # the run has a complete model in the end
    rare: bool = False


STOPPED = r"hpcml: a signal arrived: checkpoint written; continue with --resume"
FULL = r"hpcml: .*No space left on device.*; free some space or choose another folder"
NO_MEMORY = r"hpcml: rank 1 ran out of memory .*; use fewer ranks on a node, or more nodes"
LITTLE = "hpcml: not enough memory: .* fewer ranks per node"  # before an array is made
CHANGED = r"hpcml: .+data\.h5: the file was changed while it was in use; restore it"
IN_USE = r"run is in use by process \d+ on \S+ since [\d-]+ [\d:]+; wait for it"
PSBML, BOTH = ("psbml",), ("psbml", "probe")
FAULTS = [
    Fault("kill rank 0", kill(0), KILLED, resumed_on=1),
    Fault("kill rank 1", kill(1), KILLED, "", ("psbml", "dual"), resumed_on=3),
    Fault("kill before checkpoints", kill(1, start_without_checkpoint), KILLED, "", ("probe",), 1, "no checkpoint", rare=True),
    Fault("kill rank 0 in a checkpoint", patch(DIES_IN_CHECKPOINT), KILLED, "", ("probe", "psbml"), resumed_on=1),
    Fault("kill rank 0 before the model is renamed", patch(DIES_BEFORE_RENAME, "--labels-per-pass", "3"), KILLED, resumed_on=1),
    Fault("SIGTERM to all", send(signal.SIGTERM), 75, STOPPED, BOTH, resumed_on=1),
    Fault("SIGUSR1 to rank 1", send(signal.SIGUSR1, 1), 75, STOPPED, ("probe", "dual"), resumed_on=1),
    Fault("checkpoint truncated", truncate_checkpoint, 75, STOPPED, ("probe", "psbml"), 1, r"is damaged \(.*using an older one"),
    Fault("rank 1 paused", pause_rank, 0),
    Fault("disk full", fill_disk, 2, FULL, BOTH, resumed_on=1),
    Fault("disk full at the start", start_on_full_disk, 2, FULL, model=False, rare=True),
    Fault("log full", fill_log, 0, r"log\.txt: cannot write: No space left on device; continuing without it", rare=True),
    Fault("data replaced and deleted", replace_data, 0, "", BOTH),
    Fault("data truncated", truncate_data, 2, CHANGED, PSBML, resumed_on=1, rare=True),
    Fault("data written while read", patch(CHANGED_WHILE_READ), 2, CHANGED, model=False, rare=True),
    Fault("second job on the same folder", start_second_job, 73, IN_USE),
    Fault("little memory on rank 1", limit_memory, 2, f"{NO_MEMORY}|{LITTLE}", ("probe", "dual"), model=False),
    Fault("no memory on rank 1 in a checkpoint", patch(FAILS_ALONE.format("bytearray(2**60)")), 2, NO_MEMORY, BOTH, resumed_on=1),
    Fault("rank 1 fails alone", patch(FAILS_ALONE.format("raise DataError('x')")), 2, "hpcml: rank 1: x", ("probe", "dual"), 1),
]
