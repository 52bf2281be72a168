"""`hpcml train elastic-net` on a generated corpus of PubMed's shape: memory of a rank, sparsity, and hours for all headings.

usage: python launch/bench/pubmed.py [--rows 500000] [--words 300000] [--labels 1000] [--ranks 2] [-- OPTIONS]

The rows are those of elastic_net.py. PubMed has 25,380 headings, 12 of them a row, and the frequency of the r-th falls as r^-0.9:
the labels are taken from this list at even distances. OPTIONS go to `hpcml train elastic-net`. Prints a JSON line: the seconds
of the whole job and of its training, the memory of the largest rank (rows that the ranks share included), the share of weights that
are not 0; and the hours that training takes for 25,380 labels at this rate.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
from elastic_net import OWN, generated

from hpcml import mpi
from hpcml.files.hdf5 import describe_matrix, matrix_slabs, stamp, vocabulary_digest
from hpcml.files.slabs import new_file

HEADINGS, A_ROW, EXPONENT = 25_380, 12, 0.9


def sizes(n_rows: int, n_labels: int) -> list[int]:
    """The positive rows of the labels."""
    frequency = np.arange(1, HEADINGS + 1) ** -EXPONENT
    frequency *= A_ROW * n_rows / frequency.sum()
    places = ((np.arange(n_labels) + 0.5) * HEADINGS / n_labels).astype(int)
    return np.maximum(1, frequency[places]).astype(int).tolist()


def write_rows(path: Path, n_rows: int, n_words: int, n_labels: int) -> None:
    """A dataset of such rows."""
    shard = generated(n_rows, sizes(n_rows, n_labels), n_words - OWN * n_labels, copies=1)
    slabs = matrix_slabs("X", n_rows, shard.indices.size, n_words, "<f4")
    slabs |= matrix_slabs("Y", n_rows, shard.y_indices.size, n_labels, None)

    def describe(file: h5py.File) -> None:
        describe_matrix(file, "X", n_rows, n_words, shard.indices.size, False)
        describe_matrix(file, "Y", n_rows, n_labels, shard.y_indices.size, True)
        stamp(file, "dataset")
        file.attrs["vocabulary"] = vocabulary_digest(None, n_words)

    with new_file(mpi.self_comm(), path) as out:
        out.layout(slabs, describe)
        for name, values in (("X/indptr", shard.indptr), ("X/indices", shard.indices), ("X/data", shard.data)):
            out.write(name, 0, values)
        out.write("Y/indptr", 0, shard.y_indptr)
        out.write("Y/indices", 0, shard.y_indices.astype(np.int32))


def peak(command: list[str]) -> int:
    """Run a command; the memory of the largest process that it started, in kilobytes."""
    # by a small process between, since a child that is forked counts the memory of its parent
    watch = "import resource as r, subprocess, sys; code = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode; "
    watch += "print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
    return int(subprocess.run([sys.executable, "-c", watch, *command], check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    """See the top."""
    arguments = argparse.ArgumentParser(usage=__doc__)
    for name, default in (("rows", 500_000), ("words", 300_000), ("labels", 1000), ("ranks", 2)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    given, more = arguments.parse_known_args()
    more = [word for word in more if word != "--"]
    with tempfile.TemporaryDirectory() as folder:
        data, run = Path(folder, "data.h5"), Path(folder, "run")
        make = (
            f"import pubmed, pathlib; pubmed.write_rows(pathlib.Path({str(data)!r}), {given.rows}, {given.words}, {given.labels})"
        )
        subprocess.run([sys.executable, "-c", make], cwd=Path(__file__).parent, check=True)
        command = [sys.executable, "-m", "hpcml", "train", "elastic-net", str(data), "-o", str(run), *more]
        begin = time.perf_counter()
        kilobytes = peak(["mpirun", "-n", str(given.ranks), *command])
        seconds = time.perf_counter() - begin
        with h5py.File(run / "model.h5") as model:
            n_weights = int(model["W/data"].shape[0])
        trained = max(float(line.rpartition(",")[2]) for line in (run / "history.csv").read_text().splitlines()[1:])
        share = n_weights / (given.labels * given.words)
        line = {"seconds": round(seconds, 1), "training": round(trained, 1), "at_end": float(f"{share:.3g}")}
        line["hours_for_all"] = round(trained * HEADINGS / given.labels / 3600, 3)
        line["gb_a_rank"] = round(kilobytes / 1e6, 2)
        print(json.dumps(vars(given) | line))


if __name__ == "__main__":
    main()
