"""What a plan says, against what training does, and against arithmetic done by hand."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from support.make import dataset, random_data
from support.training import asked, train

from hpcml import mpi
from hpcml.cli import app as cli
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError, DataError
from hpcml.methods.dual import forecast as dual_forecast
from hpcml.methods.dual.forecast import Work, _Bench
from hpcml.methods.dual.memory import bytes_per_rank_dual
from hpcml.methods.forecast import Cluster, Machine, NoForecast, Sizes, sent
from hpcml.methods.linear.forecast import STATE
from hpcml.methods.linear.layout import bytes_per_rank, labels_of_group
from hpcml.methods.probe.forecast import Steps
from hpcml.methods.registry import METHODS
from hpcml.planning.generated import LONG, SHORT, generate, words
from hpcml.planning.machine import read_machine, write_machine
from hpcml.planning.measure import latency_and_bandwidth, measure_rows, processor_seconds
from hpcml.planning.plan import flags
from hpcml.planning.sizes import sizes_from, sizes_of, words_of

GB = 10**9
ABOUT = {"program_bytes": 10**8, "processor": "an abacus", "date": "today", "hpcml": "0", "nodes": 1, "ranks": 1}


def constants(**given):
    """A machine on which everything costs 1 ns, but for what is given (ns)."""

    class Everything(dict):
        def __missing__(self, name):
            return [[1.0, 1e-9 * given.get(name.replace(".", "_"), 1.0)]]

        def __contains__(self, name):
            return True

    return Machine(dict(ABOUT), {"1": Everything()})


def sizes(n_rows=1000, n_columns=500, n_values=20_000, n_positive=(10,) * 32):
    n = np.array(n_positive)
    return Sizes(n_rows, 2 * n_columns, n_values, n_columns, 2 * n_columns, n, n.size, int(n.sum()), 8 * n_values)


def cluster(nodes=1, ranks=1, memory=64 * GB, **more):
    return Cluster(nodes, ranks, memory, **more)


def forecast(method, found=None, where=None, machine=None, pilot=None, **options):
    forecaster = METHODS[method].load(METHODS[method].forecast)
    return forecaster.forecast(found or sizes(), where or cluster(), asked(method, **options), machine or constants(), pilot)


@pytest.fixture(scope="module")
def measured():
    """Constants of this machine, from a few rows; every constant that a plan asks for must be there."""
    constants = measure_rows(generate(400, 100), processor_seconds)
    return Machine(dict(ABOUT), {"1": {name: [list(point)] for name, point in constants.items()}})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, Y = random_data(3, 300, 120, 20, 0.05)
    return dataset(tmp_path_factory.mktemp("plan") / "data.h5", abs(X), Y, splits={"train": np.arange(240)})


def run(*tokens):
    cli.run([str(token) for token in tokens], mpi.self_comm)


def test_sizes_are_those_of_training(data):
    found, names = sizes_of(mpi.self_comm(), data, asked("dual", min_positives=5))
    with DataFile(data) as opened:
        rows, _ = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), opened, "train"), bias=False)
    positive = rows.n_positive[rows.n_positive >= 5]
    assert (found.n_rows, found.n_columns, len(names)) == (240, rows.n_columns, positive.size)
    assert found.n_positive.tolist() == positive.tolist()
    assert found.n_pairs == rows.n_positive.sum() and found.n_trained == positive.size
    assert found.n_values >= rows.data.size  # folded values are one


def test_sizes_from_numbers_follow_the_laws():
    n_rows, n_words = 4000, 20_000
    random = np.random.default_rng(0)
    drawn = [np.array(list(dict.fromkeys(words(random.random(400), n_words).tolist()))[:30]) for _ in range(n_rows)]
    counts = np.bincount(np.concatenate(drawn), minlength=n_words)
    lonely = sum(bool((counts[row] == 1).any()) for row in drawn)
    found = words_of(n_rows, n_words, 30.0)
    assert found.used == pytest.approx(np.count_nonzero(counts), rel=0.05)
    assert found.columns == pytest.approx(np.count_nonzero(counts > 1) + lonely, rel=0.05)
    given = sizes_from(n_rows, np.count_nonzero(counts), 50, 30.0)
    assert given.n_columns == pytest.approx(found.columns, rel=0.1) and given.n_used == given.n_features
    assert given.n_positive[0] == 1200 and (np.diff(given.n_positive) <= 0).all() and given.n_values == 120_000
    few = sizes_from(10, 10**6, 2, 5.0)  # more features than there are values
    assert few.n_used <= 50 and few.n_columns <= 50


@pytest.mark.parametrize("given", [(0, 10, 1, None), (10, 0, 1, None), (10, 10, 0, None), (10, 10, 1, 11.0), (10, 10, 1, 0.0)])
def test_numbers_that_make_no_sense(given):
    with pytest.raises(ConfigError, match="expected a number"):
        sizes_from(*given)


def test_memory_is_what_the_methods_say():
    found = forecast("dual", where=cluster(2, 4))
    assert found.own_bytes["weights and state of labels, at most"] == bytes_per_rank_dual(0, 1000, 500, 4, 1, 4)
    assert found.shared_bytes == 8 * (20_000 + 1000) + 8 * 320
    found = forecast("probe", where=cluster(1, 4), ranks_per_group=4)
    rest = bytes_per_rank(0, 1000, 500, 16, 4, 4)
    assert found.own_bytes["weights and state of labels, at most"] == rest
    assert found.own_bytes["rows"] == bytes_per_rank(21_000, 1000, 500, 16, 4, 4) - rest + 8 * 320 // 4


def test_labels_trained_alone_take_less(monkeypatch):
    """With 10 rows of 100 that such a label may have: 0.15 + 0.5 / 10 of a panel's time."""

    def panel():
        one, two = (forecast("dual", sizes(n_positive=(10,) * n)) for n in (16, 32))
        return two.seconds["train"] - one.seconds["train"], any("trained alone" in each for each in two.assumed)

    of_panel, said = panel()
    monkeypatch.setattr(dual_forecast, "VALUES_PER_POSITIVE", (sizes().n_values + sizes().n_rows) // 100)
    alone, said_so = panel()
    assert alone == pytest.approx(0.2 * of_panel) and said_so and not said


def test_seconds_of_dual_by_hand():
    """Two panels of 16 labels, each of two rounds, three visits, one move, and half of the rows with a dual."""
    work = Work(np.array([[0.01, 3.0, 1.0, 0.5, 2.0]]), np.zeros((1, 4)), 1000, "a test")
    names = ["row", "move", "read", "write", "look", "add", "column", "begin_row", "begin_column"]
    zero = {f"dual_{name}": 0.0 for name in names}
    units = {"row": 1000 * (6 + 5), "move": 1000 * 2, "read": 21_000 * (6 + 5), "write": 21_000 * 2}  # 5: the common start
    units |= {"look": 21_000 * 4, "add": 21_000, "column": 500 * 4, "begin_row": 1000 * 4, "begin_column": 500 * 4}
    for name in names:
        found = forecast("dual", machine=constants(**zero | {f"dual_{name}": 1.0}), pilot=work)
        assert found.seconds["train"] == pytest.approx(1e-9 * units[name]), name


def test_a_pilot_sets_the_pace():
    """Panels that took three times what the constants say of them: so do all."""
    work = Work(np.array([[0.01, 3.0, 1.0, 0.5, 2.0]]), np.zeros((1, 4)), 100, "a test", n_values=2100, n_columns=50)
    units = 100 * (3 + 1 + 2) + 2100 * (3 + 1 + 2 + 0.5) + 50 * 4  # of each row, value and column
    plain, slow = (forecast("dual", pilot=each).seconds["train"] for each in (work, replace(work, seconds=3e-9 * units)))
    assert slow == pytest.approx(3 * plain)


def test_memory_of_waiting_labels_is_halved_where_a_pilot_finds_few():
    """Of 16 labels, one panel: weights and duals in 4 bytes, and a flag of each row."""
    table = np.array([[0.01, 3.0, 1.0, 0.5, 1.0]])
    few, all_of_them = (Work(table * [1, 1, 1, 1, rounds], np.zeros((1, 4)), 1000, "a test") for rounds in (1.5, 2.0))
    bound, seen, again = (forecast("dual", pilot=each).own_bytes[STATE] for each in (None, few, all_of_them))
    assert bound == again == bytes_per_rank_dual(0, 1000, 500, 16, 1, 4)
    assert bound - seen == 16 * (4 * 500 + 5 * 1000)


def test_probe_runs_until_the_last_label_is_done():
    """A step takes 1 s with one label in lanes, 3 s with two. The third label begins when the first lane is free."""
    turns = np.array([1.0, 3.0])
    assert Steps(10.0, 1.0, "").slowest(2, 1, turns) == pytest.approx((10, 30))
    assert Steps(10.0, 1.0, "").slowest(3, 1, turns) == pytest.approx((20, 40))
    assert Steps(10.0, 1.0, "").slowest(3, 2, turns) == pytest.approx((10, 30))  # the first group has two labels
    assert Steps(10.0, 1.0, "", power=0.5, n_rows=100).grown(400).slowest(2, 1, turns) == pytest.approx((20, 60))


def test_labels_of_probe_take_the_steps_of_any_label_of_the_pilot():
    """Of two labels both take 5 steps, both 15, or, half of the time, one of each: then the last 10 passes are of one label."""
    passes, seconds = Steps(10.0, 1.0, "", spread=(0.5, 1.5)).slowest(2, 1, np.array([1.0, 3.0]))
    assert passes == pytest.approx((5 + 15 + 2 * 15) / 4, rel=0.02)
    assert seconds == pytest.approx((15 + 45 + 2 * (15 + 10)) / 4, rel=0.02)


def test_a_pass_of_few_labels_is_a_share_of_a_full_one():
    assert Steps(1.0, 1.0, "", by_lanes=(0.2, 0.5)).shares(3) == pytest.approx([0.2, 0.5, 0.5])
    assert Steps(1.0, 0.6, "").shares(2) == pytest.approx([0.6, 0.6])


def test_the_slowest_group_counts():
    """Of three groups the first one has two panels: 33 labels, 11 each, but 8 share a pass."""
    one, three = (forecast("dual", sizes(n_positive=(10,) * n), cluster(3, 1), labels_per_pass=8) for n in (24, 33))
    start = forecast("dual", sizes(n_positive=(10,)), cluster(), labels_per_pass=8).seconds["train"]
    both = forecast("dual", sizes(n_positive=(10,) * 16), cluster(), labels_per_pass=8).seconds["train"]
    assert one.seconds["train"] == pytest.approx(start)
    assert three.seconds["train"] == pytest.approx(both)


def test_messages_are_counted_where_ranks_share_rows():
    alone, divided = (
        forecast("probe", where=cluster(1, 4, latency=1e-6, bandwidth=1e9), ranks_per_group=shards) for shards in (1, 4)
    )
    assert alone.sent_bytes == 0 and "messages" not in alone.seconds
    steps = 2 * 150.0  # two panels of 16 labels, one after the other
    assert divided.sent_bytes == pytest.approx(steps * 0.75 * 16 * 500 * 12)
    assert divided.seconds["messages"] == pytest.approx(steps * (4e-6 + 0.75 * 16 * 500 * 12 / 1e9))
    assert math.isnan(forecast("probe", where=cluster(1, 4), ranks_per_group=4).seconds["messages"])


def test_latency_and_bandwidth_are_found_again():
    where = cluster(latency=3e-6, bandwidth=2e9)
    for ranks in (2, 3, 16):
        small, large = where.exchange(ranks, 0), where.exchange(ranks, 1 << 23)
        assert latency_and_bandwidth(ranks, small, large, 1 << 23) == pytest.approx((3e-6, 2e9))
    assert sent(1, 100) == 0 and where.exchange(1, 1 << 30) == 0


def test_labels_are_dealt_in_turn():
    n_positive = np.array([5, 1, 9, 9, 2, 7, 3])
    waiting = np.array([0, 2, 3, 4, 5, 6])
    hands = [labels_of_group(waiting, n_positive, number, 4) for number in range(4)]
    assert [hand.tolist() for hand in hands] == [[2, 6], [3, 4], [5], [0]]


@pytest.mark.parametrize("method", sorted(name for name, each in METHODS.items() if each.forecast))
def test_every_constant_is_measured(method, measured, monkeypatch):
    for name in ("disk.read", "disk.write"):
        monkeypatch.setitem(measured.curves["1"], name, [[1.0, 1e-9]])
    more = {"solver": "fobos"} if method == "elastic-net" else {}
    found = forecast(method, machine=measured, **more)
    twice = forecast(method, sizes(n_positive=(10,) * 320), machine=measured, **more)
    known = {name: value for name, value in found.seconds.items() if name != "train" or METHODS[method].cost > 1}
    assert all(0 <= value < math.inf for value in known.values()) and 0 < found.model_bytes < twice.model_bytes
    if "train" in known:
        assert found.seconds["train"] < twice.seconds["train"]
    else:  # a single pass: memory and disk only
        assert math.isnan(found.seconds["train"])
    assert sum(found.own_bytes.values()) > 0


def test_measured_costs_are_those_of_the_rows():
    """A timer that counts calls instead of seconds finds no value dearer than another: costs come from differences of times."""
    made = generate(400, 100)
    assert set(np.diff(made.rows.indptr)) == {SHORT, LONG} and made.fewer.n_global == 50
    assert made.fewer.counts.sum() == made.fewer.data.size and made.fewer.label_rows.max() < 50
    dual = METHODS["dual"].load(METHODS["dual"].forecast)
    same = dual.measure(made, lambda call: (call(), 1.0)[1])
    assert same["dual.read"][1] == 0 and same["dual.look"][1] == 0 and same["dual.row"][1] > 0
    assert same["dual.write"][1] == same["dual.move"][1] == 0  # divided by the share of rows that moved
    assert _Bench(made.rows, still=False).passes(lambda call: (call(), 1.0)[1])[2] > 0.5  # and most do
    assert _Bench(made.rows, still=True).passes(lambda call: (call(), 1.0)[1])[2] < 0.01
    assert processor_seconds(lambda: sum(range(200_000))) > 0


def test_a_pilot_sees_what_training_does(data, tmp_path):
    """Labels whose rows need several passes: as many as in training, whose history counts them."""
    report = train("dual", None, data, tmp_path / "run", {"min_positives": 1, "bias": True})
    with DataFile(data) as opened:
        rows, _ = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), opened, "train"), bias=True)
    work = METHODS["dual"].load(METHODS["dual"].forecast).pilot([rows], asked("dual"), processor_seconds)
    visited, moved, held, rounds = work.table[:, 1:].T
    assert (moved <= visited + 1e-9).all() and (rounds >= 1).all() and (held <= rounds).all()
    assert 0.5 * report.mean_steps * report.visited <= visited.mean() <= 20 * report.mean_steps
    again = work.at(work.table[:, 0], rows.n_global)
    assert again == pytest.approx(work.table[:, 1:])


