"""The torus: neighbours across the edges, and the distribution of nodes over ranks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcml.errors import ConfigError
from hpcml.methods.psbml.torus import NEIGHBOURHOODS, Torus, parse_grid

SIDE = st.integers(1, 9)
KIND = st.sampled_from(sorted(NEIGHBOURHOODS))
# The steps (x, y) of each neighbourhood, as conditions.
WITHIN = {
    "L5": lambda x, y: abs(x) + abs(y) <= 1,
    "L9": lambda x, y: (x == 0 or y == 0) and abs(x) + abs(y) <= 2,
    "C9": lambda x, y: max(abs(x), abs(y)) <= 1,
    "C13": lambda x, y: abs(x) + abs(y) <= 2,
}


@given(width=SIDE, height=SIDE, kind=KIND)
def test_neighbours_are_the_wrapped_steps_mutually_and_a_node_is_its_own(width, height, kind):
    assert set(NEIGHBOURHOODS) == set(WITHIN)
    torus = Torus(width, height, kind)
    steps = [(dx, dy) for dx in range(-3, 4) for dy in range(-3, 4) if WITHIN[kind](dx, dy)]
    for node in range(torus.n_nodes):
        y, x = divmod(node, width)
        expected = {((y + dy) % height) * width + (x + dx) % width for dx, dy in steps}
        assert torus.neighbours(node) == tuple(sorted(expected))
        assert node in torus.neighbours(node)
        assert all(node in torus.neighbours(other) for other in torus.neighbours(node))


def test_rejects_invalid_grids():
    assert [parse_grid(text) for text in ("3x4", "1x1", "99999x10")] == [(3, 4), (1, 1), (99999, 10)]
    for text in ("", "3", "3x", "x3", "0x3", "3x0", "-1x3", "3X3", "3x3x3", " 3x3", "3x3\n", "3.0x3", "03x3", "123456x1"):
        with pytest.raises(ConfigError, match="expected WIDTHxHEIGHT"):
            parse_grid(text)


def placements(width, height, kind, n_ranks):
    return Torus(width, height, kind), [Torus(width, height, kind, n_ranks, rank) for rank in range(n_ranks)]


@given(width=SIDE, height=SIDE, kind=KIND, n_ranks=st.integers(1, 30))
def test_nodes_are_dealt_in_balanced_blocks(width, height, kind, n_ranks):
    torus, ranks = placements(width, height, kind, n_ranks)
    assert [node for rank in ranks for node in rank.nodes] == list(range(torus.n_nodes))
    sizes = [len(rank.nodes) for rank in ranks]
    assert max(sizes) - min(sizes) <= 1
    for rank in ranks:
        assert (rank.owners[rank.nodes] == rank.rank).all()
        np.testing.assert_array_equal(rank.owners, ranks[0].owners)
    if n_ranks == torus.n_nodes:
        assert [rank.nodes for rank in ranks] == [[node] for node in range(n_ranks)]


@given(width=SIDE, height=SIDE, kind=KIND, n_ranks=st.integers(1, 12))
def test_sent_nodes_are_those_the_receiver_needs(width, height, kind, n_ranks):
    torus, ranks = placements(width, height, kind, n_ranks)
    for a in ranks:
        assert a.to_send.keys() == a.to_receive.keys()
        assert a.rank not in a.to_send
        for b in ranks:
            assert a.to_send.get(b.rank) == b.to_receive.get(a.rank)
        seen = {other for node in a.nodes for other in torus.neighbours(node)}
        assert sorted([*a.nodes, *(node for nodes in a.to_receive.values() for node in nodes)]) == sorted(seen)
