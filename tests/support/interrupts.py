"""Commands that a signal interrupts in a phase of their work: the table of tests/jobs/test_faults.py."""

import re
import shutil
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

from hpcml.errors import Interrupted
from hpcml.methods.psbml.options import PsbmlOptions
from support.faults import SECONDS, program
from support.make import class_data, dataset, random_data
from support.training import train

# S is the folder of the samples, O that of the output.
COMMANDS = {
    "convert svmlight": "convert svmlight S/rows.svm -o O/out.h5",
    "convert jsonl": "convert jsonl S/rows.jsonl -o O/out.h5",
    "convert synthetic": "convert synthetic gaussians --rows 500 -o O/out.h5",
    "info": "info S/data.h5",
    "split": "split S/plain.h5 -o O/out.h5",
    "select": "select S/data.h5 --features 5 -o O/out.h5",
    "train probe": "train probe S/data.h5 -o O/run --checkpoint-every 0.001",
    "train liblinear": "train liblinear S/data.h5 -o O/run --checkpoint-every 0.001",
    "train dual": "train dual S/data.h5 -o O/run --checkpoint-every 0.001",
    "train psbml": "train psbml S/classes.h5 -o O/run --grid 2x1 --cycles 3 --checkpoint-every 0.001",
    "train adaboost": "train adaboost S/classes.h5 -o O/run",
    "train mbw": "train mbw S/data.h5 -o O/run --checkpoint-every 0.001",
    "train elastic-net": "train elastic-net S/data.h5 -o O/run --checkpoint-every 0.001",
    "merge": "merge S/probe S/probe2 -o O/table.csv",
    "evaluate": "evaluate S/probe/model.h5 S/data.h5 --json O/measures.json",
    "predict h5": "predict S/probe/model.h5 S/data.h5 -o O/out.h5",
    "predict text": "predict S/probe/model.h5 S/rows.svm -o O/out.csv",
    "prune": "prune S/probe/model.h5 S/data.h5 --below 0.01 -o O/out.h5",
    "check": "check O/check",
    "cv": "cv multinomial-nb S/data.h5 -o O/table.csv",
    "threshold": "threshold S/probe/model.h5 S/data.h5 --split test --measure label -o O/out.h5",
    "explain": "explain S/probe/model.h5 --json O/out.json",
    "duplicates": "duplicates S/data.h5 -o O/out.csv",
}
CHECKPOINTED = {name for name in COMMANDS if "--checkpoint-every" in COMMANDS[name]}
RESUMED = {"train probe", "train dual", "train psbml", "train mbw"}  # the samples have an unfinished run
WRITE_NO_FILE = {"info", "train adaboost", "check"} | CHECKPOINTED  # write nothing, or into a folder

# A patch that blocks the process in a phase, in a library that catches all exceptions.
STUCK = """
import contextlib, importlib.abc, importlib.util

class After(importlib.abc.MetaPathFinder):
    \"\"\"Calls `act(module)` after a module has been imported; with `early`, before.\"\"\"
    def __init__(self, name, act, early=False):
        self.name, self.act, self.early = name, act, early

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        if self.early:
            self.act()
            return None
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            self.act(module)
        spec.loader.exec_module = exec_module
        return spec

def parent(pid):
    return int(open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[1])

def process(whom):
    proxy = os.getppid()
    if whom in ("mpirun", "its proxy"):
        return proxy if whom == "its proxy" else parent(proxy)
    mark = f"PMI_RANK={{whom[-1]}}".encode()
    siblings = open(f"/proc/{{proxy}}/task/{{proxy}}/children").read().split()
    return next(int(pid) for pid in siblings if mark in open(f"/proc/{{pid}}/environ", "rb").read().split(bytes(1)))

def send():
    how, _, whom = {how!r}.partition(" of ")
    number = getattr(signal, "SIG" + how)
    if not whom:
        report()
        os.kill(os.getpid(), number)
    elif rank == 0:
        time.sleep(0.1 if "mpi4py.MPI" in sys.modules else 1)  # until the others have begun
        report()
        time.sleep(0.3)  # until the launcher has passed it on
        os.kill(process(whom), number)

def stick(*_):
    send()
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)

def patch_load(module):  # rank 1 is late, so that the others wait in MPI
    def load(original=module.load):
        if rank == 1:
            stick()
        send()
        original()
        stick()
    module.load = load

def patch_claimed(module):
    original = module.claimed
    @contextlib.contextmanager
    def claimed(*args, **kwargs):
        with original(*args, **kwargs):
            stick()
            yield
    module.claimed = claimed

sys.meta_path.insert(0, {patch})
"""
PATCHES = {
    "import": 'After("numpy", stick, early=True)',
    "start": 'After("hpcml.mpi.runtime", patch_load)',
    "work": 'After("hpcml.mpi.start", lambda module: before(module, "start", stick))',
    "compile": 'After("numba.core.dispatcher", lambda module: before(module.Dispatcher, "compile", stick))',
    "write": 'After("hpcml.files.temporary", patch_claimed)',
    "checkpoint": 'After("hpcml.run.checkpoint", lambda module: before(module.Checkpoints, "save", stick))',
    "resume": 'After("hpcml.run.checkpoint", lambda module: before(module.Checkpoints, "newest", stick))',
    "end": 'After("hpcml.mpi.runtime", lambda module: before(module, "end", send))',  # before MPI ends
}