def test_what_has_no_model_is_said():
    for method, options, match in [
        ("elastic-net", {}, "no time model for elastic-net --solver newton"),
        ("dual", {"dual_tol": 0.01}, "no time model for dual with --dual-tol, unless the data are at hand"),
        ("dual", {"precision": "double"}, "no time model for dual with --precision double"),
        ("bw", {"live_features": 10}, "no plan of bw with --live-features"),
    ]:
        with pytest.raises(NoForecast, match=match):
            forecast(method, **options)
    with pytest.raises(NoForecast, match=r"a node has 1 MB"):
        forecast("dual", where=cluster(memory=10**6))
    with pytest.raises(NoForecast, match="--ranks-per-group 3: expected a divisor"):
        forecast("dual", where=cluster(1, 4), ranks_per_group=3)


def test_machine_between_and_beyond_what_was_measured():
    machine = Machine(dict(ABOUT), {"1": {"a": [[10.0, 1.0], [1000.0, 3.0]]}, "3": {"a": [[10.0, 2.0], [1000.0, 6.0]]}})
    assert machine("a", 100.0, 1) == pytest.approx(2.0) and machine("a", 100.0, 2) == pytest.approx(3.0)
    assert not machine.beyond
    assert machine("a", 1e6, 8) == 6.0
    assert machine.beyond == {"a", "more than 3 busy ranks on a node"}
    with pytest.raises(ConfigError, match="has no b; make it again"):
        machine("b", 1.0, 1)


