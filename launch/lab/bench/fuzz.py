"""Run the commands on damaged inputs: none may cause a traceback, a hang or a huge allocation, or be accepted as sound.

usage: python -m launch.lab bench fuzz [--inputs 10500] [--first 0] [--seed 0] [--kind KIND...] [--only KIND:NUMBER] [--workers 2]

`tests/support/damage.py` makes the inputs: svmlight, JSON lines, datasets, linear models (dense, sparse, of single passes),
classifiers, TOML files, and run folders of several methods to be resumed; --first is the number of the first input, so that runs
can be divided. Each command line runs as `hpcml` would, in a process that is forked after the imports and before the start of MPI,
under limits of time and memory. Accepted ends: code 0 with a sound result, and code 2 with exactly one error message of hpcml.
Prints a JSON line for each defect and for each kind, and the total; ends with code 1 if there is a defect. --only shows the outcome
of one input and keeps its files.
"""

# ruff: noqa: E402 - what is set before an import must be set before it
from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"
import mpi4py

mpi4py.rc.initialize = False  # each forked process starts MPI for itself
sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))
import numpy as np
import skops.io  # noqa: F401 - so that it need not be imported again and again
from mpi4py import MPI
from sklearn.datasets import load_svmlight_file  # noqa: F401
from support import damage

import hpcml.conversion.convert
import hpcml.conversion.split
import hpcml.data.info
import hpcml.evaluation.evaluate
import hpcml.methods.dual.dual
import hpcml.methods.linear.train
import hpcml.methods.online.train
import hpcml.methods.psbml.train  # noqa: F401
from hpcml.__main__ import main as hpcml_main
from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_slab
from hpcml.errors import DataError
from hpcml.model.open import open_model
from hpcml.model.scoring import make_scorer, warm_up_counts
from hpcml.mpi.runtime import unname_shared_memory
from launch.lab.core.bench import Failed

SECONDS = 120  # for a command; they take less than one on a quiet machine
ADDRESS_SPACE = 1 << 30  # that a command may take beyond what this process has
RESIDENT = 400 << 20
OUTPUT = 64 << 20  # for a file that it writes
KINDS, ORIGINALS = tuple(damage.KINDS), "originals"  # the word for a process that makes the sound files
GIVEN_UP = ("out of memory", "Unable to allocate", "MemoryError", "File too large", "std::bad_alloc", "Cannot allocate")


class Ended(NamedTuple):
    """End of a process: exit code (negative: a signal; None: time limit), stderr, seconds, and resident bytes."""

    code: int | None
    stderr: str
    seconds: float
    resident: int


def run_forked(command: list[str], folder: Path, seconds: float = SECONDS) -> Ended:
    errors = folder / ".stderr"
    address_space = ADDRESS_SPACE + 1024 * int(Path("/proc/self/status").read_text().split("VmSize:")[1].split()[0])
    begin, child = time.monotonic(), os.fork()
    if child == 0:
        _child(command, errors, address_space, folder)
    descriptor = os.pidfd_open(child)
    in_time = select.select([descriptor], [], [], seconds)[0]
    if not in_time:
        os.kill(child, signal.SIGKILL)
    os.close(descriptor)
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status) if in_time else None
    return Ended(code, errors.read_text(errors="replace"), time.monotonic() - begin, 1024 * usage.ru_maxrss)


def _child(command: list[str], errors: Path, address_space: int, folder: Path) -> None:
    """Run the command in the forked process; does not return."""
    code = 1
    try:
        for number, path in ((1, os.devnull), (2, errors)):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, number)
        sys.stdout.reconfigure(errors="strict")
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (address_space, address_space))
        resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT, OUTPUT))
        os.chdir(folder)
        MPI.Init()
        unname_shared_memory()
        code = _command(command)
    finally:
        os._exit(code)


