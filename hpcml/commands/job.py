"""`hpcml job COMMAND ... --scheduler slurm`."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import KW_ONLY, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from hpcml.commands.operation import HIDDEN, Operation, Session, Strings
from hpcml.errors import EXIT_RESUMABLE, ConfigError, OptionError, flag_of
from hpcml.log import say
from hpcml.options import Flag, Range, check_rules, default_of
from hpcml.planning.schedulers import CAPS, NETMOD, ONCE, REQUEUE, SCHEDULERS

MOST_STARTS = 20  # of a run, before its job is no longer queued again
LEAST_SECONDS = 300  # that a job with --requeue asks for
TIME = re.compile(r"(\d{1,4}):([0-5]\d):([0-5]\d)")
PLAIN = re.compile(r"[\w.,:@%+=/~-]+")  # a word that needs no quotes in a script or a directive
EXAMPLE = "hpcml job train dual data.h5 -o run --scheduler slurm"


@dataclass(frozen=True)
class JobScript(Operation[str]):
    """Print a job script for Slurm, PBS, LSF or Flux.

    The options of `hpcml job` may stand anywhere on the line. All other words are the command of the
    job, which is checked before the script is printed. All words behind `--` belong to the command.

    The script starts this installation of hpcml, with one thread on each rank.
    """

    command: Annotated[Strings, Parameter(allow_leading_hyphen=True)]
    """The command of hpcml that the job runs, such as `train dual data.h5 -o run`."""
    _: KW_ONLY
    scheduler: Literal["slurm", "pbs", "lsf", "flux"]
    """The scheduler of the cluster."""
    nodes: Annotated[int, Range(1, 10**6)] = 1
    """Number of nodes."""
    ranks_per_node: Annotated[int | None, Range(1, 10**6)] = None
    """Number of ranks on each node, usually its number of cores. Default: 1."""
    time: str = "01:00:00"
    """Time limit of the job, as HOURS:MINUTES:SECONDS."""
    memory: Annotated[int | None, Range(1, 10**6)] = None
    """Memory of each node, in GiB. Default: that of the cluster."""
    partition: Annotated[str | None, Parameter(name=["--partition", "--queue"])] = None
    """The partition, or queue. Default: that of the cluster."""
    account: str | None = None
    """The account, project or bank that pays. Default: that of the user."""
    name: str | None = None
    """Name of the job. Default: hpcml-COMMAND."""
    module: Annotated[Strings, Parameter(negative="")] = ()
    """An environment module to load, such as openmpi/5.0; several: --module A --module B."""
    directive: Annotated[Strings, Parameter(negative="")] = ()
    """A further option for the scheduler, such as --directive=--gres=gpu:1; may be repeated."""
    launcher: str | None = None
    """The command that starts the ranks, with its options. Default: by the scheduler and the MPI library of
    mpi4py.
    """
    requeue: Flag = False
    """Add --resume and --time-limit to the command, and queue the job again when its time is up: until
    the run has started 20 times. For commands that can resume.
    """
    operation: Annotated[Any, HIDDEN] = None
    """The operation of the command."""

    needs_mpi = False

    def check_options(self, *_inputs: str) -> None:
        """Raise ConfigError for an option of the job or of its command that is out of range or without effect."""
        check_rules(self)
        if not isinstance(self.operation, Operation) or not self.operation.needs_mpi:
            raise ConfigError(f"the command of the job is missing; name it, as in: {EXAMPLE}")
        self.operation.check_options()
        if hasattr(options := getattr(self.operation, "options", None), "validate"):
            options.validate()
        for name in ("partition", "account", "name", "module"):
            for each in given if isinstance(given := getattr(self, name), tuple) else (given,):
                if each is not None and not PLAIN.fullmatch(each):
                    raise OptionError(name, repr(each), "expected a word without blanks and quotes")
        for each in (*self.command, *self.directive, self.launcher or ""):
            if not each.isprintable():
                raise ConfigError(f"{each!r}: a job script cannot hold line breaks and control characters; remove them")
        if not TIME.fullmatch(self.time) or self.seconds == 0:
            raise OptionError("time", self.time, "expected HOURS:MINUTES:SECONDS, as in 02:00:00")
        if self.scheduler == "flux" and self.memory is not None:
            raise OptionError("memory", self.memory, "Flux has no request for memory; remove it")
        if self.requeue:
            self._check_requeue()

    def _check_requeue(self) -> None:
        """Raise OptionError if the job cannot be queued again."""
        if not self.operation.can_resume():
            raise OptionError("requeue", True, f"{' '.join(self.command[:2])} cannot resume; remove it")
        if self.operation.force:
            raise OptionError("requeue", True, "has no effect with", "force")
        if getattr(getattr(self.operation, "options", None), "path", ()):
            raise OptionError("requeue", True, "each value of --path is a run of its own; train one --l1 in each job")
        if self.seconds < LEAST_SECONDS:
            raise OptionError("time", self.time, f"expected at least 00:{LEAST_SECONDS // 60:02}:00 with --requeue")

    @property
    def seconds(self) -> int:
        """The time limit of the job."""
        hours, minutes, seconds = map(int, self.time.split(":"))
        return 3600 * hours + 60 * minutes + seconds

    def execute(self, session: Session) -> str:
        """Return the script."""
        scheduler, command = SCHEDULERS[self.scheduler], ["hpcml", *self.command]
        minutes, ranks = -(-self.seconds // 60), self.ranks_per_node or 1
        if self.ranks_per_node is None and self.nodes > 1:
            say("warning: one rank on each node; use more of its cores with --ranks-per-node", sys.stderr)
        values = {
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "ranks_per_node": ranks,
            "name": self.name or f"hpcml-{self.command[0]}",
            "ranks": self.nodes * ranks,
            "seconds": self.seconds,
            "hours_minutes": f"{minutes // 60:02}:{minutes % 60:02}",
            "chunk_memory": f":mem={self.memory}gb" if self.memory else "",
            "itself": self.command_line,
        }
        directives = {"once": not self.requeue} | {name: value is not None and value is not False for name, value in values.items()}
        launcher = self.launcher or self._default_launcher().format(**values)
        lines = [text.format(**values) for name, text in scheduler.directives.items() if directives[name]]
        if launcher.startswith("jsrun"):  # where it is, LSF gives whole nodes
            lines[1] = f"-nnodes {self.nodes}"
        modules = [f"module load {' '.join(self.module)}"] if self.module else []
        path = [f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"]
        head = [
            "#!/bin/bash -l" if self.module else "#!/bin/bash",  # a login shell knows the command `module`
            *(scheduler.prefix + line for line in [*lines, *self.directive]),
            f"# Printed by: {self.command_line}",
            f"# Submit with: {scheduler.submit} job.sh",
            "",
            "set -e",
            *([scheduler.folder] if scheduler.folder else []),
            *modules,
            *path,
            CAPS,
            *([NETMOD] if "--mpi=pmi2" in launcher and _has_mpich_of_pip() else []),
        ]
        if self.requeue:
            command += [] if self.operation.resume else ["--resume"]
            command += [] if self._time_limit() else ["--time-limit", str(self.seconds - max(120, self.seconds // 10))]
        output = Path(getattr(self.operation, "output", ""))
        return "\n".join(head) + (REQUEUE if self.requeue else ONCE).format(
            launcher=launcher,
            command=shlex.join(command),
            code=EXIT_RESUMABLE,
            most=MOST_STARTS,
            again=scheduler.again.format(**values),
            exit_file=shlex.quote(f"{output}.exit-code"),
            starts_file=shlex.quote(f"{output}/environment.jsonl"),
        ).rstrip("\n")

    @property
    def command_line(self) -> str:
        """The command that prints this script."""
        words = ["hpcml", "job"]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("command", "operation") and value != default_of(field):
                flag, values = f"--{flag_of(field.name)}", value if isinstance(value, tuple) else (value,)
                words += [flag if each is True else f"{flag}={each}" for each in values]
        return shlex.join([*words, "--", *self.command])

    def _time_limit(self) -> float | None:
        """Return --time-limit of the command."""
        return getattr(getattr(self.operation, "options", self.operation), "time_limit", None)

    def _default_launcher(self) -> str:
        """Return the launcher for the scheduler and the MPI library of mpi4py, which is not started."""
        os.environ["MPI4PY_RC_INITIALIZE"] = "0"
        from hpcml.mpi import library

        kind, launchers = library(), SCHEDULERS[self.scheduler].launchers
        launcher = next(command for word, command in launchers.items() if word in kind)
        return f"{launcher} --kill-on-bad-exit=1" if launcher.startswith("srun") else launcher


def _has_mpich_of_pip() -> bool:
    """Return whether the MPI library is that of the package mpich."""
    try:
        return bool(version("mpich"))
    except PackageNotFoundError:
        return False
