"""Outputs that a job begun anew may replace without --force, for its earlier start found them free.

A command that cannot resume begins anew when its job is queued again. It may then meet what it
wrote itself: one of two outputs, or all of them, where the node was lost before Slurm heard of the
end. The job script keeps a file, HPCML_OUTPUTS, for as long as the job lasts, in which each start
notes what was not there; what existed before the job is in nobody's way to be replaced.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

VARIABLE = "HPCML_OUTPUTS"


def _name(path: Path) -> bytes:
    return os.path.realpath(os.fsencode(path))


@cache
def _noted(file: str) -> frozenset[bytes]:
    """The notes of earlier starts, as they were when this start first asked."""
    try:
        return frozenset(Path(file).read_bytes().split(b"\0"))
    except FileNotFoundError:
        return frozenset()


def made_earlier(path: Path) -> bool:
    """Whether an earlier start of this job found nothing at `path`. Local; raises OSError."""
    file = os.environ.get(VARIABLE)
    return bool(file) and _name(path) in _noted(str(file))


def note_free(path: Path) -> None:
    """Note for later starts of this job that nothing is at `path`. Local; raises OSError."""
    file = os.environ.get(VARIABLE)
    if file and not made_earlier(path):
        with Path(file).open("ab") as out:
            out.write(_name(path) + b"\0")
