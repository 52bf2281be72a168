"""What the commands of `hpcml` share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from hpcml.log import Log, say
from hpcml.signals import StopSignals

if TYPE_CHECKING:
    from hpcml import mpi

Output = Annotated[Path, Parameter(name=["--output", "-o"])]


class Session:
    """What every command needs besides its options: set by `run` before the command is called."""

    comm: mpi.Comm
    log: Log
    signals: StopSignals


def say_once(text: str) -> None:
    """Print a result, once."""
    if Session.comm.rank == 0:
        say(text, sys.stdout)
