"""What the commands of `hpcml` share: their session, parameters that many have, and results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from hpcml.log import say

GIVEN = Parameter(parse=False)
if TYPE_CHECKING:
    from hpcml.run.session import Session  # which imports MPI

    Here = Annotated[Session, GIVEN]
else:
    Here = Annotated[Any, GIVEN]  # the session in which a command runs: given to it, and no option

OUTPUT = ["--output", "-o"]
Output = Annotated[Path, Parameter(name=OUTPUT)]
Data = Annotated[Path, Parameter(help="A dataset made with `hpcml convert`.")]
ModelFile = Annotated[Path, Parameter(help="A run folder, or its model.h5.")]
JudgedData = Annotated[Path, Parameter(help="A dataset with the model's features and labels.")]
JUDGED = Parameter(help="Rows to judge on: a split of the file, or all. Default: test if the file has it.")
JudgedSplit = Annotated[str | None, JUDGED]
Replace = Annotated[bool, Parameter(negative="", help="Replace the output if it exists.")]
ReplaceJson = Annotated[bool, Parameter(negative="", help="Replace the JSON file if it exists.")]
Anew = Annotated[bool, Parameter(negative="", help="Start anew in an existing run folder.")]
Resume = Annotated[bool, Parameter(negative="", help="Continue an interrupted run, on any number of ranks.")]


def say_once(session: Here, text: str) -> None:
    """Print a result, once."""
    if session.comm.rank == 0:
        say(text, sys.stdout)


def check_files(session: Here, opening: Path, force: bool, inputs: Sequence[Path | None], *outputs: Path | None) -> None:
    """Raise ConfigError, on all ranks, unless those of the outputs that are wanted can be made."""
    from hpcml.files.atomic import check_output
    from hpcml.mpi import run_on_root

    def check() -> None:
        for path in outputs:
            if path is not None:
                check_output(path, force, inputs)

    run_on_root(session.comm, f"opening {opening}", check)


def write_files(session: Here, what: str, found: Any, *files: tuple[Path | None, Callable[[Path, Any], None]]) -> None:
    """Write what rank 0 has found to those of the files that are wanted, on all ranks or none."""
    from hpcml.mpi import run_on_root

    def write_all() -> None:
        for path, write in files:
            if path is not None:
                write(path, found)

    run_on_root(session.comm, f"writing {what}", write_all)
