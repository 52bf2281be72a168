"""Sparse models of many labels on a generated corpus of PubMed's shape: memory of a rank, sparsity, and hours for all headings.

A row has 50 Zipf-distributed words. Every label has a topic, 300 of the words, of which a row with the label has eight more; a
fifth of these rows do not, and as many others do. PubMed has 25,380 headings, 12 of them a row, and the frequency of the r-th falls
as r^-0.9: the labels are taken from this list at even distances. OPTIONS go to `hpcml train METHOD`. A line has the seconds of the
whole job and of its training, the memory of the largest rank (rows that the ranks share included), the share of weights that are
not 0; and the hours that training takes for 25,380 labels at this rate.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import hpcml
from launch.lab.core.bench import ROOT, rounded, train
from launch.lab.core.timing import run_command

HEADINGS, A_ROW, EXPONENT = 25_380, 12, 0.9
TOPIC, WORDS_OF_TOPIC, NOISE = 300, 8, 0.2
LENGTH = 50  # words of a row


def zipf(rng: np.random.Generator, n_words: int, n: int) -> np.ndarray:
    return np.minimum(np.exp(rng.uniform(0, np.log(n_words), n)).astype(np.int32) - 1, n_words - 1)


def write_rows(path: Path | str, n_rows: int, n_words: int, n_labels: int) -> None:
    rng, frequency = np.random.default_rng(0), np.arange(1, HEADINGS + 1) ** -EXPONENT
    positions = ((np.arange(n_labels) + 0.5) * HEADINGS / n_labels).astype(int)
    counts = np.maximum(1, frequency[positions] * A_ROW * n_rows / frequency.sum()).astype(int)
    words, rows, label_rows = [zipf(rng, n_words, n_rows * LENGTH)], [np.repeat(np.arange(n_rows), LENGTH)], []
    for size in counts.tolist():
        positive = rng.choice(n_rows, size, replace=False)
        typical = np.where(rng.random(size) < NOISE, rng.integers(0, n_rows, size), positive)
        topic = rng.permutation(n_words)[:TOPIC]
        rows.append(np.repeat(typical, WORDS_OF_TOPIC))
        words.append(topic[zipf(rng, TOPIC, size * WORDS_OF_TOPIC)])
        label_rows.append(positive)
    positions = (np.concatenate(rows), np.concatenate(words))
    X = sp.csr_matrix((np.ones(positions[0].size, np.float32), positions), (n_rows, n_words))
    idf = np.log(n_rows / np.maximum(1, np.bincount(X.indices, minlength=n_words)))
    X.data = (np.log1p(X.data) * idf[X.indices]).astype(np.float32)
    X.data /= np.repeat(np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1])), np.diff(X.indptr))
    labels = np.repeat(np.arange(n_labels), counts)
    Y = sp.csr_matrix((np.ones(labels.size), (np.concatenate(label_rows), labels)), (n_rows, n_labels))
    with hpcml.Dataset.from_sparse(X, Y, path):
        return


def run(
    scratch: Path,
    *,
    rows: int = 500_000,
    words: int = 300_000,
    labels: int = 1000,
    ranks: int = 2,
    method: str = "elastic-net",
    options: tuple[str, ...],
) -> Iterator[dict[str, Any]]:
    data = scratch / "data.h5"
    # in another process, since the peak of memory of a subprocess is never below that of the process that starts it
    make = f"from launch.lab.bench.pubmed import write_rows; write_rows({str(data)!r}, {rows}, {words}, {labels})"
    run_command([sys.executable, "-c", make], env={"PYTHONPATH": str(ROOT)})
    trained = train(method, data, scratch / "run", *options, ranks=ranks)
    share = hpcml.Model(trained.model).n_weights / (labels * words)
    line = {"rows": rows, "words": words, "labels": labels, "ranks": ranks, "method": method}
    line |= {"seconds": trained.usage.seconds, "training": trained.seconds, "at_end": share}
    line |= {"hours_for_all": trained.seconds * HEADINGS / labels / 3600, "gb_a_rank": trained.usage.peak_mib * 2**20 / 1e9}
    yield rounded(3, **line)
