"""Every command stopped in every phase, as a table: `test_interrupts.py` walks a part, `python -m launch.lab bench faults` all."""

import re
import shutil
import signal
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

from hpcml.errors import Interrupted
from hpcml.methods.psbml.options import PsbmlOptions
from support.faults import program
from support.make import class_data, dataset, random_data
from support.training import train

# Arguments in which S is the folder of the samples and O that of the output. All of them write something, but for those of QUIET.
COMMANDS = {
    "convert svmlight": "convert svmlight S/rows.svm -o O/out.h5",
    "convert jsonl": "convert jsonl S/rows.jsonl -o O/out.h5",
    "convert docstrings": "convert docstrings -o O/out.h5",
    "convert synthetic": "convert synthetic gaussians --rows 500 -o O/out.h5",
    "info": "info S/data.h5",
    "split": "split S/plain.h5 -o O/out.h5",
    "select": "select S/data.h5 --features 5 -o O/out.h5",
    "train probe": "train probe S/data.h5 -o O/run --checkpoint-every 0.001",
    "train pegasos": "train pegasos S/data.h5 -o O/run --checkpoint-every 0.001",
    "train svmperf": "train svmperf S/data.h5 -o O/run --checkpoint-every 0.001",
    "train liblinear": "train liblinear S/data.h5 -o O/run --checkpoint-every 0.001",
    "train dual": "train dual S/data.h5 -o O/run --checkpoint-every 0.001",
    "train psbml": "train psbml S/classes.h5 -o O/run --grid 2x1 --cycles 3 --checkpoint-every 0.001",
    "train adaboost": "train adaboost S/classes.h5 -o O/run",
    "train mbw": "train mbw S/data.h5 -o O/run --checkpoint-every 0.001",
    "merge": "merge S/probe S/probe2 -o O/table.csv",
    "evaluate": "evaluate S/probe/model.h5 S/data.h5 --json O/measures.json",
    "predict h5": "predict S/probe/model.h5 S/data.h5 -o O/out.h5",
    "predict scores": "predict S/probe/model.h5 S/data.h5 --all-scores -o O/out.h5",
    "predict csv": "predict S/probe/model.h5 S/data.h5 -o O/out.csv",
    "predict parquet": "predict S/probe/model.h5 S/data.h5 -o O/out.parquet",
    "predict text": "predict S/probe/model.h5 S/rows.svm -o O/out.csv",
    "prune": "prune S/probe/model.h5 S/data.h5 --below 0.01 -o O/out.h5",
    "check": "check O/check",
    "cv": "cv multinomial-nb S/data.h5 -o O/table.csv",
    "train elastic-net": "train elastic-net S/data.h5 -o O/run --checkpoint-every 0.001",
    "threshold": "threshold S/probe/model.h5 S/data.h5 --split test --measure label -o O/out.h5",
    "explain": "explain S/probe/model.h5 --json O/out.json",
    "duplicates": "duplicates S/data.h5 -o O/out.csv",
}
ALONE = {"train adaboost"}  # on one rank here
QUIET = {"info"}
CHECKPOINTED = {name for name in COMMANDS if "--checkpoint-every" in COMMANDS[name]}
RESUMED = {"train probe", "train dual", "train psbml", "train mbw"}  # in S/NAME there is an unfinished run
FOLDERS = {"train liblinear", "train adaboost", "check"} | CHECKPOINTED  # no file of theirs shows that they write

PHASES = ("import", "start", "work", "compile", "write", "checkpoint", "resume", "end")
SIGNALS = ("TERM", "INT", "TERM of rank 0", "TERM of rank 1", "TERM of mpirun", "KILL of mpirun", "KILL of its proxy")

# Where a process gets stuck, in a library that swallows whatever is raised.
STUCK = """
import contextlib, importlib.abc, importlib.util

class After(importlib.abc.MetaPathFinder):
    \"\"\"Calls `act(module)` when a module has been imported; with `early`, before.\"\"\"
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

def hit():
    how, _, whom = {how!r}.partition(" of ")
    number = getattr(signal, "SIG" + how)
    if not whom:
        strike()
        os.kill(os.getpid(), number)
    elif rank == 0:
        time.sleep(0.1 if "mpi4py.MPI" in sys.modules else 1)  # until the others have begun
        strike()
        time.sleep(0.3)  # until that has been passed on
        os.kill(process(whom), number)

def stick(*_):
    hit()
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)

def phase_import():
    sys.meta_path.insert(0, After("numpy", stick, early=True))

def phase_start():  # rank 1 is late, so that the others wait in MPI
    def act(module):
        def load(whole=module.load):
            if rank == 1:
                stick()
            hit()
            whole()
            stick()
        module.load = load
    sys.meta_path.insert(0, After("hpcml.mpi.runtime", act))

def phase_work():
    sys.meta_path.insert(0, After("hpcml.mpi.start", lambda module: before(module, "start", stick)))

def phase_compile():
    sys.meta_path.insert(0, After("numba.core.dispatcher", lambda module: before(module.Dispatcher, "compile", stick)))

def phase_write():
    def act(module):
        claimed = module.claimed
        @contextlib.contextmanager
        def patched(*args, **kwargs):
            with claimed(*args, **kwargs):
                stick()
                yield
        module.claimed = patched
    sys.meta_path.insert(0, After("hpcml.files.temporary", act))

def phase_checkpoint():
    sys.meta_path.insert(0, After("hpcml.run.checkpoint", lambda module: before(module.Checkpoints, "save", stick)))

def phase_resume():
    sys.meta_path.insert(0, After("hpcml.run.checkpoint", lambda module: before(module.Checkpoints, "newest", stick)))

def phase_end():  # everything is done, but MPI not yet ended
    sys.meta_path.insert(0, After("hpcml.mpi.runtime", lambda module: before(module, "end", hit)))

phase_{phase}()
"""


