"""The start and end of the program: seconds of the processor of trainings of next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import scipy.sparse as sp

from hpcml import mpi
from hpcml.conversion.from_memory import Matrices, from_sparse
from hpcml.conversion.options import ConvertOptions
from hpcml.files.temporary import scratch_folder
from hpcml.log import Log

PATIENCE = 60  # seconds


def start_seconds(folder: Path, repeats: int) -> float | None:
    """The least of so many trainings in `folder`; None if none starts. Local; raises OSError."""
    found: list[float] = []
    with scratch_folder("hpcml-start", folder) as scratch:
        data, n = scratch / "data.h5", 8
        X, Y = sp.eye(n, format="csr"), sp.eye(n, 2, format="csr")
        from_sparse(mpi.self_comm(), Matrices(X, Y), data, ConvertOptions(), False, Log(1))
        for number in range(repeats):
            command = [sys.executable, "-m", "hpcml", "train", "dual", str(data), "-o", str(scratch / f"run-{number}")]
            before = _of_children()
            with suppress(OSError, subprocess.SubprocessError):
                subprocess.run(command, env=mpi.environment_alone(), capture_output=True, timeout=PATIENCE, check=True)
                found.append(_of_children() - before)
    return min(found, default=None)


def _of_children() -> float:
    """Seconds of the processor that programs took which this process has started and seen end."""
    times = os.times()
    return times.children_user + times.children_system
