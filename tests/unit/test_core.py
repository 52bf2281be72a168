import logging
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcml import log as logs
from hpcml import mpi, slices
from hpcml.cli import app as cli
from hpcml.errors import ConfigError, Interrupted, nearest, repeated
from hpcml.log import Log, Progress, duration, size
from hpcml.methods.linear import layout
from hpcml.partition import bounds_by_weight, bounds_in_items, even_bounds
from hpcml.rng import bits, uniform

PARTS = st.integers(1, 40)


@given(n=st.integers(0, 10**12), n_parts=PARTS)
def test_even_bounds(n, n_parts):
    bounds = even_bounds(n, n_parts)
    sizes = np.diff(bounds)
    assert bounds.dtype == np.int64
    assert (len(bounds), bounds[0], bounds[-1]) == (n_parts + 1, 0, n)
    assert sizes.min() >= 0
    assert sizes.max() - sizes.min() <= 1


@given(weights=st.lists(st.integers(0, 100), max_size=60), start=st.integers(0, 2**60), n_parts=PARTS)
def test_bounds_by_weight(weights, start, n_parts):
    cumulative = start + np.concatenate([[0], np.cumsum(np.array(weights, dtype=np.int64))])
    before = cumulative.copy()
    bounds = bounds_by_weight(cumulative, n_parts)
    assert bounds.dtype == np.int64
    assert (len(bounds), bounds[0], bounds[-1]) == (n_parts + 1, 0, len(weights))
    assert np.diff(bounds).min() >= 0
    heaviest = np.diff(cumulative[bounds]).max()
    assert heaviest <= sum(weights) / n_parts + max(weights, default=0)
    np.testing.assert_array_equal(cumulative, before)


@pytest.mark.parametrize("n_parts", [1, 2, 3])
@pytest.mark.parametrize("weights", [[2, 0, 0], [0, 3, 0], [1, 1, 1, 0]])
def test_the_last_part_has_the_items_without_weight_at_the_end(weights, n_parts):
    bounds = bounds_by_weight(np.cumsum([0, *weights]), n_parts)
    assert (bounds[0], bounds[-1]) == (0, len(weights))


@given(n=st.integers(0, 50), n_parts=PARTS)
def test_items_without_weight_are_shared_by_count(n, n_parts):
    np.testing.assert_array_equal(bounds_by_weight(np.full(n + 1, 7), n_parts), even_bounds(n, n_parts))


@given(st.lists(st.integers(0, 50), max_size=6), st.integers(1, 7))
def test_bounds_in_items_are_those_of_the_whole(sizes, n_parts):
    found = bounds_in_items(sizes, n_parts)
    whole, begins = even_bounds(sum(sizes), n_parts), np.cumsum([0, *sizes])
    for part in range(n_parts):
        items = [begins[k] + place for k, bounds in enumerate(found) for place in range(*bounds[part : part + 2])]
        assert items == list(range(*whole[part : part + 2]))


SEEDS = st.integers(0, 2**63)
INDICES = st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=50).map(lambda values: np.array(values, dtype=np.int64))


@given(seed=SEEDS, index=INDICES, cut=st.integers(0, 50))
def test_independent_of_chunks_and_order(seed, index, cut):
    whole = bits(seed, "split", index)
    np.testing.assert_array_equal(np.concatenate([bits(seed, "split", index[:cut]), bits(seed, "split", index[cut:])]), whole)
    np.testing.assert_array_equal(bits(seed, "split", index[::-1]), whole[::-1])


def test_no_draw_repeats_over_indices_seeds_and_purposes():
    index = np.arange(5000)
    draws = [bits(seed, purpose, index) for seed in (0, 1, 2) for purpose in ("split", "sleep", "init")]
    assert len(np.unique(np.concatenate(draws))) == 9 * index.size


def test_known_value():
    assert uniform(0, "split", np.arange(3)).tolist() == [0.45068260791399495, 0.22689215463796453, 0.8018199722748168]


@pytest.mark.parametrize(("n_rows", "n_values"), [(0, 0), (1, 10**12), (5, 0), (1000, 70_000), (10**7, 7 * 10**8), (10**8, 0)])
def test_slices_are_all_rows_and_small(n_rows, n_values):
    found = list(slices.row_slices(n_rows, n_values))
    assert [some.start for some in found] == [0, *(some.stop for some in found[:-1])][: len(found)]
    assert sum(some.stop - some.start for some in found) == n_rows
    for some in found:
        n = some.stop - some.start
        assert n == 1 or n * (n_values / n_rows + slices.ROW_VALUES) <= slices.SLICE_VALUES
    if len(found) > 1:  # all but the last are as large as they may be
        assert (found[0].stop + 1) * (n_values / n_rows + slices.ROW_VALUES) > slices.SLICE_VALUES


def test_signal_raises_at_the_next_check():
    signals = SimpleNamespace(seen=False)
    look = slices.stop_at(signals, "reading the rows")
    look()
    signals.seen = True
    with pytest.raises(Interrupted, match="a signal arrived while reading the rows"):
        look()


