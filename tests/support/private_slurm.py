"""A private Slurm of four nodes for tests, and ways to disturb its jobs."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "launch" / "slurm-here.sh"
LIMIT = 600  # seconds until a wait fails: a hundred times what a job takes on an idle machine
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"}


class CannotRun(Exception):
    """Slurm cannot run on this machine; the message says why."""


class Slurm:
    def __init__(self, env, folder):
        self.env, self.folder = env, folder

    def run(self, *command, script=None, check=True):
        options = {"cwd": ROOT, "env": self.env, "capture_output": True, "text": True, "timeout": LIMIT}
        result = subprocess.run([*map(str, command)], input=script, **options, check=False)
        assert result.returncode == 0 or not check, f"{command}: {result.stdout}{result.stderr}"
        return result.stdout.strip()

    def script(self, *words):
        return self.run(sys.executable, "-m", "hpcml", "job", "--scheduler", "slurm", *words)

    def submit(self, *words, options=()):
        return self.submit_script(self.script(*words), *options)

    def submit_script(self, script, *options):
        return self.run("sbatch", "--parsable", f"--output={self.folder}/%A-%a.out", *options, script=script)

    def printed(self, job):
        return "".join(path.read_text() for path in sorted(self.folder.glob(f"{job}-*.out")))

    def show(self, job):
        return self.run("scontrol", "show", "job", job)

    def states(self, job):
        return re.findall(r"JobState=(\S+)", self.show(job))

    def report(self):
        commands = (["squeue", "--long"], ["sinfo", "--Node", "--long"], ["sinfo", "--list-reasons"])
        outputs = sorted(self.folder.glob("*.out"), key=lambda path: path.stat().st_mtime)
        logs = [*outputs[-3:], self.folder / "here" / "slurmctld.log"]
        parts = [f"$ {' '.join(command)}\n{self.run(*command, check=False)}" for command in commands]
        return "\n".join([*parts, *(f"$ tail {path}\n{''.join(path.open().readlines()[-60:])}" for path in logs)])

    def until(self, job, condition, what):
        """Poll until `condition()` is true and return its value."""
        end = time.monotonic() + LIMIT
        while not (value := condition()):
            if time.monotonic() > end:
                raise AssertionError(f"job {job}: no {what} within {LIMIT} s\n{self.show(job)}\n{self.printed(job)}")
            time.sleep(0.2)
        return value

    def end_of(self, job):
        """Wait until all tasks of a job have ended and return their exit codes."""
        self.until(job, lambda: ENDED.issuperset(self.states(job)), "end")
        return [int(code) for code in re.findall(r"ExitCode=(\d+):", self.show(job))]


def hpcml(*args):
    subprocess.run([sys.executable, "-m", "hpcml", *map(str, args)], check=True, timeout=LIMIT, capture_output=True)


@contextlib.contextmanager
def private_slurm(folder):
    """Start a Slurm whose files and job outputs are in `folder`, and stop it at the end. Raises CannotRun."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "PMI_", "OMP_", "HPCML_RANKS"))}
    env |= {"HPCML_SLURM": str(folder / "here"), "VIRTUAL_ENV": sys.prefix}

    def run_program(*arguments):
        return subprocess.run([PROGRAM, *arguments], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)

    up = run_program("up", "4")
    if up.returncode == 3:
        raise CannotRun(up.stderr.strip())
    try:
        assert up.returncode == 0, up.stderr
        show = f'{run_program("env").stdout}\nexec "$0" -c "import os, json; print(json.dumps(dict(os.environ)))"'
        variables = subprocess.run(["bash", "-c", show, sys.executable], env=env, capture_output=True, check=True).stdout
        yield Slurm(json.loads(variables), folder)
    finally:
        down = run_program("down")
        assert down.returncode == 0, down.stderr
        assert {path.name for path in (folder / "here").iterdir()} <= {".slurm-here", ".cache"}


def preempt(slurm, job):
    slurm.run("srun", "--partition=urgent", "--nodes=4", "--exclusive", "true")


def signal(slurm, job):
    slurm.run("scancel", "--signal=USR1", job)


def node_down(slurm, job):
    node = re.search(r"NodeList=(node\d)|NodeList=node\[\d-(?P<last>\d)", slurm.show(job).partition("ReqNodeList")[2])
    name = node[1] or f"node{node['last']}"
    slurm.run("scontrol", "update", f"nodename={name}", "state=down", "reason=test")


def kill_rank(slurm, job):
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0") if folder.name.isdigit() else []
            is_rank_1 = {b"SLURM_JOB_ID=%d" % int(job), b"SLURM_PROCID=1"}.issubset(variables)
            if is_rank_1 and b"hpcml" in (folder / "cmdline").read_bytes():
                os.kill(int(folder.name), 9)
