"""`hpcml job COMMAND ... --scheduler slurm`."""

import os
import re
import shlex
import sys
from dataclasses import KW_ONLY, dataclass, fields
from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from hpcml.commands.operation import HIDDEN, Operation, Session, Strings, TrainingOperation
from hpcml.errors import EXIT_RESUMABLE, ConfigError, OptionError
from hpcml.log import say
from hpcml.options import Flag, Range, check_rules, command_flags
from hpcml.planning.schedulers import AGAIN, DIRECTIVES, LAUNCHERS, NETMOD, ONCE, PREFIX, REQUEUE, SCHEDULERS, SUBMIT

MAX_STARTS = 20  # of a run; its job is then not queued again
TIME = re.compile(r"(\d{1,4}):([0-5]\d):([0-5]\d)")
PLAIN = re.compile(r"[\w.,:@%+=/~-]+")  # a word that needs no quotes in a script or directive


@dataclass(frozen=True)
class JobScript(Operation[str]):
    """Print a job script for Slurm, PBS, LSF or Flux.

    The options of `hpcml job` may be anywhere on the command line; all other words are the command of the job, which is checked
    before the script is printed. All words after `--` belong to the command.

    The script starts this installation of hpcml, with one thread per rank.
    """

    command: Annotated[Strings, Parameter(allow_leading_hyphen=True)]
    """Command of hpcml that the job runs, such as `train dual data.h5 -o run`."""
    _: KW_ONLY
    scheduler: Literal["slurm", "pbs", "lsf", "flux"]
    """Scheduler of the cluster."""
    nodes: Annotated[int, Range(1, 10**6)] = 1
    """Number of nodes."""
    ranks_per_node: Annotated[int | None, Range(1, 10**6)] = None
    """Number of ranks per node, usually its number of cores. Default: 1."""
    time: str = "01:00:00"
    """Time limit of the job, as HOURS:MINUTES:SECONDS."""
    memory: Annotated[int | None, Range(1, 10**6)] = None
    """Memory per node, in GiB. Default: the default of the cluster."""
    partition: Annotated[str | None, Parameter(name=["--partition", "--queue"])] = None
    """Partition, or queue. Default: the default of the cluster."""
    account: str | None = None
    """Account, project or bank to charge. Default: the default of the user."""
    name: str | None = None
    """Name of the job. Default: hpcml-COMMAND."""
    module: Annotated[Strings, Parameter(negative="")] = ()
    """Environment module to load, such as openmpi/5.0; may be repeated. Default: none."""
    directive: Annotated[Strings, Parameter(negative="")] = ()
    """Further option for the scheduler, such as --directive=--gres=gpu:1; may be repeated. Default: none."""
    launcher: str | None = None
    """Command that starts the ranks, with its options. Default: by the scheduler and the MPI library of mpi4py."""
    requeue: Flag = False
    """Add --resume and --time-limit to the command, and queue the job again when its time is up, for at most 20 starts."""
    operation: Annotated[Any, HIDDEN] = None
    """Operation of the command."""

    needs_mpi = False

    def check_options(self, *_inputs: str) -> None:
        check_rules(self)
        operation: Any = self.operation
        options = getattr(operation, "options", None)
        if not isinstance(operation, Operation) or not operation.needs_mpi:
            example = "hpcml job train dual data.h5 -o run --scheduler slurm"
            raise ConfigError(f"missing the command of the job; example: {example}")
        operation.check_options()
        if hasattr(options, "validate"):
            options.validate()
        for name in ("partition", "account", "name", "module"):
            for each in value if isinstance(value := getattr(self, name), tuple) else (value,):
                if each is not None and not PLAIN.fullmatch(each):
                    raise OptionError(name, repr(each), "expected a word without spaces and quotes")
        for each in (*self.command, *self.directive, self.launcher or ""):
            if not each.isprintable():
                raise ConfigError(f"{each!r}: a job script cannot have line breaks or control characters; remove them")
        if not TIME.fullmatch(self.time) or self.seconds == 0:
            raise OptionError("time", self.time, "expected HOURS:MINUTES:SECONDS, as in 02:00:00")
        if self.scheduler == "flux" and self.memory is not None:
            raise OptionError("memory", self.memory, "Flux has no option for memory; remove it")
        if not self.requeue:
            return
        if not isinstance(operation, TrainingOperation) or not operation.can_resume():
            raise OptionError("requeue", True, f"{' '.join(self.command[:2])} cannot resume; remove it")
        if operation.force:
            raise OptionError("requeue", True, "has no effect with", "force")
        if getattr(options, "path", None):
            raise OptionError("requeue", True, "each value of --path is a separate run; use one --l1 in each job")
        if self.seconds < 300:
            raise OptionError("time", self.time, "expected at least 00:05:00 with --requeue")

    @property
    def seconds(self) -> int:
        hours, minutes, seconds = map(int, self.time.split(":"))
        return 3600 * hours + 60 * minutes + seconds

    def execute(self, session: Session) -> str:
        number, minutes, ranks = SCHEDULERS.index(self.scheduler), -(-self.seconds // 60), self.ranks_per_node or 1
        if self.ranks_per_node is None and self.nodes > 1:
            say("warning: one rank per node; use more of its cores with --ranks-per-node", sys.stderr)
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {"ranks_per_node": ranks, "ranks": self.nodes * ranks, "seconds": self.seconds, "once": not self.requeue}
        values |= {"name": self.name or f"hpcml-{self.command[0]}", "chunk_memory": f":mem={self.memory}gb" if self.memory else ""}
        values |= {"hours_minutes": f"{minutes // 60:02}:{minutes % 60:02}", "itself": self.command_line}
        launcher = self.launcher
        if launcher is None:
            os.environ["MPI4PY_RC_INITIALIZE"] = "0"  # only its name is needed
            from hpcml.mpi import library

            kind = library()
            launcher = next(text for word, text in LAUNCHERS[number].items() if word in kind).format(**values)
        lines = [texts[number].format(**values) for name, texts in DIRECTIVES.items() if values[name] not in (None, False)]
        if launcher.startswith("jsrun"):  # LSF then assigns whole nodes
            lines[1] = f"-nnodes {self.nodes}"
        command, output = ["hpcml", *self.command], Path(getattr(self.operation, "output", ""))
        if self.requeue:
            limit = getattr(getattr(self.operation, "options", self.operation), "time_limit", None)
            command += [] if self.operation.resume else ["--resume"]
            command += [] if limit else ["--time-limit", str(self.seconds - max(120, self.seconds // 10))]
        head = [
            "#!/bin/bash -l" if self.module else "#!/bin/bash",  # a login shell has the command `module`
            *(PREFIX[number] + line for line in [*lines, *self.directive] if line),
            f"# Printed by: {self.command_line}",
            f"# Submit with: {SUBMIT[number]} job.sh\n\nset -e",
            'cd "$PBS_O_WORKDIR"' if self.scheduler == "pbs" else "",
            f"module load {' '.join(self.module)}" if self.module else "",
            f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH",
            NETMOD if "--mpi=pmi2" in launcher and any(distributions(name="mpich")) else "",
        ]
        values = {"launcher": launcher, "command": shlex.join(command), "again": AGAIN[number].format(**values)}
        values |= {"code": EXIT_RESUMABLE, "most": MAX_STARTS, "exit_file": shlex.quote(f"{output}.exit-code")}
        values["starts_file"] = shlex.quote(f"{output}/environment.jsonl")
        return "\n".join(filter(None, head)) + (REQUEUE if self.requeue else ONCE).format(**values).rstrip("\n")

    @property
    def command_line(self) -> str:
        return shlex.join(["hpcml", "job", *command_flags(self, "command", "operation"), "--", *self.command])