def phases_of(name):
    """The phases that a command has."""
    found = ["import", "work", "end"] + ["start"] * (name not in ALONE)
    found += ["write"] * (name not in QUIET | FOLDERS) + ["checkpoint"] * (name in CHECKPOINTED and name != "train liblinear")
    return found + ["resume"] * (name in RESUMED)


def make_samples(folder):
    """What the commands read. Returns the folder."""
    X, Y = random_data(7, 120, 30, 4, density=0.3)
    data = abs(X), Y  # the Winnow learners take no negative values
    train_rows, test_rows = np.arange(80), np.arange(80, 120)
    dataset(folder / "plain.h5", *data)
    file = dataset(folder / "data.h5", *data, splits={"train": train_rows, "test": test_rows})
    X, _, Y = class_data(7, 200, 6, 3)
    classes = dataset(folder / "classes.h5", X, Y)
    lines = [" ".join(f"{j + 1}:{v:.3f}" for j, v in zip(row.indices, row.data, strict=True)) for row in data[0]]
    (folder / "rows.svm").write_text("".join(f"{number % 3} {line}\n" for number, line in enumerate(lines)))
    (folder / "rows.jsonl").write_text("".join(f'{{"text": "word{n % 7} of row", "labels": ["l{n % 3}"]}}\n' for n in range(90)))
    train("probe", None, file, folder / "probe", {})
    train("probe", None, file, folder / "probe2", {"bias": True})
    psbml = PsbmlOptions(grid="2x1", cycles=3)
    unfinished = {
        "train probe": lambda run: train("probe", None, file, run, {"time_limit": 1e-9}),
        "train dual": lambda run: train("dual", None, file, run, {"time_limit": 1e-9}),
        "train psbml": lambda run: train("psbml", None, classes, run, replace(psbml, time_limit=1e-9)),
        "train mbw": lambda run: train("mbw", None, file, run, {"time_limit": 1e-9}),
    }
    for name, begin in unfinished.items():
        with pytest.raises(Interrupted):
            begin(folder / name)
    return folder


class NotReached(Exception):
    """The command ended without coming to the phase."""


@dataclass
class Outcome:
    """How a command ended: exit code, stderr, seconds since the strike, and what is left that should not be."""

    code: int
    stderr: str
    seconds: float
    left: list[str]


def interrupt(mpirun, samples, folder, name, phase, how):
    """The Outcome of a command (in `folder`, which is empty) to which it happens in a phase."""
    arguments = [word.replace("S/", f"{samples}/").replace("O/", f"{folder}/") for word in COMMANDS[name].split()]
    if phase == "resume":
        shutil.copytree(samples / name, folder / "run")
        arguments.append("--resume")
    temporary = folder / "temporary"
    temporary.mkdir()
    code_file = folder / "code"
    env = {"TMPDIR": str(temporary), "HPCML_EXIT_FILE": str(code_file)}
    env |= {"NUMBA_CACHE_DIR": str(folder / "cache")} if phase == "compile" else {}
    n = 0 if " of " not in how and phase != "start" else 1 if name in ALONE else 2
    job = mpirun.start(n, *arguments, program=program(STUCK.format(how=how, phase=phase)), env=env)
    result = job.wait(60)
    processes = end = None
    while (processes := job.environments()) and time.monotonic() < (end := end or time.monotonic() + 10):
        time.sleep(0.01)
    struck = re.search(r"^FAULT (\S+)$", result.stderr, re.MULTILINE)
    if not struck:
        raise NotReached(f"{name} never came to the phase {phase!r}: {result.stderr}")
    seconds = time.monotonic() - float(struck[1])
    left = [str(path.relative_to(folder)) for path in folder.rglob("*") if re.search(r"\.part-|\.tmp\.", path.name)]
    left += [f"process {pid}" for pid in processes] + [str(path.relative_to(folder)) for path in temporary.iterdir()]
    code = result.returncode
    if code == signal.SIGKILL and not how.startswith("KILL") and code_file.exists():  # by MPICH's launcher
        code = int(code_file.read_text())
    return Outcome(code, result.stderr, seconds, left)


def expected(name, phase, how):
    """The exit code and the sentence that an interrupted command ends with; None: any code that has no meaning, no sentence."""
    if how.startswith("KILL"):
        return None, ""
    if phase == "end":  # everything was done
        return 0, ""
    number = signal.SIGTERM if how.startswith("TERM") else signal.SIGINT
    said = f"hpcml: interrupted by {number.name}"
    if phase in ("checkpoint", "resume") and name in CHECKPOINTED:
        return 75, f"{said} and without a new checkpoint after 3.3 s; continue with --resume, from the "
    return 128 + number, said


def problems(outcome, name, phase, how):
    """What is wrong with an outcome, besides its time."""
    code, said = expected(name, phase, how)
    ours = [line for line in outcome.stderr.splitlines() if line.startswith("hpcml: ")]
    left = [what for what in outcome.left if not (how.startswith("KILL") and ".part-" in what)]  # the next run removes it
    found = [f"left: {what}" for what in left] + ["a traceback"] * ("Traceback" in outcome.stderr)
    if code is None:
        return found + [f"exit code {outcome.code}"] * (outcome.code in (0, 2, 75)) + ours[1:]
    found += [f"exit code {outcome.code}, not {code}"] * (outcome.code != code)
    if said and (len(ours) != 1 or not ours[0].startswith(said)):
        found.append(f"said {ours}")
    return found