def phases_of(name):
    phases = ["import", "work", *(["start"] if name != "train adaboost" else []), *(["end"] if name == "info" else [])]
    phases += ["write"] * (name not in WRITE_NO_FILE) + ["checkpoint"] * (name in CHECKPOINTED and name != "train liblinear")
    return phases + ["resume"] * (name in RESUMED)


def make_samples(folder):
    X, Y = random_data(7, 120, 30, 4, density=0.3)
    X = abs(X)  # Winnow learners take no negative values
    dataset(folder / "plain.h5", X, Y)
    file = dataset(folder / "data.h5", X, Y, splits={"train": np.arange(80), "test": np.arange(80, 120)})
    lines = [" ".join(f"{j + 1}:{v:.3f}" for j, v in zip(row.indices, row.data, strict=True)) for row in X]
    (folder / "rows.svm").write_text("".join(f"{number % 3} {line}\n" for number, line in enumerate(lines)))
    (folder / "rows.jsonl").write_text("".join(f'{{"text": "word{n % 7} of row", "labels": ["l{n % 3}"]}}\n' for n in range(90)))
    X, _, Y = class_data(7, 200, 6, 3)
    classes = dataset(folder / "classes.h5", X, Y)
    train("probe", None, file, folder / "probe", {})
    train("probe", None, file, folder / "probe2", {"bias": True})
    for name in RESUMED:
        method, options = name.split()[1], {"time_limit": 1e-9}
        with pytest.raises(Interrupted):
            if method == "psbml":
                train(method, None, classes, folder / name, replace(PsbmlOptions(grid="2x1", cycles=3), **options))
            else:
                train(method, None, file, folder / name, options)
    return folder


def interrupt(mpirun, samples, folder, name, phase, how):
    """Run a command in an empty folder and send it a signal in a phase.

    Returns its exit code, its stderr, and what remains of it: processes and temporary files.
    """
    arguments = [word.replace("S/", f"{samples}/").replace("O/", f"{folder}/") for word in COMMANDS[name].split()]
    if phase == "resume":
        shutil.copytree(samples / name, folder / "run")
        arguments.append("--resume")
    temporary, code_file = folder / "temporary", folder / "code"
    temporary.mkdir()
    env = {"TMPDIR": str(temporary), "HPCML_EXIT_FILE": str(code_file)}
    env |= {"NUMBA_CACHE_DIR": str(folder / "cache")} if phase == "compile" else {}
    n = 2 if " of " in how or phase == "start" else 0
    job = mpirun.start(n, *arguments, program=program(STUCK.format(how=how, patch=PATCHES[phase])), env=env)
    result, end = job.wait(SECONDS), time.monotonic() + SECONDS
    while (processes := job.environments()) and time.monotonic() < end:
        time.sleep(0.01)
    assert "FAULT\n" in result.stderr, f"{name} did not reach the phase {phase}: {result.stderr}"
    remaining = [str(path.relative_to(folder)) for path in folder.rglob("*") if re.search(r"\.part-|\.tmp\.", path.name)]
    remaining += [f"process {pid}" for pid in processes] + [str(path.relative_to(folder)) for path in temporary.iterdir()]
    code = result.returncode
    if code == signal.SIGKILL and not how.startswith("KILL") and code_file.exists():  # the code of MPICH's launcher
        code = int(code_file.read_text())
    return code, result.stderr, remaining


def expected(name, phase, how):
    if phase == "end":
        return 0, ""
    number = signal.SIGTERM if how.startswith("TERM") else signal.SIGINT
    message = f"hpcml: interrupted by {number.name}"
    if phase in ("checkpoint", "resume") and name in CHECKPOINTED:
        return 75, f"{message} and without a new checkpoint after 3.3 s; continue with --resume, from the "
    return 128 + number, message
