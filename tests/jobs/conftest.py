"""Jobs of real processes, `mpirun … python -m hpcml …`, which have a time limit and end with their test."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
import venv
from pathlib import Path

import pytest

import hpcml

RANK_NAMES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
LAUNCHERS = ("PMI_", "PMIX_", "OMPI_", "MPI_LOCAL", "HYDRA_", "HYDI_")
STANDING = Path(__file__).with_name("standing.py")
MARK = "HPCML_TEST_JOB"
YIELD = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"}  # waiting ranks of MPICH leave the cores to others
SECONDS = 240  # until a job counts as hanging: far more than any takes on a loaded machine


class Job:
    """A running `mpirun`. A variable in their environment identifies its processes, because some start sessions of their own."""

    def __init__(self, n, command, env, folder):
        self.n, self.mark = n, uuid.uuid4().hex
        clean = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHERS)}
        self.command = ["mpirun", "-n", str(n), *command] if n else command
        self.outputs = [Path(folder, f"{self.mark}.{name}") for name in ("out", "err")]
        with self.outputs[0].open("wb") as out, self.outputs[1].open("wb") as err:
            options = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, "start_new_session": True}
            self.process = subprocess.Popen(self.command, env=YIELD | clean | {MARK: self.mark} | (env or {}), **options)

    def environments(self):
        """Return the environment of each of the job's processes, by process id."""
        environments = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                pairs = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:  # the process has ended, or is another user's
                continue
            variables = dict(pair.partition("=")[::2] for pair in pairs)
            if variables.get(MARK) == self.mark:
                environments[int(entry.name)] = variables
        return environments

    def rank_pids(self):
        """Return the process id of each rank, in rank order, when all have started."""

        def all_ranks():
            ranks = {}
            for pid, variables in self.environments().items():
                ranks |= {int(variables[name]): pid for name in RANK_NAMES if name in variables}
            return [ranks[rank] for rank in range(self.n)] if len(ranks) == self.n else None

        return self.until(all_ranks)

    def until(self, condition, timeout=SECONDS):
        """Poll until `condition()` is true and return its value; fail if the job ends before."""
        end = time.monotonic() + timeout
        while not (value := condition()):
            if self.process.poll() is not None or time.monotonic() > end:
                value = condition()
                if not value:
                    self.fail("the job ended, or the time limit passed, before the condition became true")
                break
            time.sleep(0.01)
        return value

    def output(self):
        return tuple(path.read_text(errors="replace") for path in self.outputs)

    def wait(self, timeout=SECONDS):
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.fail(f"still running after {timeout} s")
        return subprocess.CompletedProcess(self.command, code, *self.output())

    def fail(self, reason):
        self.kill()
        out, err = self.output()
        pytest.fail(f"{' '.join(map(str, self.command))}: {reason}\n--- stdout\n{out}\n--- stderr\n{err}", pytrace=False)

    def kill(self):
        for pid in (*self.environments(), self.process.pid) if self.process.poll() is None else self.environments():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()


class Mpirun:
    """Starts jobs of `n` ranks; 0 is one process without a launcher."""

    def __init__(self, folder):
        self.folder, self.jobs = folder, []

    def start(self, n, *args, env=None, program=("-m", "hpcml"), python=sys.executable):
        self.jobs.append(Job(n, [str(python), *program, *map(str, args)], env, self.folder))
        return self.jobs[-1]

    def __call__(self, n, *args, timeout=SECONDS, **options):
        return self.start(n, *args, **options).wait(timeout)


@pytest.fixture
def mpirun(tmp_path_factory):
    """`mpirun(n, *args)` runs `hpcml args…` on n ranks to its end; `mpirun.start(n, *args)` returns the running job."""
    launcher = Mpirun(tmp_path_factory.mktemp("jobs"))
    yield launcher
    for job in launcher.jobs:
        job.kill()


class Standing:
    def __init__(self, n, folder):
        self.n, self.folder, self.job, self.number = n, folder, None, 0

    def __call__(self, *args, timeout):
        if self.job is None or self.job.process.poll() is not None:
            self.commands, self.number = self.folder / uuid.uuid4().hex, 0
            self.commands.mkdir()
            self.job = Job(self.n, [sys.executable, str(STANDING), str(self.commands), str(os.getpid())], None, self.folder)
        number, self.number = self.number, self.number + 1
        self.send(number, list(map(str, args)))
        codes = self.commands / f"{number}.codes"
        end, pause = time.monotonic() + timeout, 0.002
        while not codes.exists() and self.job.process.poll() is None:
            if time.monotonic() > end:
                self.job.fail(f"{args}: still running after {timeout} s; {self.printed(number)}")
            time.sleep(pause)
            pause = min(0.05, 1.1 * pause)
        if not codes.exists():
            return subprocess.CompletedProcess(args, self.job.process.returncode, *self.printed(number))
        (code,) = set(json.loads(codes.read_text()))  # the same on all ranks
        return subprocess.CompletedProcess(args, code, *self.printed(number))

    def send(self, number, arguments):
        part = self.commands / "part.json"
        part.write_text(json.dumps(arguments))
        part.rename(self.commands / f"{number}.json")

    def printed(self, number):
        """Return what all ranks have printed while running a command: (stdout, stderr)."""
        files = ([self.commands / f"{number}.{rank}.{name}" for rank in range(max(1, self.n))] for name in ("out", "err"))
        return tuple("".join(path.read_text(errors="replace") for path in paths if path.exists()) for paths in files)

    def close(self):
        if self.job is not None:
            self.send(self.number, None)
            self.job.kill()


@pytest.fixture(scope="session")
def standing(tmp_path_factory):
    """`standing(n, *args)` equals `mpirun(n, *args)`, on ranks that are started once; it has no options env and program."""
    ranks = {}

    def run(n, *args, timeout=SECONDS):
        if n not in ranks:
            ranks[n] = Standing(n, tmp_path_factory.mktemp(f"standing{n}"))
        return ranks[n](*args, timeout=timeout)

    yield run
    for each in ranks.values():
        each.close()


@pytest.fixture(scope="session")
def python_without_mpi(tmp_path_factory):
    """The interpreter of a virtual environment with the packages of this one, but without its MPI library."""
    folder = tmp_path_factory.mktemp("machine") / "venv"
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    folders = [path for path in sys.path if path.endswith("site-packages")] + [str(Path(hpcml.__file__).parents[1])]
    (packages / "others.pth").write_text("\n".join(folders) + "\n")
    return folder / "bin" / "python"
