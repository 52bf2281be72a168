"""Training where memory is scarce: seconds inside control groups with small limits, and with a larger one or none.

usage: python -m launch.lab bench little_memory [--rows N ...] [--per-row N] [--features N] [--labels N] [--ranks N]
           [--methods NAME ...] [--limits MB ... | --shares X ...] [-- OPTIONS]

Makes rows at random, trains on them with `mpirun` under every limit, and prints a JSON line for each: seconds, processor seconds,
the ratio of both to the first run's, the peak of the group's memory, MB read from the disk and page faults that waited for it, what
the run warned of, and whether the model has the bits of the first one. OPTIONS go to `hpcml train`. The dataset is not in the page
cache at first.

--limits are MB of a group, the first of which the others are compared with (900, then 500). --shares say how much of the rows has
room: the first run has no limit, and the others what hpcml plans with for everything else, plus so many times the rows.
--methods are dual (the default) and probe. Making a control group takes root; where that fails the script says so, and ends with
code 3.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np

from hpcml import mpi
from hpcml.files.hdf5 import describe_matrix, matrix_slabs, stamp, vocabulary_digest
from hpcml.files.slabs import new_file
from hpcml.methods.dual import train as dual
from hpcml.methods.linear.layout import PROGRAM_BYTES
from hpcml.methods.probe import train as probe
from launch.lab.bench._common import parser_of

NO_GROUP = 3
METHODS = {"dual": dual.METHOD, "probe": probe.METHOD}
PROGRAM = {"dual": 80 * 10**6, "probe": 90 * 10**6}  # bytes of a rank that the plan does not count
PLACE = 24  # bytes: of a row in tables of rows and labels
V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


class Group:
    """A control group of our own with a limit of memory, v1 or v2. Raises OSError where none can be made."""

    def __init__(self, limit: int | None) -> None:
        first = (V1 / "memory.limit_in_bytes").exists()
        self.folder = (V1 if first else V2) / f"hpcml-{os.getpid()}"
        names = ("memory.limit_in_bytes", "memory.max_usage_in_bytes") if first else ("memory.max", "memory.peak")
        self.folder.mkdir()
        try:
            self.limit, self.peak_file = (self.folder / name for name in names)
            self.limit.write_text(str(limit) if limit else "-1" if first else "max", encoding="ascii")
            if not first:
                (self.folder / "memory.swap.max").write_text("0", encoding="ascii")
        except OSError:
            self.folder.rmdir()
            raise

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        while left := (self.folder / "cgroup.procs").read_text(encoding="ascii").split():
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(int(process), signal.SIGKILL)
            time.sleep(0.1)
        self.folder.rmdir()

    def join(self) -> None:
        """Put the process that calls into the group."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    @property
    def peak(self) -> int:
        """The most bytes that the group has held, page cache included."""
        return int(self.peak_file.read_text(encoding="ascii"))

    def stat(self, *names: str) -> int:
        """A number of the group's statistics, under the first of these names that there is."""
        lines = (self.folder / "memory.stat").read_text(encoding="ascii").splitlines()
        found = {name: int(value) for name, value in (line.split() for line in lines)}
        return next(found[name] for name in names if name in found)


def make_rows(path: Path, n_rows: int, per_row: int, n_features: int, n_labels: int) -> None:
    """A dataset with `per_row` values in every row, features as frequent as words are, and labels that depend on them."""
    rng = np.random.default_rng(0)
    width = n_features // per_row  # of the range from which a row's k-th feature is drawn, so that they ascend
    offsets = (width * rng.random((n_rows, per_row), np.float32) ** 3).astype(np.int32)
    indices = offsets + np.arange(per_row, dtype=np.int32) * width
    values = rng.random((n_rows, per_row), np.float32)
    values /= np.sqrt(np.square(values).sum(axis=1, keepdims=True))
    sets = np.zeros((n_rows, n_labels), np.bool_)
    for label in range(n_labels):
        scores = (rng.standard_normal(n_features, np.float32)[indices] * values).sum(axis=1)
        scores += 0.5 * rng.standard_normal(n_rows, np.float32)
        sets[:, label] = scores > np.quantile(scores, 0.9)
    lengths, label_indices = sets.sum(axis=1), np.nonzero(sets)[1]
    slabs = matrix_slabs("X", n_rows, indices.size, n_features, "<f4") | matrix_slabs(
        "Y", n_rows, label_indices.size, n_labels, None
    )

    def describe(file: h5py.File) -> None:
        describe_matrix(file, "X", n_rows, n_features, indices.size, False)
        describe_matrix(file, "Y", n_rows, n_labels, label_indices.size, True)
        stamp(file, "dataset")
        file.attrs["vocabulary"] = vocabulary_digest(None, n_features)

    with new_file(mpi.self_comm(), path) as out:
        out.layout(slabs, describe)
        out.write("X/indptr", 0, np.arange(n_rows + 1, dtype=np.int64) * per_row)
        out.write("X/indices", 0, indices.reshape(-1))
        out.write("X/data", 0, values.reshape(-1))
        out.write("Y/indptr", 0, np.concatenate([[0], np.cumsum(lengths)]))
        out.write("Y/indices", 0, label_indices.astype(np.int32))


