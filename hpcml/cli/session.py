"""Helpers that the commands of `hpcml` share."""

from __future__ import annotations

import sys
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

Output = Annotated[Path, Parameter(name=["--output", "-o"])]


def say_once(session: Here, text: str) -> None:
    """Print a result, once."""
    if session.comm.rank == 0:
        say(text, sys.stdout)
