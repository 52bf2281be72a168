"""The holder of the lock on a folder, by the lock's file, and whether it can still be alive."""

from __future__ import annotations

import json
import os
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from hpcml.mpi.runtime import node_name

ALIVE, DEAD, UNKNOWN = "alive", "dead", "unknown"
LONGEST = 2000  # bytes of a lock's file that are read
_SQUEUE_SECONDS = 10


@dataclass(frozen=True)
class Holder:
    """A process, named so that no later one is taken for it."""

    process: int
    started: int  # clock ticks from the boot to its start
    numbers: str  # the namespace of process numbers
    boot: str  # of the machine's kernel, other after every boot
    node: str
    job: str  # of Slurm; "" outside of it
    restart: str  # which start of the job, "0" for the first
    since: str

    @classmethod
    def this(cls) -> Holder:
        """This process, now."""
        job, restart = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_RESTART_COUNT", "0")
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        return cls(os.getpid(), _started(os.getpid()), _numbers(), _boot(), node_name(), job, restart, now)

    @classmethod
    def of(cls, content: bytes) -> Holder | None:
        """The holder that the file names; None if it names none that is understood."""
        try:
            found = json.loads(content)
            holder = cls(**{field.name: found[field.name] for field in fields(cls)})
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        numbers, words = (holder.process, holder.started), (*asdict(holder).values(),)[2:]
        sound = all(type(n) is int and 0 <= n < 2**63 for n in numbers) and all(type(w) is str and w.isprintable() for w in words)
        return holder if sound else None

    def signature(self) -> bytes:
        """The text of the file; `of` reads it."""
        return (json.dumps(asdict(self)) + "\n").encode()

    def state(self) -> str:
        """ALIVE or DEAD if it ran where this process can tell, else UNKNOWN."""
        if not self.boot or (self.boot, self.numbers) != (_boot(), _numbers()):
            return UNKNOWN
        return ALIVE if _started(self.process) == self.started else DEAD

    def why_over(self) -> str:
        """The evidence that it has ended, or "". May ask Slurm, for a few seconds."""
        mine = Holder.this()
        if self.state() == DEAD:
            return "that process has ended"
        if self.boot != mine.boot and self.node == mine.node:
            return f"{self.node} was booted since"
        if self.job and self.job == mine.job and self.restart != mine.restart:
            return "that was an earlier start of this job"
        return "that job is over" if self.job and _is_over(self.job) else ""

    def __str__(self) -> str:
        job = f" (Slurm job {self.job})" if self.job else ""
        return f"process {self.process} on {self.node}{job} since {self.since}"


def _started(process: int) -> int:
    """When a process began, in clock ticks since the boot; 0 if there is none or a zombie."""
    try:
        words = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return 0 if words[0] in "ZX" else int(words[19])
    except (OSError, IndexError, ValueError):
        return 0


def _numbers() -> str:
    with suppress(OSError):
        return str(Path("/proc/self/ns/pid").readlink())
    return ""


def _boot() -> str:
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _is_over(job: str) -> bool:
    """Whether Slurm says, and soon, that there is no such job any more."""
    if not job.isdigit():
        return False
    command = ("squeue", "--noheader", f"--jobs={job}", "--format=%T")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SQUEUE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return "Invalid job id" in done.stderr if done.returncode else not done.stdout.strip()
