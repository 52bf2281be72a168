"""Rows of a label, and those of the others that are most like them, as a collection that is hard to rank.

usage: python launch/bench/neighbours.py TEXTS.jsonl[.xz] OUT.jsonl --label NAME [--positives 3000] [--negatives 10000]

Takes the first rows with the label, and the rows without it with the largest cosine (scikit-learn's tf-idf of words) to one of
them. They come in the order of the file, without its splits. Wilbur (2000) chose his negative documents among neighbours, too.
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

BLOCK = 500  # rows whose cosines are in memory at a time


def nearest(texts: list[str], positive: np.ndarray, others: np.ndarray, n: int) -> np.ndarray:
    """Of the rows `others` the n whose largest cosine to a row of `positive` is largest; equal ones in their order."""
    X = TfidfVectorizer(min_df=2, dtype=np.float32).fit_transform(texts)
    columns = X[positive].T.tocsc()
    cosines = [(X[others[k : k + BLOCK]] @ columns).max(axis=1).toarray().ravel() for k in range(0, others.size, BLOCK)]
    return others[np.argsort(-np.concatenate(cosines), kind="stable")[:n]]


def main() -> None:
    """See the top."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("texts", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--label", required=True)
    parser.add_argument("--positives", type=int, default=3000)
    parser.add_argument("--negatives", type=int, default=10_000)
    given = parser.parse_args()
    with lzma.open(given.texts, "rt") if given.texts.suffix == ".xz" else given.texts.open() as lines:
        rows = [json.loads(line) for line in lines]
    has = np.array([given.label in row["labels"] for row in rows])
    positive = np.flatnonzero(has)[: given.positives]
    texts = [f"{row.get('title', '')} {row.get('text', '')}" for row in rows]
    chosen = np.sort(np.concatenate([positive, nearest(texts, positive, np.flatnonzero(~has), given.negatives)]))
    with given.out.open("w") as out:
        for row in (rows[k] for k in chosen):
            print(json.dumps({key: value for key, value in row.items() if key != "split"}), file=out)
    print(json.dumps({"rows": chosen.size, "positives": positive.size}))


if __name__ == "__main__":
    main()
