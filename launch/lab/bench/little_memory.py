"""Training time in control groups with small memory limits, compared with a larger limit or none.

Generates random rows and trains on them with `mpirun` under every limit. A line has seconds, processor seconds, the ratio of both
to those of the first run, the peak memory of the group, MB read from the disk and page faults that waited for it, the warnings of
the run, and whether the model has the bits of the first one. OPTIONS go to `hpcml train`. The dataset is not in the page cache at
first.

--limits are the limits in MB; the others are compared with the first (900, then 500). --shares are shares of the rows that fit: the
first run has no limit, the others have the memory that `hpcml plan` counts for everything else, plus this share of the rows. A
control group needs root; without it nothing is measured, and the exit code is 3.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

import hpcml
from launch.lab.core.bench import Failed
from launch.lab.core.tables import read_json
from launch.lab.core.timing import CommandError, hpcml_command, run_command, run_hpcml

PROGRAM = {"dual": 114 * 10**6, "probe": 124 * 10**6}  # bytes of a rank's program and of its orders of rows, in the group
NOT_COUNTED = ("program", "rows", "pages of the data file")  # of a plan: beside PROGRAM and the rows
V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


class NoGroup(Failed):
    """No control group can be created."""

    exit_code = 3


class Group:
    """A control group (v1 or v2) with a memory limit. Raises NoGroup."""

    def __init__(self, limit: int | None) -> None:
        first = (V1 / "memory.limit_in_bytes").exists()
        self.folder = (V1 if first else V2) / f"hpcml-{os.getpid()}"
        names = ("memory.limit_in_bytes", "memory.max_usage_in_bytes") if first else ("memory.max", "memory.peak")
        try:
            self.folder.mkdir()
            self.limit, self.peak_file = (self.folder / name for name in names)
            self.limit.write_text(str(limit) if limit else "-1" if first else "max", encoding="ascii")
            if not first:
                (self.folder / "memory.swap.max").write_text("0", encoding="ascii")
        except OSError as error:
            with suppress(OSError):
                self.folder.rmdir()
            raise NoGroup(f"no control group can be made ({error}): nothing was measured") from None

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        while left := (self.folder / "cgroup.procs").read_text(encoding="ascii").split():
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            time.sleep(0.1)
        self.folder.rmdir()

    def stat(self, name: str) -> int:
        return int((self.folder / "memory.stat").read_text(encoding="ascii").partition(f"{name} ")[2].split()[0])


def make_rows(path: Path, n_rows: int, per_row: int, n_features: int, n_labels: int) -> None:
    rng = np.random.default_rng(0)
    width = n_features // per_row  # of the range from which a row's k-th feature is drawn, so that they ascend
    offsets = (width * rng.random((n_rows, per_row), np.float32) ** 3).astype(np.int32)
    indices = offsets + np.arange(per_row, dtype=np.int32) * width
    values = rng.random((n_rows, per_row), np.float32)
    values /= np.sqrt(np.square(values).sum(axis=1, keepdims=True))
    Y = np.zeros((n_rows, n_labels), np.bool_)
    for label in range(n_labels):
        scores = (rng.standard_normal(n_features, np.float32)[indices] * values).sum(axis=1)
        scores += 0.5 * rng.standard_normal(n_rows, np.float32)
        Y[:, label] = scores > np.quantile(scores, 0.9)
    X = sp.csr_matrix((values.ravel(), indices.ravel(), np.arange(n_rows + 1) * per_row), (n_rows, n_features))
    with hpcml.Dataset.from_sparse(X, sp.csr_matrix(Y, dtype=np.float32), path):
        return


def forget(path: Path) -> None:
    """Remove a file from the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def train(method: str, data: Path, run: Path, ranks: int, limit: int | None, options: Sequence[str]) -> dict[str, Any]:
    forget(data)
    log, join = run.with_suffix(".log"), 'echo $$ >"$0"; exec "$@"'
    command = hpcml_command(("train", method, data, "-o", run, *options), ranks)
    before, used, error = resource.getrusage(resource.RUSAGE_CHILDREN), None, None
    with Group(limit) as group:
        try:
            used = run_command(("sh", "-c", join, group.folder / "cgroup.procs", *command), log=log)
        except CommandError as failed:
            error = failed
        peak, faults = int(group.peak_file.read_text(encoding="ascii")), group.stat("pgmajfault")
    read = 512 * (resource.getrusage(resource.RUSAGE_CHILDREN).ru_inblock - before.ru_inblock)
    result = {"mb": limit and limit // 10**6, "peak_mb": peak // 10**6, "read_mb": read // 10**6, "major_faults": faults}
    if error:
        return result | {"exit_code": error.exit_code, "notes": [str(error)], "model": None}
    result |= {"seconds": round(used.seconds, 2), "cpu_seconds": round(used.cpu_seconds, 2)}
    lines = (log.read_text(encoding="utf-8", errors="replace") + used.output).splitlines()
    notes = [line for line in lines if "warning" in line.lower() or "a rank has room" in line]
    return result | {"model": hashlib.sha256((run / "model.h5").read_bytes()).hexdigest()[:16], "notes": notes}


def beside_rows(scratch: Path, data: Path, method: str, ranks: int) -> int:
    """Return the bytes that hpcml plans for all ranks in addition to the rows."""
    out = scratch / "plan.json"
    run_hpcml("plan", method, data, "--ranks-per-node", ranks, "--no-pilot", "--json", out, "--force")
    return ranks * (PROGRAM[method] + sum(size for name, size in read_json(out)["own_bytes"].items() if name not in NOT_COUNTED))


def run(
    scratch: Path,
    *,
    rows: tuple[int, ...] = (200_000,),
    per_row: int = 70,
    features: int = 1_000_000,
    labels: int = 16,
    ranks: int = 2,
    methods: tuple[Literal["dual", "probe"], ...] = ("dual",),
    limits: tuple[int, ...] = (900, 500),
    shares: tuple[float, ...] = (),
    options: tuple[str, ...],
) -> Iterator[dict[str, Any]]:
    data = scratch / "data.h5"
    for n_rows in rows:
        data.unlink(missing_ok=True)
        make_rows(data, n_rows, per_row, features, labels)
        for method in methods:
            runs: list[tuple[float | None, int | None]] = [(None, limit * 10**6) for limit in limits]
            if shares:
                others, size = beside_rows(scratch, data, method, ranks), 8 * n_rows * (per_row + 1)  # with the constant feature
                runs = [(None, None), *((share, int(others + share * size)) for share in shares)]
            first: dict[str, Any] = {}
            for number, (share, limit) in enumerate(runs):
                result = train(method, data, scratch / f"{n_rows}-{method}-{number}", ranks, limit, options)
                first = first or result
                line = {"rows": n_rows, "per_row": per_row, "ranks": ranks, "method": method, "share": share} | result
                line |= {
                    f"ratio_{name}": round(result[name] / first[name], 2)
                    for name in ("seconds", "cpu_seconds")
                    if {name} <= result.keys() & first.keys()
                }
                yield line | {"same_bits": result["model"] is not None and result["model"] == first["model"]}
                if first["model"] is None:
                    raise Failed(f"the first run ended with exit code {first['exit_code']}")
