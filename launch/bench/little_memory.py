"""`hpcml train dual` where memory is scarce: seconds inside a control group with a small limit, and with a larger one.

usage: python launch/bench/little_memory.py [--rows N] [--per-row N] [--features N] [--labels N] [--ranks N] [--limits MB ...]
           [-- OPTIONS]

Makes rows at random, trains on them with `mpirun` under every limit (MB; 900, then 500), and prints a JSON line for each:
seconds, the ratio to the first limit's, the peak of the group's memory, pages brought in from the disk, what the run warned of, and
whether the model has the bits of the first one. OPTIONS go to `hpcml train dual`. The rows' file is not in the page cache at first.
Making a control group takes root; where that fails the script says so, and ends with code 3.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
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

NO_GROUP = 3
V1, V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


class Group:
    """A control group of our own with a limit of memory, v1 or v2. Raises OSError where none can be made."""

    def __init__(self, limit: int) -> None:
        first = (V1 / "memory.limit_in_bytes").exists()
        self.folder = (V1 if first else V2) / f"hpcml-{os.getpid()}"
        names = ("memory.limit_in_bytes", "memory.max_usage_in_bytes") if first else ("memory.max", "memory.peak")
        self.folder.mkdir()
        try:
            self.limit, self.peak_file = (self.folder / name for name in names)
            self.limit.write_text(str(limit), encoding="ascii")
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

    @property
    def pages_in(self) -> int:
        """Page faults that waited for the disk."""
        lines = (self.folder / "memory.stat").read_text(encoding="ascii").splitlines()
        return {name: int(value) for name, value in (line.split() for line in lines)}["pgmajfault"]


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


def train(data: Path, run: Path, ranks: int, limit: int, more: list[str]) -> dict[str, object]:
    """Train inside a group with this limit (bytes). Raises OSError if no group can be made."""
    forget(data)
    command = ["mpirun", "-n", str(ranks), sys.executable, "-m", "hpcml", "train", "dual", str(data), "-o", str(run), *more]
    with Group(limit) as group:
        begin = time.perf_counter()
        done = subprocess.run(command, preexec_fn=group.join, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        seconds = time.perf_counter() - begin
        facts = {"mb": limit // 10**6, "seconds": round(seconds, 2), "peak_mb": group.peak // 10**6, "major_faults": group.pages_in}
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    warnings = [line for line in (done.stdout + done.stderr).splitlines() if "warning" in line.lower()]
    return facts | {"model": hashlib.sha256((run / "model.h5").read_bytes()).hexdigest()[:16], "warnings": warnings}


def main() -> None:
    """See the top."""
    arguments = argparse.ArgumentParser(usage=__doc__)
    for name, default in (("rows", 200_000), ("per-row", 70), ("features", 1_000_000), ("labels", 16), ("ranks", 2)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    arguments.add_argument("--limits", type=int, nargs="+", default=[900, 500])
    own, more = (sys.argv[1:], [])
    if "--" in own:
        own, more = own[: own.index("--")], own[own.index("--") + 1 :]
    options = arguments.parse_args(own)
    with tempfile.TemporaryDirectory(prefix="hpcml-little-memory-") as name:
        folder = Path(name)
        data = folder / "data.h5"
        make_rows(data, options.rows, options.per_row, options.features, options.labels)
        first = None
        for limit in options.limits:
            try:
                facts = train(data, folder / f"run{limit}", options.ranks, limit * 10**6, more)
            except OSError as error:
                print(f"no control group can be made ({error}): nothing was measured", file=sys.stderr)
                sys.exit(NO_GROUP)
            first = first or facts
            facts |= {"ratio": round(facts["seconds"] / first["seconds"], 2), "same_bits": facts["model"] == first["model"]}
            print(json.dumps({"rows": options.rows, "per_row": options.per_row, "ranks": options.ranks, **facts}), flush=True)


if __name__ == "__main__":
    main()