def forget(path: Path) -> None:
    """Take a file out of the page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def used() -> tuple[float, int]:
    """Processor seconds, and bytes read from the disk, of all processes that have ended here."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime, 512 * usage.ru_inblock


def train(method: str, data: Path, run: Path, ranks: int, limit: int | None, more: list[str]) -> dict[str, object]:
    """Train inside a group with this limit (bytes). Raises OSError if no group can be made."""
    forget(data)
    command = ["mpirun", "-n", str(ranks), sys.executable, "-m", "hpcml", "train", method, str(data), "-o", str(run), *more]
    with Group(limit) as group, tempfile.TemporaryFile("w+") as said:
        begin, (cpu, read), anonymous = time.perf_counter(), used(), 0
        process = subprocess.Popen(command, preexec_fn=group.join, stdout=said, stderr=said, stdin=subprocess.DEVNULL)
        while process.poll() is None:
            anonymous = max(anonymous, group.stat("anon", "rss"))
            time.sleep(0.05)
        seconds, (cpu_after, read_after) = time.perf_counter() - begin, used()
        facts = {
            "mb": limit and limit // 10**6,
            "seconds": round(seconds, 2),
            "cpu_seconds": round(cpu_after - cpu, 2),
            "peak_mb": group.peak // 10**6,
            "anonymous_mb": anonymous // 10**6,
            "read_mb": (read_after - read) // 10**6,
            "major_faults": group.stat("pgmajfault"),
        }
        said.seek(0)
        text = said.read()
    if process.returncode:
        return facts | {"exit_code": process.returncode, "said": text.strip().splitlines()[-1:], "model": None}
    notes = [line for line in text.splitlines() if "warning" in line.lower() or "a rank has room" in line]
    return facts | {"model": hashlib.sha256((run / "model.h5").read_bytes()).hexdigest()[:16], "notes": notes}


def beside_rows(options: argparse.Namespace, n_rows: int, method: str) -> int:
    """Bytes that hpcml plans with for all ranks, beside the rows' values."""
    sharing = 1 if method == "dual" else options.ranks  # ranks among which the rows are divided
    lanes = min(16, options.labels if sharing > 1 else -(-options.labels // options.ranks))
    needs = METHODS[method].memory(0, n_rows, options.features, lanes, sharing, 4)
    return options.ranks * (PROGRAM[method] + PROGRAM_BYTES + needs + PLACE * n_rows // sharing)


def limits_of(options: argparse.Namespace, n_rows: int, method: str) -> list[tuple[float | None, int | None]]:
    """For each run a share of the rows, if such were asked for, and the limit (bytes)."""
    if not options.shares:
        return [(None, mb * 10**6) for mb in options.limits]
    others, size = beside_rows(options, n_rows, method), 8 * n_rows * (options.per_row + 1)  # the constant feature is a value, too
    return [(None, None), *((share, int(others + share * size)) for share in options.shares)]


def main(words: list[str]) -> None:
    """See the top."""
    arguments = parser_of("little_memory", __doc__)
    for name, default in (("per-row", 70), ("features", 1_000_000), ("labels", 16), ("ranks", 2)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    arguments.add_argument("--rows", type=int, nargs="+", default=[200_000])
    arguments.add_argument("--methods", nargs="+", choices=sorted(METHODS), default=["dual"])
    arguments.add_argument("--limits", type=int, nargs="+", default=[900, 500])
    arguments.add_argument("--shares", type=float, nargs="+")
    own, more = (words, [])
    if "--" in own:
        own, more = own[: own.index("--")], own[own.index("--") + 1 :]
    options = arguments.parse_args(own)
    for n_rows in options.rows:
        with tempfile.TemporaryDirectory(prefix="hpcml-little-memory-") as name:
            data = Path(name) / "data.h5"
            make_rows(data, n_rows, options.per_row, options.features, options.labels)
            for method in options.methods:
                measure(options, n_rows, method, data, more)


def measure(options: argparse.Namespace, n_rows: int, method: str, data: Path, more: list[str]) -> None:
    """The lines of a method on these rows."""
    first: dict = {}
    for number, (share, limit) in enumerate(limits_of(options, n_rows, method)):
        try:
            facts = train(method, data, data.parent / f"{method}{number}", options.ranks, limit, more)
        except OSError as error:
            print(f"no control group can be made ({error}): nothing was measured", file=sys.stderr)
            sys.exit(NO_GROUP)
        first = first or facts
        for name, ratio in (("seconds", "ratio"), ("cpu_seconds", "cpu_ratio")):
            facts[ratio] = round(facts[name] / first[name], 2)
        facts["same_bits"] = facts["model"] is not None and facts["model"] == first["model"]
        line = {"rows": n_rows, "per_row": options.per_row, "ranks": options.ranks, "method": method, "share": share, **facts}
        print(json.dumps(line), flush=True)
        if number == 0 and facts["model"] is None:
            sys.exit(1)
