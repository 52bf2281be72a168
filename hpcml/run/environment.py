"""The environment of a run, one JSON line per start: versions, processor, nodes, launcher, Slurm job."""

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
from hpcml.files.atomic import write_atomically
from hpcml.files.opening import read_small
from hpcml.kernels.processor import computed_by, processor_name
from hpcml.mpi.memory import peak_mib
from hpcml.mpi.runtime import node_name
from hpcml.version import version

TYPE = ("processor", "architecture", "target", "features")  # keys of `computed_by` that define a type of processor
PACKAGES = ("numpy", "scipy", "numba", "h5py", "mpi4py", "scikit-learn", "skops")
# Only these environment variables are recorded: others may contain secrets.
SLURM = (
    *("CLUSTER_NAME", "JOB_ID", "JOB_NAME", "JOB_NODELIST", "JOB_PARTITION", "NTASKS", "TASKS_PER_NODE", "CPUS_PER_TASK"),
    *("RESTART_COUNT", "ARRAY_JOB_ID", "ARRAY_TASK_ID", "STEP_ID", "MEM_PER_NODE", "MEM_PER_CPU", "SUBMIT_DIR"),
)


def environment(comm: mpi.Comm) -> dict[str, Any]:
    """Return the environment, with ranks by node, on rank 0; an empty dict elsewhere. Collective over `comm`."""
    ranks = comm.gather((node_name(), processor_name())) or []
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
        "nodes": Counter(node for node, _ in ranks),
        "computed_by": computed_by() | {"ranks": Counter(processor for _, processor in ranks)},
        "variables": variables,
        "arguments": sys.argv[1:],
        "folder": str(Path.cwd()),
    }


def record(path: Path, current_environment: dict[str, Any]) -> list[str]:
    """Append an `environment` line; return messages if version or type of processor differ from the last. Raises OSError."""
    messages, current_processor = [], current_environment["computed_by"]
    with suppress(ValueError, KeyError, TypeError, IndexError, RecursionError, DataError):
        last = json.loads(read_small(path).splitlines()[-1]) if path.exists() else current_environment
        if last["hpcml"] != current_environment["hpcml"]:
            versions = f"started with hpcml {last['hpcml']} and continues with {current_environment['hpcml']}"
            messages.append(f"warning: this run {versions}; its model can differ from that of a single version")
        before = last["computed_by"]
        earlier, current = (f"{each['processor']} (compiled for {each['target']})" for each in (before, current_processor))
        if any(before[name] != current_processor[name] for name in TYPE):
            earlier += ", with other features" if earlier == current else ""
            types = f"started on another type of processor, {earlier}, and continues on {current}"
            messages.append(f"this run {types}; the results are bit-identical")
    with path.open("a", encoding="utf-8") as out:
        out.write(json.dumps(current_environment) + "\n")
    return messages


def record_end(comm: mpi.Comm, path: Path) -> None:
    """Add end time and peak memory (MiB) to a sound last line. Raises DataError. Collective over `comm`."""
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
                write_atomically(path, b"".join([*lines[:-1], json.dumps(last).encode(), b"\n"]))
