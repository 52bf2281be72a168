"""PsbmlClassifier.fit(on_cycle=...): the rows and weights of the nodes after each cycle, on any number of ranks."""

import numpy as np
import pytest

from hpcml import PsbmlClassifier, mpi

CYCLES = 4


def rows_of_nodes(comm, X, y):
    """Collective over `comm`. The cycles (node -> rows, weights) of all ranks."""
    cycles = []
    own = np.arange(len(y)) % comm.size == comm.rank if comm.size > 1 else np.ones(len(y), bool)
    order = np.concatenate([np.flatnonzero(np.arange(len(y)) % comm.size == rank) for rank in range(comm.size)])
    PsbmlClassifier(cycles=CYCLES, comm=comm).fit(X[own], y[own], on_cycle=cycles.append)
    found = []
    for cycle in cycles:
        parts = comm.allgather((cycle.cycle, dict(cycle.rows), dict(cycle.weights)))
        assert len({number for number, *_ in parts}) == 1
        found.append([{node: values for part in parts for node, values in part[k].items()} for k in (1, 2)])
    return order, found


@pytest.mark.mpi
def test_on_cycle_sees_the_same_rows_on_any_number_of_ranks(comm):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 3)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(int)
    order, together = rows_of_nodes(comm, X, y)
    _, alone = rows_of_nodes(mpi.self_comm(), X[order], y[order])
    assert len(together) == len(alone) == CYCLES
    for (rows, weights), (expected_rows, expected_weights) in zip(together, alone, strict=True):
        assert sorted(rows) == list(range(9))
        for node in rows:
            assert (rows[node] == expected_rows[node]).all()
            assert (weights[node] == expected_weights[node]).all()
            assert (weights[node] >= 0).all() and (weights[node] <= 1).all()
        n_slots = sum(of.size for of in rows.values())
        assert n_slots == sum(of.size for of in together[0][0].values())  # every cycle replaces rows, none adds any
    assert max(of.max() for of in together[-1][1].values()) > 0


@pytest.mark.mpi
def test_an_error_in_on_cycle_ends_all_ranks(comm):
    def fail(cycle):
        if comm.rank == comm.size - 1 and cycle.cycle == 2:
            raise ValueError("on purpose")

    X = np.arange(40.0).reshape(-1, 1)
    with pytest.raises(Exception, match="on purpose"):
        PsbmlClassifier(cycles=CYCLES, comm=comm).fit(X, np.arange(40) % 2, on_cycle=fail)