def _command(command: list[str]) -> int:
    """Return the exit code of a command; an exception is printed as a traceback."""
    try:
        if command[0] == damage.CHECK:
            damage.check_dataset(command[1])
            return 0
        if command[0] == ORIGINALS:
            damage.originals(Path(command[1]))
            return 0
        sys.argv = ["hpcml", *command]
        hpcml_main()
    except SystemExit as ended:
        return ended.code or 0
    except BaseException:  # noqa: BLE001 - as the interpreter itself does
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def judge(command: list[str], ended: Ended) -> str:
    """Return the defect, or an empty text."""
    lines = ended.stderr.splitlines()
    ours = [line for line in lines if line.startswith("hpcml: ")]  # a list of bad records follows, with two blanks before each
    ends = [line for line in lines if not line.startswith("  ")][-1:] == ours
    if ended.code is None:
        return "hang"
    if ended.code < 0:
        return f"killed by {signal.Signals(-ended.code).name}"
    if command[0] == damage.CHECK and ended.code:
        return f"unsound: {lines[-1]}"
    if any(text in ended.stderr for text in GIVEN_UP):
        return f"memory: {lines[-1]}"
    if "Traceback" in ended.stderr or ended.code not in (0, 2):
        return f"code {ended.code}: {lines[-1] if lines else ''}"
    if len(ours) != (ended.code == 2) or (ours and not ends):
        return f"code {ended.code}, but {len(ours)} lines of ours: {lines[-1] if lines else ''}"
    return f"memory: {ended.resident >> 20} MiB" if ended.resident > RESIDENT else ""


def try_input(task: tuple[str, int], seed: int, sound: Path, show: bool = False) -> dict[str, object]:
    kind, number = task
    folder = Path(tempfile.mkdtemp(prefix=f"{kind}-{number}-", dir=None if show else sound.parent))
    try:
        case = damage.case(kind, number, seed, sound, folder)
        outcome, defect, seconds, resident = "sound", "", 0.0, 0
        for command in case.commands:
            ended = run_forked(command, folder)
            seconds, resident = max(seconds, ended.seconds), max(resident, ended.resident)
            defect = judge(command, ended)
            if show:
                print(f"{case.damage}\n$ hpcml {' '.join(command)}\n{ended.stderr}{ended}", file=sys.stderr)
            if defect or ended.code:
                outcome = "defect" if defect else "refused"
                break
        line = {"kind": kind, "number": number, "outcome": outcome, "seconds": round(seconds, 2), "resident": resident}
        if defect:
            line |= {"defect": defect, "damage": case.damage, "command": command[0], "seed": seed}
        return line
    finally:
        if show:
            print(f"files: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder)


def make_originals(folder: Path) -> None:
    folder.mkdir()

    def command(*words: object, code: int | None = 0) -> None:
        ended = run_forked([str(word) for word in words], folder, 1200)  # kernels may have to be compiled
        if code is not None and ended.code != code:
            raise RuntimeError(f"{words}: {ended}")

    command(ORIGINALS, folder)
    damage.runs(folder, command)
    load_kernels(folder)


def load_kernels(folder: Path) -> None:
    """Compute scores once, so that no forked process loads compiled kernels."""
    warm_up_counts()
    rows = np.arange(10)
    for data in ("data.h5", "ones.h5"):
        with DataFile(folder / data) as dataset:
            shard = read_slab(dataset, rows, 0, rows.size)
        for model in sorted(folder.glob("*.h5")):
            with suppress(DataError):  # no model
                scorer = make_scorer(open_model(model), shard, rows[:3])
                scorer.score_rows(rows, *scorer.weights(0, 3))
                scorer.score_pairs(rows[:3], rows[:3])


def run(
    scratch: Path,
    *,
    inputs: int = 10_500,
    first: int = 0,
    seed: int = 0,
    kind: tuple[Literal[KINDS], ...] = KINDS,
    only: str = "",
    workers: int = 2,
) -> Iterator[dict[str, Any]]:
    begin, sound = time.monotonic(), scratch / "sound"
    gc.freeze()  # so that forked processes do not copy the memory that they only read
    make_originals(sound)
    if only:
        name, _, number = only.partition(":")
        yield try_input((name, int(number)), seed, sound, show=True)
        return
    tasks, results = [(kind[number % len(kind)], number) for number in range(first, first + inputs)], []
    end_quietly = (signal.signal, (signal.SIGTERM, signal.SIG_DFL))  # not by the handler of the program that forks
    with multiprocessing.get_context("fork").Pool(workers, *end_quietly) as pool:
        for result in pool.imap(partial(try_input, seed=seed, sound=sound), tasks):
            results.append(result)
            if result["outcome"] == "defect":
                yield result
    for name in (*kind, "all"):
        mine = [result for result in results if name in ("all", result["kind"])]
        counts = Counter(result["outcome"] for result in mine)
        slowest, largest = (max(result[key] for result in mine) for key in ("seconds", "resident"))
        line = {"kind": name, "inputs": len(mine), **counts, "slowest": slowest, "resident_mib": largest >> 20}
        yield line | ({"seed": seed, "wall": round(time.monotonic() - begin, 1)} if name == "all" else {})
    if defects := counts["defect"]:
        raise Failed(f"{defects} inputs with a defect")