def test_machine_file(tmp_path):
    path, machine = tmp_path / "machine.json", Machine(dict(ABOUT), {"1": {"a": [[10.0, 1.0], [1000.0, 3.0]]}})
    with pytest.raises(ConfigError, match="measure this machine first with `hpcml bench machine`"):
        read_machine(path)
    write_machine(path, machine)
    assert read_machine(path).curves == machine.curves and read_machine(path).about == machine.about
    sound = json.loads(path.read_text())
    points = ([], [[1.0, math.nan]], [[1.0, True]], [[2.0, 1.0], [1.0, 1.0]])
    for curves in (3, {}, {"one": {}}, *({"1": {"a": each}} for each in points)):
        path.write_text(json.dumps(sound | {"constants": curves}))
        with pytest.raises(DataError, match="expected what `hpcml bench machine` writes"):
            read_machine(path)
    path.write_text("[" * 100_000)
    with pytest.raises(DataError, match="expected what"):
        read_machine(path)


def test_command_line_plans_and_says_what_it_cannot(data, tmp_path, capsys):
    machine = tmp_path / "machine.json"
    run("bench", "machine", "--quick", "-o", machine, "--folder", tmp_path)
    assert "kept in" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="exists already"):
        run("bench", "machine", "--quick", "-o", machine, "--folder", tmp_path)
    numbers = ("--rows", "100000", "--features", "50000", "--labels", "100", "--machine", machine)
    where = ("--nodes", "2", "--ranks-per-node", "3", "--loss", "squared-hinge", "--json")
    run("plan", "dual", *numbers, *where, tmp_path / "plan.json")
    told, found = capsys.readouterr().out, json.loads((tmp_path / "plan.json").read_text())
    assert "sbatch --nodes=2 --ntasks-per-node=3" in told and "assumed" in told and "--quick" in told
    assert found["trained_labels"] == 100 and found["node_hours"] == pytest.approx(2 * found["total_seconds"] / 3600)
    assert found["rank_bytes"] == sum(found["own_bytes"].values()) + found["shared_bytes"]
    run("plan", "probe", data, "--machine", machine, "--pilot", "--lambda", "X/100")
    assert "hpcml train probe" in (told := capsys.readouterr().out) and "--lambda X/100" in told and "labels on 240 rows" in told
    for tokens, match in [
        (("bernoulli-nb", *numbers), "no time model for bernoulli-nb; there are some for"),
        (("dual", "--machine", machine), "plan what"),
        (("dual", *numbers[:-1], tmp_path / "none.json"), "none.json does not exist: measure this machine first"),
        (("dual", data, *numbers), "have no effect on DATA"),
        (("dual", *numbers, "--pilot"), "--pilot has no effect without DATA"),
        (("pa", data, "--machine", machine, "--pilot"), "--pilot has no effect on pa"),
        (("dual", *numbers, "--nodes", "0"), "--nodes 0: expected"),
        (("dual", *numbers, "--memory=-1"), "--memory -1: expected"),
        (("dual", *numbers, "--force"), "--force: has no effect without --json"),
        (("dual", *numbers, "--epsilon", "0.1"), "epsilon"),
        (("--rows", "5"), "plan which method"),
        (("dull", *numbers), "no method 'dull'; did you mean 'dual'"),
    ]:
        with pytest.raises(ConfigError, match=match):
            run("plan", *tokens)


def test_flags_are_those_that_differ_from_the_default():
    options = asked("dual", lam="X/10", bias=False, label=("a", "b c"))
    assert sorted(flags(options)) == sorted(["--no-bias", "--lambda", "X/10", "--label", "a", "b c"])
    assert flags(asked("dual")) == []
