"""svmlight text by scikit-learn's reader."""

from io import BytesIO
from itertools import chain

import numpy as np
from sklearn.datasets import load_svmlight_file

from hpcml.data.svmlight import MAX_INDEX, Rows


def parse_block(block, zero_based):
    tokens = chain.from_iterable(line.partition(b"#")[0].split() for line in block.split(b"\n"))
    if any(b"_" in token or token.startswith(b"qid:") for token in tokens):  # Python reads 1_0 as 10
        raise ValueError("query ids or underscores")
    X, y = load_svmlight_file(BytesIO(block), dtype=np.float64, multilabel=True, zero_based=True)
    first = 0 if zero_based else 1
    label_lengths = np.fromiter(map(len, y), dtype=np.int64, count=len(y))
    labels = np.fromiter(chain.from_iterable(y), dtype=np.float64, count=int(label_lengths.sum()))
    with np.errstate(over="ignore"):
        data = X.data.astype(np.float32)
    low, high = (int(X.indices.min()), int(X.indices.max())) if X.nnz else (first, first - 1)
    if low < first or high - first > MAX_INDEX or not np.isfinite(data).all() or not np.isfinite(labels).all():
        raise ValueError("out of range")
    lengths, keep = np.diff(X.indptr), data != 0
    lengths = np.bincount(np.repeat(np.arange(lengths.size), lengths)[keep], minlength=lengths.size)
    return Rows(lengths, (X.indices[keep] - first).astype(np.int32), data[keep], label_lengths, labels, high - first + 1)
