"""The data of the experiments as arguments of `hpcml convert`: from the folder HPCML_DATA, or generated."""

from __future__ import annotations

import lzma
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml.errors import ConfigError
from launch.lab.core.tables import write_atomically

TEST_SHARE = "0.3"  # of corpora without test rows


class CorpusFile(NamedTuple):
    """A file, its `hpcml convert` source, and its test file. `has_splits`: the file states the splits."""

    source: str
    file: str
    test: str = ""
    has_splits: bool = False
    name: str = ""  # in the papers


CORPORA = {
    "reuters21578": CorpusFile("jsonl", "reuters21578.jsonl.xz", has_splits=True, name="Reuters"),
    "20newsgroups": CorpusFile("jsonl", "20newsgroups.jsonl.xz", has_splits=True, name="Newsgroups"),
    "movie_reviews": CorpusFile("jsonl", "movie_reviews.jsonl.xz", name="MovieReviews"),
    "spamassassin": CorpusFile("jsonl", "spamassassin.jsonl.xz", name="Spam"),
    "imdb": CorpusFile("jsonl", "imdb.jsonl.xz", has_splits=True, name="IMDB"),
    "mesh": CorpusFile("jsonl", "mesh.jsonl.xz", name="MeSH"),
    "bibtex": CorpusFile("svmlight", "bibtex.svm.xz", name="Bibtex"),
    "a9a": CorpusFile("svmlight", "a9a.svm.xz", "a9a.t.svm.xz", name="Adult"),
    "w8a": CorpusFile("svmlight", "w8a.svm.xz", name="W8A"),
    "ijcnn1": CorpusFile("svmlight", "ijcnn1.svm.xz", name="ICJNN1"),
    "covtype": CorpusFile("svmlight", "covtype.svm.xz", name="Cover"),
    "kdd99": CorpusFile("svmlight", "kdd99_10pct_train.svm.xz", "kdd99_test.svm.xz", name="KDD99"),
    "chess": CorpusFile("svmlight", "chess.svm.xz", name="Chess"),
    "vote": CorpusFile("svmlight", "vote.svm.xz", name="Congressional"),
    "breast_w": CorpusFile("svmlight", "breast_w.svm.xz", name="WiscBreast"),
    "nursery": CorpusFile("svmlight", "nursery.svm.xz", name="Nursery"),
}
# Arguments of `convert` that replace missing corpora, and those of the quick form.
SYNTHETIC = {
    "text": ("docstrings",),
    "numbers": ("synthetic", "checkerboard", "--rows", "20000", "--test-share", TEST_SHARE),
}
QUICK = {
    "text": ("synthetic", "text", "--rows", "600", "--features", "800", "--labels", "8", "--test-share", TEST_SHARE),
    "numbers": ("synthetic", "checkerboard", "--rows", "600", "--test-share", TEST_SHARE),
}
# Sets of many labels and long rows, as arguments of `convert`. The last has the shape of Amazon-670K.
SETS: dict[str, tuple[object, ...]] = {
    "tiny": ("synthetic", "text", "--rows", 1000, "--features", 1500, "--labels", 40, "--test-share", TEST_SHARE),
    "debian_depends": ("jsonl", "debian_depends.jsonl.xz"),
    "docstrings": ("docstrings", "--test-share", TEST_SHARE),
    "mesh": ("jsonl", "mesh.jsonl.xz", "--test-share", TEST_SHARE),
    "imdb-pairs": ("jsonl", "imdb.jsonl.xz", "--pairs"),
    "debian_tags_en-pairs": ("jsonl", "debian_tags_en.jsonl.xz", "--pairs"),
    "generated": (
        *("synthetic", "text", "--rows", 50_000, "--features", 200_000, "--labels", 72_668, "--least-positives", 8),
        *("--test-share", TEST_SHARE),
    ),
    "amazon": (
        *("synthetic", "text", "--rows", 643_474, "--features", 135_909, "--labels", 670_091, "--least-positives", 4),
        *("--test-share", 0.2378),
    ),
}


def convert_words(name: str) -> list[object]:
    """Return the arguments of `convert` for one of SETS, or for a dataset (.h5), which needs none. Raises ConfigError."""
    if name.endswith(".h5"):
        return []
    if name not in SETS:
        raise ConfigError(f"unknown set {name!r}; the sets are {', '.join(SETS)}")
    return [file_of(word) if str(word).endswith(".xz") else word for word in SETS[name]]


def file_of(name: str) -> Path:
    """Return the path of a file in HPCML_DATA; without HPCML_DATA the path of an absent file."""
    return Path(os.environ.get("HPCML_DATA") or os.devnull, name)


def n_lines(source: Path) -> int:
    with lzma.open(source) as lines:
        return sum(1 for _ in lines)


def copy_lines(source: Path, numbers: np.ndarray, path: Path) -> int:
    chosen = set(numbers.tolist())
    with lzma.open(source) as lines:
        write_atomically(path, b"".join(line for number, line in enumerate(lines) if number in chosen))
    return len(chosen)
