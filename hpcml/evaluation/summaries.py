"""The summaries of labels whose scores lie on many ranks, block of labels by block."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from hpcml import mpi
from hpcml.errors import NonFiniteError
from hpcml.evaluation.decision import Summary, Tally, even_places, warm_up
from hpcml.evaluation.judged import JudgedRows, split_by_lane
from hpcml.log import Log, Progress


def summaries_of(held_out: JudgedRows, log: Log) -> list[Summary]:
    """Collective over the rows' ranks. Summaries of judged labels, by two passes over the scores.

    Raises NonFiniteError for a score that is not finite.
    """
    comm, found, even = held_out.comm, [], even_places(held_out.n_labels)
    with mpi.node_first(comm):
        warm_up()
    with closing(Progress(log, "looking at the scores of labels", held_out.n_labels)) as progress:
        for begin, end in held_out.scorer.blocks:
            found += _of_block(held_out, begin, end, even)
            progress.update(end)
    return found


def _of_block(held_out: JudgedRows, begin: int, end: int, even: int) -> list[Summary]:
    """Collective over the rows' ranks. The summaries of judged labels begin..end."""
    comm = held_out.comm
    ends = np.full((2, end - begin), -np.inf)  # −least, largest
    with mpi.agreed(comm, "scoring rows"):
        for _, scores in held_out.scores(begin, end):
            np.maximum(ends, [-scores.min(axis=0), scores.max(axis=0)], out=ends)
    mpi.allreduce_maxima(comm, ends)
    endless = np.flatnonzero(~np.isfinite(ends.sum(axis=0)))
    if endless.size:  # the same on all ranks
        model, label = held_out.scorer.model, int(held_out.scorer.labels[begin + endless[0]])
        raise NonFiniteError(f"{model.path}: a score of label {model.label_names[label]!r} is not finite; train it again")
    some = slice(*np.searchsorted(held_out.labels, [begin, end]))
    positives = split_by_lane(comm, held_out.positives[some], held_out.labels[some] - begin, end - begin)
    with mpi.agreed(comm, "counting scores"):
        tallies = [Tally(own, -low, high, even) for own, low, high in zip(positives, *ends, strict=True)]
        for _, scores in held_out.scores(begin, end):
            for tally, column in zip(tallies, np.ascontiguousarray(scores.T), strict=True):
                tally.add(column)
    _sum(comm, tallies)
    return [tally.summary() for tally in tallies]


def _sum(comm: mpi.Comm, tallies: list[Tally]) -> None:
    """Collective over `comm`. Sum counts, and take the largest tops, in two messages."""
    counts = mpi.allreduce_sum(comm, np.concatenate([tally.counts.ravel() for tally in tallies]))
    tops = mpi.allreduce_maxima(comm, np.concatenate([tally.top for tally in tallies]))
    begin = 0
    for tally in tallies:
        n = tally.top.size
        tally.counts[:] = counts[3 * begin : 3 * (begin + n)].reshape(3, n)
        tally.top[:] = tops[begin : begin + n]
        begin += n
