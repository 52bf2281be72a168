"""Documents that a corpus loses again: what was read, and then replaced or deleted."""

from __future__ import annotations

from itertools import compress

import numpy as np

from hpcml.conversion.part import RowIds, WaitingRows
from hpcml.conversion.text import Corpus, TokenSlice
from hpcml.files.spool import ArraySpool, slices


def keep_rows(corpus: Corpus, keep: np.ndarray) -> None:
    """Leave flagged documents (n_rows) in a corpus, and their labels; close it. Raises OSError."""
    corpus.close()
    if keep.all():
        return
    scratch = corpus.scratch
    closed, row_ids, labels = ArraySpool(scratch), RowIds(scratch), WaitingRows(scratch, np.int32)
    first, in_use = 0, np.zeros(len(corpus.label_numbers), dtype=bool)
    for block in corpus.blocks():
        some = keep[first : (end := first + block.lengths.size)]
        closed.append(TokenSlice(block.lengths[some], block.tokens[np.repeat(some, block.lengths)], block.run))
        row_ids.extend(list(compress(corpus.row_ids.ids[first:end], some)), corpus.row_ids.lines[first:end][some])
        ends = corpus.labels.indptr[first : end + 1]
        found = corpus.labels.indices[ends[0] : ends[-1]][np.repeat(some, np.diff(ends))]
        in_use[found] = True
        labels.add(np.diff(ends)[some], found)
        first = end
    corpus.closed, corpus.row_ids, corpus.splits = closed, row_ids, list(compress(corpus.splits, keep))
    names, numbers = list(compress(corpus.label_numbers, in_use)), np.cumsum(in_use) - 1
    for part in slices(labels.indices.size):
        labels.indices.put(part.start, numbers[labels.indices[part]])
    corpus.labels = labels
    corpus.label_numbers.clear()
    corpus.label_numbers.update((name, number) for number, name in enumerate(names))
