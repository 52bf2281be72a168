"""The data of the papers' experiments, as `hpcml convert` takes them: from the folder that
HPCML_DATA names, or made on this machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

TEST_SHARE = "0.3"  # of corpora without test rows of their own


class Corpus(NamedTuple):
    """A file, what converts it, and the file of its test rows; has_splits: it says what is what."""

    source: str
    file: str
    test: str = ""
    has_splits: bool = False
    name: str = ""  # in the papers


CORPORA = {
    "reuters21578": Corpus("jsonl", "reuters21578.jsonl.xz", has_splits=True, name="Reuters"),
    "20newsgroups": Corpus("jsonl", "20newsgroups.jsonl.xz", has_splits=True, name="Newsgroups"),
    "movie_reviews": Corpus("jsonl", "movie_reviews.jsonl.xz", name="MovieReviews"),
    "spamassassin": Corpus("jsonl", "spamassassin.jsonl.xz", name="Spam"),
    "imdb": Corpus("jsonl", "imdb.jsonl.xz", has_splits=True, name="IMDB"),
    "mesh": Corpus("jsonl", "mesh.jsonl.xz", name="MeSH"),
    "bibtex": Corpus("svmlight", "bibtex.svm.xz", name="Bibtex"),
    "imdb_f": Corpus("svmlight", "imdb_f.svm.xz", name="IMDB-F"),
    "a9a": Corpus("svmlight", "a9a.svm.xz", "a9a.t.svm.xz", name="Adult"),
    "w8a": Corpus("svmlight", "w8a.svm.xz", name="W8A"),
    "ijcnn1": Corpus("svmlight", "ijcnn1.svm.xz", name="ICJNN1"),
    "covtype": Corpus("svmlight", "covtype.svm.xz", name="Cover"),
    "kdd99": Corpus("svmlight", "kdd99_10pct_train.svm.xz", "kdd99_test.svm.xz", name="KDD99"),
    "chess": Corpus("svmlight", "chess.svm.xz", name="Chess"),
    "vote": Corpus("svmlight", "vote.svm.xz", name="Congressional"),
    "breast_w": Corpus("svmlight", "breast_w.svm.xz", name="WiscBreast"),
    "nursery": Corpus("svmlight", "nursery.svm.xz", name="Nursery"),
}
# Where a corpus is not there, and of the quick form: arguments of `convert`.
MADE = {
    "text": ("docstrings",),
    "numbers": ("synthetic", "checkerboard", "--rows", "20000", "--test-share", TEST_SHARE),
}
QUICK = {
    "text": ("synthetic", "text", "--rows", "600", "--features", "800", "--labels", "8", "--test-share", TEST_SHARE),
    "numbers": ("synthetic", "checkerboard", "--rows", "600", "--test-share", TEST_SHARE),
}


def file_of(name: str) -> Path | None:
    """A file of the folder that HPCML_DATA names, if it is there."""
    folder = os.environ.get("HPCML_DATA")
    path = Path(folder or "", name)
    return path if folder and path.is_file() else None
