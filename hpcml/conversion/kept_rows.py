"""Documents that a corpus loses again: what was read, and then replaced or deleted."""

from __future__ import annotations

from itertools import compress

import numpy as np

from hpcml.conversion.row_ids import RowIds
from hpcml.conversion.text import Corpus, TokenSlice
from hpcml.files.spool import ArraySpool, Spool, slices


def keep_rows(corpus: Corpus, keep: np.ndarray) -> None:
    """Leave flagged documents (n_rows) in a corpus, and their labels; close it. Raises OSError."""
    corpus.close()
    if keep.all():
        return
    scratch = corpus.scratch
    closed, row_ids = ArraySpool(scratch), RowIds(scratch)
    labels, label_indptr = Spool(scratch, np.int32), Spool(scratch, np.int64)
    label_indptr.append(np.zeros(1, dtype=np.int64))
    first, in_use = 0, np.zeros(len(corpus.label_numbers), dtype=bool)
    for block in corpus.blocks():
        some = keep[first : (end := first + block.lengths.size)]
        closed.append(TokenSlice(block.lengths[some], block.tokens[np.repeat(some, block.lengths)], block.run))
        row_ids.extend(list(compress(corpus.row_ids.ids[first:end], some)), corpus.row_ids.lines[first:end][some])
        ends = corpus.label_indptr[first : end + 1]
        found = corpus.labels[ends[0] : ends[-1]][np.repeat(some, np.diff(ends))]
        in_use[found] = True
        label_indptr.append(labels.size + np.cumsum(np.diff(ends)[some]))
        labels.append(found)
        first = end
    corpus.closed, corpus.row_ids, corpus.splits = closed, row_ids, list(compress(corpus.splits, keep))
    corpus.labels, corpus.label_indptr = _renumbered(labels, np.cumsum(in_use) - 1), label_indptr
    names = list(compress(list(corpus.label_numbers), in_use))
    corpus.label_numbers.clear()
    corpus.label_numbers.update((name, number) for number, name in enumerate(names))


def _renumbered(labels: Spool, numbers: np.ndarray) -> Spool:
    """The labels with other numbers. Raises OSError."""
    renumbered = Spool(labels.folder, np.int32)
    for some in slices(labels.size):
        renumbered.append(numbers[labels[some]])
    return renumbered
