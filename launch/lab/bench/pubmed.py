"""Sparse models of many labels on a generated corpus of PubMed's shape: memory of a rank, sparsity, and hours for all headings.

A row has 50 Zipf-distributed words. Every label has a topic, 300 of the words, of which a row with the label has eight more; a
fifth of these rows do not, and as many others do. PubMed has 25,380 headings, 12 of them a row, and the frequency of the r-th
falls as r^-0.9: the labels are taken from this list at even distances. OPTIONS go to `hpcml train METHOD`. Prints a JSON line:
the seconds of the whole job and of its training, the memory of the largest rank (rows that the ranks share included), the share
of weights that are not 0; and the hours that training takes for 25,380 labels at this rate.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.files.hdf5 import describe_matrix, matrix_slabs, stamp, vocabulary_digest
from hpcml.files.slabs import new_file
from launch.lab.bench._common import ROOT, parser_of

HEADINGS, A_ROW, EXPONENT = 25_380, 12, 0.9
TOPIC, WORDS_OF_TOPIC, NOISE = 300, 8, 0.2
LENGTH = 50  # words of a row


def zipf(rng: np.random.Generator, n_words: int, n: int) -> np.ndarray:
    """Words whose frequency falls as their number."""
    return np.minimum(np.exp(rng.uniform(0, np.log(n_words), n)).astype(np.int32) - 1, n_words - 1)


def text_rows(rows: np.ndarray, words: np.ndarray, shape: tuple[int, int]) -> sp.csr_matrix:
    """Rows of unit length, of log(tf + 1) · idf, from the words of each."""
    X = sp.csr_matrix((np.ones(rows.size, np.float32), (rows, words)), shape)
    X.sort_indices()
    frequency = np.bincount(X.indices, minlength=shape[1])
    X.data = (np.log1p(X.data) * np.log(shape[0] / np.maximum(1, frequency))[X.indices]).astype(np.float32)
    X.data /= np.repeat(np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1])), np.diff(X.indptr))
    return X


def sizes(n_rows: int, n_labels: int) -> list[int]:
    """The positive rows of the labels."""
    frequency = np.arange(1, HEADINGS + 1) ** -EXPONENT
    frequency *= A_ROW * n_rows / frequency.sum()
    places = ((np.arange(n_labels) + 0.5) * HEADINGS / n_labels).astype(int)
    return np.maximum(1, frequency[places]).astype(int).tolist()


def topical(n_rows: int, n_words: int, n_labels: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Rows of unit length, and their labels."""
    rng = np.random.default_rng(0)
    found = [zipf(rng, n_words, n_rows * LENGTH)]
    rows, label_rows, counts = [np.repeat(np.arange(n_rows), LENGTH)], [], sizes(n_rows, n_labels)
    for size in counts:
        positive = rng.choice(n_rows, size, replace=False)
        typical = np.where(rng.random(size) < NOISE, rng.integers(0, n_rows, size), positive)
        topic = rng.permutation(n_words)[:TOPIC]
        rows.append(np.repeat(typical, WORDS_OF_TOPIC))
        found.append(topic[zipf(rng, TOPIC, size * WORDS_OF_TOPIC)])
        label_rows.append(positive)
    X = text_rows(np.concatenate(rows), np.concatenate(found), (n_rows, n_words))
    labels = np.repeat(np.arange(n_labels), counts)
    return X, sp.csr_matrix((np.ones(labels.size), (np.concatenate(label_rows), labels)), (n_rows, n_labels))


def write_rows(path: Path, n_rows: int, n_words: int, n_labels: int) -> None:
    """A dataset of such rows."""
    X, Y = topical(n_rows, n_words, n_labels)
    slabs = matrix_slabs("X", n_rows, X.nnz, n_words, "<f4") | matrix_slabs("Y", n_rows, Y.nnz, n_labels, None)

    def describe(file: h5py.File) -> None:
        describe_matrix(file, "X", n_rows, n_words, X.nnz, False)
        describe_matrix(file, "Y", n_rows, n_labels, Y.nnz, True)
        stamp(file, "dataset")
        file.attrs["vocabulary"] = vocabulary_digest(None, n_words)

    with new_file(mpi.self_comm(), path) as out:
        out.layout(slabs, describe)
        for name, matrix in (("X", X), ("Y", Y)):
            out.write(f"{name}/indptr", 0, matrix.indptr.astype(np.int64))
            out.write(f"{name}/indices", 0, matrix.indices)
        out.write("X/data", 0, X.data)


def peak(command: list[str]) -> int:
    """Run a command; the memory of the largest process that it started, in kilobytes."""
    # by a small process between, since a child that is forked counts the memory of its parent
    watch = "import resource as r, subprocess, sys; code = subprocess.run(sys.argv[1:], stdout=sys.stderr).returncode; "
    watch += "print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code)"
    return int(subprocess.run([sys.executable, "-c", watch, *command], check=True, stdout=subprocess.PIPE, text=True).stdout)


def main(words: list[str]) -> None:
    """See the top."""
    arguments = parser_of("pubmed", __doc__)
    for name, default in (("rows", 500_000), ("words", 300_000), ("labels", 1000), ("ranks", 2)):
        arguments.add_argument(f"--{name}", type=int, default=default)
    arguments.add_argument("--method", default="elastic-net")
    given, more = arguments.parse_known_args(words)
    more = [word for word in more if word != "--"]
    with tempfile.TemporaryDirectory() as folder:
        data, run = Path(folder, "data.h5"), Path(folder, "run")
        make = (
            "import pathlib; from launch.lab.bench import pubmed; "
            f"pubmed.write_rows(pathlib.Path({str(data)!r}), {given.rows}, {given.words}, {given.labels})"
        )
        subprocess.run([sys.executable, "-c", make], cwd=ROOT, check=True)
        command = [sys.executable, "-m", "hpcml", "train", given.method, str(data), "-o", str(run), *more]
        begin = time.perf_counter()
        kilobytes = peak(["mpirun", "-n", str(given.ranks), *command])
        seconds = time.perf_counter() - begin
        with h5py.File(run / "model.h5") as model:
            n_weights = int(model["W/data"].shape[0])
        trained = max(float(line.rpartition(",")[2]) for line in (run / "history.csv").read_text().splitlines()[1:])
        share = n_weights / (given.labels * given.words)
        line = {"seconds": round(seconds, 1), "training": round(trained, 3), "at_end": float(f"{share:.3g}")}
        line["hours_for_all"] = round(trained * HEADINGS / given.labels / 3600, 3)
        line["gb_a_rank"] = round(kilobytes / 1e6, 2)
        print(json.dumps(vars(given) | line))
