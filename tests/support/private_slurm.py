"""A private Slurm of four nodes for tests and experiments, and what can happen to its jobs."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = ROOT / "launch" / "slurm-here.sh"
LIMIT = 180  # seconds for a job, on a machine that has much else to do


class CannotRun(Exception):
    """No Slurm can run on this machine; says why."""


class Slurm:
    """Commands of the private Slurm, in the project's folder; what jobs print lies in `folder`."""

    def __init__(self, env, folder):
        self.env, self.folder = env, folder

    def run(self, *command, script=None):
        how = {"cwd": ROOT, "env": self.env, "capture_output": True, "text": True, "timeout": LIMIT, "check": False}
        done = subprocess.run([*map(str, command)], input=script, **how)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    def script(self, *words):
        """The script that `hpcml job` prints."""
        command = [sys.executable, "-m", "hpcml", "job", "--scheduler", "slurm", *map(str, words)]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def submit(self, *words, options=()):
        """Submit the script that `hpcml job` prints; the job's number."""
        return self.submit_script(self.script(*words), *options)

    def submit_script(self, script, *options):
        """Submit a script; the job's number."""
        return self.run("sbatch", "--parsable", f"--output={self.folder}/%A-%a.out", *options, script=script)

    def printed(self, job):
        return "".join(path.read_text() for path in sorted(self.folder.glob(f"{job}-*.out")))

    def report(self):
        """What this Slurm and its jobs have to say, for a test that failed."""
        questions = (["squeue", "--long"], ["sinfo", "--Node", "--long"], ["sinfo", "--list-reasons"])
        told = [f"$ {' '.join(question)}\n{self.ask(question)}" for question in questions]
        outputs = sorted(self.folder.glob("*.out"), key=lambda path: path.stat().st_mtime)
        logs = [*outputs[-3:], self.folder / "here" / "slurmctld.log"]
        return "\n".join([*told, *(f"$ tail {path}\n{''.join(path.open().readlines()[-60:])}" for path in logs)])

    def ask(self, command):
        """What a command prints, whatever its exit code, if it ends soon."""
        options = {"env": self.env, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        try:
            return subprocess.run(command, **options, timeout=30, check=False).stdout
        except subprocess.TimeoutExpired:
            return "no answer within 30 s\n"

    def until(self, job, condition, what, limit=LIMIT, pause=0.1):
        """Poll until `condition()` is true."""
        end = time.monotonic() + limit
        while not (value := condition()):
            if time.monotonic() > end:
                raise AssertionError(f"job {job}: no {what} within {limit} s\n{self.show(job)}\n{self.printed(job)}")
            time.sleep(pause)
        return value

    def show(self, job):
        return self.run("scontrol", "show", "job", job)

    def states(self, job):
        return re.findall(r"JobState=(\S+)", self.show(job))

    def end_of(self, job, limit=LIMIT):
        """Wait until all tasks of a job have ended; the exit codes."""
        ended = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"}
        self.until(job, lambda: ended.issuperset(self.states(job)), "end", limit, pause=0.5)
        return [int(code) for code in re.findall(r"ExitCode=(\d+):", self.show(job))]


def hpcml(*args, limit=LIMIT):
    """Run a command on one rank, outside of Slurm."""
    subprocess.run([sys.executable, "-m", "hpcml", *map(str, args)], check=True, timeout=limit, capture_output=True)


@contextlib.contextmanager
def private_slurm(folder):
    """A Slurm whose files, and those of its jobs, lie in `folder`; taken down at the end. Raises CannotRun."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "PMI_", "OMP_", "HPCML_RANKS"))}
    env |= {"HPCML_SLURM": str(folder / "here"), "VIRTUAL_ENV": sys.prefix}

    def here(*arguments):
        return subprocess.run([HERE, *arguments], env=env, capture_output=True, text=True, timeout=120, check=False)

    up = here("up", "4")
    if up.returncode == 3:
        raise CannotRun(up.stderr.strip())
    try:
        assert up.returncode == 0, up.stderr
        show = f'{here("env").stdout}\nexec "$0" -c "import os, json; print(json.dumps(dict(os.environ)))"'
        words = subprocess.run(["bash", "-c", show, sys.executable], env=env, capture_output=True, check=True, timeout=30).stdout
        yield Slurm(json.loads(words), folder)
    finally:
        down = here("down")
        assert down.returncode == 0, down.stderr
        assert {path.name for path in (folder / "here").iterdir()} <= {".slurm-here", ".cache"}


def preempt(slurm, job):
    """A job of the partition that goes before takes all nodes."""
    slurm.run("srun", "--partition=urgent", "--nodes=4", "--exclusive", "true")


def signal(slurm, job):
    slurm.run("scancel", "--signal=USR1", job)


def node_down(slurm, job):
    node = re.search(r"NodeList=(node\d)|NodeList=node\[\d-(?P<last>\d)", slurm.show(job).partition("ReqNodeList")[2])
    name = node[1] or f"node{node['last']}"
    slurm.run("scontrol", "update", f"nodename={name}", "state=down", "reason=test")


def cancel(slurm, job):
    slurm.run("scancel", job)


def ranks_of(job):
    """The processes of a job's ranks: their numbers by rank."""
    found = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            environ = (folder / "environ").read_bytes().split(b"\0") if folder.name.isdigit() else []
            variables = dict(variable.split(b"=", 1) for variable in environ if b"=" in variable)
            is_ours = variables.get(b"SLURM_JOB_ID") == str(job).encode() and b"SLURM_PROCID" in variables
            if is_ours and b"hpcml" in (folder / "cmdline").read_bytes():
                found[int(variables[b"SLURM_PROCID"])] = int(folder.name)
    return found


def kill_rank(slurm, job):
    """As the kernel does where memory ends."""
    os.kill(ranks_of(job)[1], 9)