def test_chunks_follow_the_memory(monkeypatch):
    rows = SimpleNamespace(data=np.broadcast_to(np.float32(0), 1 << 26))
    monkeypatch.setattr(layout, "private_bytes", lambda: 100 << 20)
    largest, found = 1 << 24, {}
    for mib in (4096, 268, 267, 216, 146, 136, 0):
        monkeypatch.setattr(layout, "node_memory", lambda mib=mib: mib << 20)
        found[mib] = layout.chunk_values(mpi.self_comm(), rows, 8 << 20, largest)
    # 100 MiB are in use, 8 will be, 32 are the program's: a chunk of 128 MiB and no more makes 268
    assert found == {4096: 0, 268: 0, 267: 1 << 22, 216: 1 << 22, 146: 1 << 18, 136: 1 << 16, 0: 1 << 16}


MANY = [f"name-{letter}" for letter in "abcdefgh"]


def test_suggests_near_name_or_lists_few_names():
    assert nearest("name-i", MANY) in {f"did you mean {name!r}?" for name in MANY}
    assert nearest("zzz", MANY[:3]) == "known: name-a, name-b, name-c"
    assert nearest("zzz", MANY) == ""
    assert nearest("TITLE", [*MANY, " Title", "title b"]) == "did you mean ' Title'?"
    assert (repeated(MANY), repeated([*MANY, "b", "name-d"])) == (None, "name-d")
    assert nearest("zzz", MANY, "hpcml cv --help") == "run `hpcml cv --help` for the list"


def refused(*tokens):
    with pytest.raises(ConfigError) as error:
        cli.run(list(tokens), lambda: pytest.fail("it ran"))
    return str(error.value)


def test_names_the_help_command_without_a_near_name():
    train = ("train", "dual", "x.h5", "-o", "y")
    assert refused(*train, "--zzz") == "Unknown option: --zzz. `hpcml train dual --help` lists the options."
    assert refused(*train, "--tol", "1") == "Unknown option: --tol. Did you mean --dual-tol?"
    for tokens, name in ((("threshold", "r", "d.h5"), "--measure"), (("predict", "r", "d.h5", "-o", "y.csv", "--top"), "--top")):
        assert refused(*tokens) == f"{name}: missing, but required; `hpcml {tokens[0]} --help` describes it"
    assert refused("train", "zzz", "x.h5") == "no method 'zzz'; run `hpcml train --help` for the list"


@pytest.fixture
def clock(monkeypatch):
    now, said = [100.0], []
    monkeypatch.setattr(logs.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(logs, "say", lambda text, stream: said.append(text))
    monkeypatch.setattr(logs.sys.stderr, "isatty", lambda: False, raising=False)
    return now, said


def test_remaining_time_without_a_terminal(clock):
    now, said = clock
    progress = Progress(Log(0), "labels", 90, every=10)
    for seconds, done in ((10, 0), (20, 9), (25, 10), (60, 30), (70, 90)):
        now[0] = 100 + seconds
        progress.update(done, f"pass {seconds}")
    assert said == [
        "labels: 0 of 90, pass 10",
        "labels: 9 of 90, pass 20, about 3 min left",
        "labels: 30 of 90, pass 60, about 2 min left",
        "labels: 90 of 90, pass 70",
    ]


@pytest.mark.parametrize(
    ("kind", "printed"),
    [
        ({}, ["rows", "warning: scales"]),
        ({"verbose": True}, ["rows", "iterations", "warning: scales"]),
        ({"quiet": True}, ["warning: scales"]),
        ({"to_logger": True}, []),
        ({"to_logger": True, "verbose": True}, []),
    ],
)
def test_internals_are_printed_on_request_and_always_in_the_file(tmp_path, capsys, caplog, kind, printed):
    caplog.set_level(logging.DEBUG, "hpcml")
    log = Log(0, **kind)
    log.file = tmp_path / "log.txt"
    log("rows")
    log.detail("iterations")
    log.detail("warning: scales")
    assert capsys.readouterr().err.splitlines() == printed
    levels = [(logging.INFO, "rows"), (logging.DEBUG, "iterations"), (logging.WARNING, "warning: scales")]
    assert [(each.levelno, each.message) for each in caplog.records] == (levels if "to_logger" in kind else [])
    assert [line.split(" ", 1)[1] for line in log.file.read_text().splitlines()] == ["rows", "iterations", "warning: scales"]
    Log(1, verbose=True).detail("of another rank")
    assert not capsys.readouterr().err


def test_dumb_terminal_gets_lines(clock, monkeypatch):
    now, said = clock
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(logs.sys.stderr, "isatty", lambda: True, raising=False)
    progress = Progress(Log(0), "labels", 90, every=10)
    now[0] += 20
    progress.update(9)
    progress.close()
    assert said == ["labels: 9 of 90"]


def test_remaining_time_of_resumed_work(clock):
    now, said = clock
    progress = Progress(Log(0), "rows", 100, every=10)
    for seconds, done in ((5, 50), (15, 60)):
        now[0] = 100 + seconds
        progress.update(done)
    assert said == ["rows: 60 of 100, about 40 s left"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (5000, "83 min"), (12000, "3 h 20 min"), (190800, "2 d 5 h")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_sizes():
    sizes = (0, 999, 1000, 87_500_000, 1_250_000_000, 3.2e12, 5e15)
    assert [size(n) for n in sizes] == ["0", "999 bytes", "1 kB", "87.5 MB", "1.25 GB", "3.2 TB", "5 PB"]
