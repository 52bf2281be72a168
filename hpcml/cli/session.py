"""Helpers that the commands of `hpcml` share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from hpcml.log import say

if TYPE_CHECKING:
    from hpcml.run.session import Session  # which imports MPI

Output = Annotated[Path, Parameter(name=["--output", "-o"])]


class Command:
    """The command that is run: `session` is set before it is called."""

    session: Session


def say_once(text: str) -> None:
    """Print a result, once."""
    if Command.session.comm.rank == 0:
        say(text, sys.stdout)
