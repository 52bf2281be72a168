"""The environment of a run: versions, processor, nodes, launcher, Slurm job; a line of JSON for each start."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections import Counter
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.files.atomic import write_whole
from hpcml.files.opening import read_small
from hpcml.kernels.processor import computed_by, processor_name
from hpcml.mpi.memory import peak_mib
from hpcml.mpi.runtime import node_name
from hpcml.version import version

TYPE = ("processor", "architecture", "target", "features")  # what makes a type of processor, of `computed_by`
PACKAGES = ("numpy", "scipy", "numba", "h5py", "mpi4py", "scikit-learn", "skops")
# Of the environment's variables only these are recorded: others may hold secrets.
SLURM = (
    *("CLUSTER_NAME", "JOB_ID", "JOB_NAME", "JOB_NODELIST", "JOB_PARTITION", "NTASKS", "TASKS_PER_NODE", "CPUS_PER_TASK"),
    *("RESTART_COUNT", "ARRAY_JOB_ID", "ARRAY_TASK_ID", "STEP_ID", "MEM_PER_NODE", "MEM_PER_CPU", "SUBMIT_DIR"),
)


def environment(comm: mpi.Comm) -> dict[str, Any]:
    """Collective over `comm`. On rank 0 what it runs with, ranks by node; else nothing."""
    places = comm.gather((node_name(), processor_name())) or []
    if comm.rank != 0:
        return {}
    packages = dict[str, str | None].fromkeys(PACKAGES)
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    names = ("HDF5_USE_FILE_LOCKING", *(f"SLURM_{name}" for name in SLURM))
    variables = {name: os.environ[name] for name in names if name in os.environ}
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "hpcml": version(),
        "python": platform.python_version(),
        "packages": packages,
        "system": platform.platform(),
        "mpi": mpi.library(),
        "ranks": comm.size,
        "nodes": Counter(node for node, _ in places),
        "computed_by": computed_by() | {"ranks": Counter(processor for _, processor in places)},
        "variables": variables,
        "arguments": sys.argv[1:],
        "folder": str(Path.cwd()),
    }


def record(path: Path, found: dict[str, Any]) -> list[str]:
    """Append what `environment` found to a file, a line for each start. Local; raises OSError.

    Returns a sentence if the start before was by another version, and one if it was on another type of processor; none where
    the file is damaged.
    """
    sentences, now = [], found["computed_by"]
    with suppress(ValueError, KeyError, TypeError, IndexError, RecursionError, DataError):
        last = json.loads(read_small(path).splitlines()[-1]) if path.exists() else found
        if last["hpcml"] != found["hpcml"]:
            versions = f"started with hpcml {last['hpcml']} and continues with {found['hpcml']}"
            sentences.append(f"warning: this run {versions}; its model can differ from that of a single version")
        before = last["computed_by"]
        there, here = (f"{each['processor']} (compiled for {each['target']})" for each in (before, now))
        if any(before[name] != now[name] for name in TYPE):
            there += ", with other features" if there == here else ""
            types = f"started on another type of processor, {there}, and continues on {here}"
            sentences.append(f"this run {types}; its bits stay the same")
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(found) + "\n")
    return sentences


def record_end(comm: mpi.Comm, path: Path) -> None:
    """Collective over `comm`. Add end and peaks (MiB) to a sound last start. Raises DataError."""
    peaks = comm.gather(round(peak_mib(), 1))
    with mpi.agreed(comm, f"writing {path}"):
        if comm.rank == 0 and path.exists():
            lines = path.read_bytes().splitlines(keepends=True)
            try:
                last = json.loads(lines[-1]) if lines else None
            except (ValueError, RecursionError):
                last = None
            if isinstance(last, dict) and "finished" not in last:
                last |= {"finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "peak_mib": peaks}
                write_whole(path, b"".join([*lines[:-1], json.dumps(last).encode(), b"\n"]))
