"""The torus: who is whose neighbour, wrapped round; and which rank hosts which nodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcml.errors import ConfigError
from hpcml.methods.psbml.torus import NEIGHBOURHOODS, Torus, parse_grid

SIDE = st.integers(1, 9)
KIND = st.sampled_from(sorted(NEIGHBOURHOODS))
# Which steps (x, y) belong to a neighbourhood, said otherwise than by a list.
WITHIN = {
    "L5": lambda x, y: abs(x) + abs(y) <= 1,
    "L9": lambda x, y: (x == 0 or y == 0) and abs(x) + abs(y) <= 2,
    "C9": lambda x, y: max(abs(x), abs(y)) <= 1,
    "C13": lambda x, y: abs(x) + abs(y) <= 2,
}


def test_sizes_on_a_large_torus():
    assert set(NEIGHBOURHOODS) == set(WITHIN)
    for kind, size in {"L5": 5, "L9": 9, "C9": 9, "C13": 13}.items():
        torus = Torus(7, 6, kind)
        assert {len(torus.neighbours(node)) for node in range(torus.n_nodes)} == {size}


@given(width=SIDE, height=SIDE, kind=KIND)
def test_neighbours_are_the_wrapped_steps_mutually_and_a_node_is_its_own(width, height, kind):
    torus = Torus(width, height, kind)
    steps = [(dx, dy) for dx in range(-3, 4) for dy in range(-3, 4) if WITHIN[kind](dx, dy)]
    for node in range(torus.n_nodes):
        y, x = divmod(node, width)
        wanted = {((y + dy) % height) * width + (x + dx) % width for dx, dy in steps}
        assert torus.neighbours(node) == tuple(sorted(wanted))
        assert node in torus.neighbours(node)
        assert all(node in torus.neighbours(other) for other in torus.neighbours(node))


def test_wrapping_at_the_corner():
    assert Torus(5, 4, "L5").neighbours(0) == (0, 1, 4, 5, 15)
    assert Torus(5, 4, "C9").neighbours(0) == (0, 1, 4, 5, 6, 9, 15, 16, 19)
    assert Torus(6, 5, "L9").neighbours(0) == (0, 1, 2, 4, 5, 6, 12, 18, 24)
    assert Torus(5, 4, "L5").neighbours(19) == (4, 14, 15, 18, 19)


@pytest.mark.parametrize("kind", sorted(NEIGHBOURHOODS))
def test_on_a_small_torus_each_node_is_there_once(kind):
    assert Torus(1, 1, kind).neighbours(0) == (0,)
    for node in range(3):
        assert Torus(1, 3, kind).neighbours(node) == Torus(3, 1, kind).neighbours(node) == (0, 1, 2)
    for node in range(4):
        everyone = (0, 1, 2, 3)
        opposite = 3 - node
        assert Torus(2, 2, kind).neighbours(node) == (everyone if kind[0] == "C" else tuple(sorted({*everyone} - {opposite})))
    for node in range(9):
        assert (Torus(3, 3, kind).neighbours(node) == tuple(range(9))) == (kind[0] == "C")


def test_grid():
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
def test_what_one_rank_gives_the_other_wants(width, height, kind, n_ranks):
    torus, ranks = placements(width, height, kind, n_ranks)
    for a in ranks:
        assert a.given.keys() == a.wanted.keys()
        assert a.rank not in a.given
        for b in ranks:
            assert a.given.get(b.rank) == b.wanted.get(a.rank)
        seen = {other for node in a.nodes for other in torus.neighbours(node)}
        assert sorted([*a.nodes, *(node for nodes in a.wanted.values() for node in nodes)]) == sorted(seen)


def test_a_rank_too_many_has_nothing_to_do():
    _, ranks = placements(2, 1, "C13", 5)
    assert sorted(rank.nodes for rank in ranks) == [[], [], [], [0], [1]]
    for rank in ranks:
        assert bool(rank.given) == bool(rank.wanted) == bool(rank.nodes)
