"""Plans, compared with training and with arithmetic by hand."""

import json

import numpy as np
import pytest
from support.make import dataset, random_data
from support.training import asked

from hpcml import mpi
from hpcml.cli import app as cli
from hpcml.data.compact import compact_rows
from hpcml.data.dataset import DataFile
from hpcml.data.shard import load_shard
from hpcml.errors import ConfigError
from hpcml.log import Log
from hpcml.methods.dual.train import bytes_per_rank_dual
from hpcml.methods.linear.layout import bytes_per_rank
from hpcml.methods.registry import METHODS
from hpcml.options import command_flags
from hpcml.planning.memory import Cluster, compute_requirements
from hpcml.planning.options import PlanOptions
from hpcml.planning.plan import plan
from hpcml.planning.sizes import Sizes, estimate_sizes, expected_words, read_sizes
from hpcml.run.session import open_session

GB = 10**9
STATE = "weights and state of labels (maximum)"


def sizes(n_rows=1000, n_columns=500, n_values=20_000, n_positive=(10,) * 32):
    n = np.array(n_positive)
    return Sizes(n_rows, 2 * n_columns, n_values, n_columns, 2 * n_columns, n, int(n.sum()))


def needs(method, where=(1, 1), found=None, memory=64 * GB, **options):
    return compute_requirements(METHODS[method], found or sizes(), Cluster(*where, memory), asked(method, **options))


def planned(method, data, nodes=1, **options):
    wanted = PlanOptions(nodes=nodes)
    with open_session(None, Log(0)) as session:
        return plan(session, METHODS[method], data, wanted, asked(method, **options))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    X, Y = random_data(3, 300, 120, 20, 0.05)
    return dataset(tmp_path_factory.mktemp("plan") / "data.h5", abs(X), Y, splits={"train": np.arange(240)})


def run(*tokens):
    cli.run([str(token) for token in tokens], mpi.self_comm)


def test_sizes_equal_those_of_training(data):
    found = read_sizes(mpi.self_comm(), data, asked("dual", min_positives=5))
    with DataFile(data) as opened:
        rows, _ = compact_rows(mpi.self_comm(), load_shard(mpi.self_comm(), opened, "train"), bias=False)
    positive = rows.n_positive[rows.n_positive >= 5]
    assert (found.n_rows, found.n_columns) == (240, rows.n_columns)
    assert found.n_positive.tolist() == positive.tolist()
    assert found.n_pairs == rows.n_positive.sum() and found.n_trained == positive.size
    assert found.n_values >= rows.data.size  # folded features of a row become one value


def test_sizes_from_numbers_follow_the_laws():
    n_rows, n_words = 4000, 20_000
    random = np.random.default_rng(0)
    ends = np.cumsum((np.arange(n_words) + 8.0) ** -1.14)
    words = np.searchsorted(ends, ends[-1] * random.random((n_rows, 400)))
    drawn = [np.array(list(dict.fromkeys(row))[:30]) for row in words.tolist()]
    counts = np.bincount(np.concatenate(drawn), minlength=n_words)
    lonely = sum(bool((counts[row] == 1).any()) for row in drawn)
    used, columns = expected_words(n_rows, n_words, 30.0)
    assert used == pytest.approx(np.count_nonzero(counts), rel=0.05)
    assert columns == pytest.approx(np.count_nonzero(counts > 1) + lonely, rel=0.05)
    given = estimate_sizes(n_rows, np.count_nonzero(counts), 50, 30.0)
    assert given.n_columns == pytest.approx(columns, rel=0.1) and given.n_used == given.n_features
    assert given.n_positive[0] == 1200 and (np.diff(given.n_positive) <= 0).all() and given.n_values == 120_000
    few = estimate_sizes(10, 10**6, 2, 5.0)  # more features than there are values
    assert few.n_used <= 50 and few.n_columns <= 50


def test_memory_follows_the_formulas_of_the_methods():
    found = needs("dual", (2, 4))
    assert found.own_bytes[STATE] == bytes_per_rank_dual(0, 1000, 500, 4, 1, 4)
    assert found.shared_bytes == 8 * (20_000 + 1000) + 8 * 320
    found = needs("probe", (1, 4), ranks_per_group=4)
    rest = bytes_per_rank(0, 1000, 500, 16, 4, 4)
    assert found.own_bytes[STATE] == rest
    assert found.own_bytes["rows"] == bytes_per_rank(21_000, 1000, 500, 16, 4, 4) - rest + 8 * 320 // 4
    live, all_of_them = (needs("bw", live_features=n).own_bytes["weights"] for n in (10, None))
    assert all_of_them == 2 * 32 * 8 * (1000 + 1) and live == 2 * 32 * 8 * (10 + 1)


@pytest.mark.parametrize("method", ["bernoulli-nb", "dual"])
def test_a_sparse_model_is_as_large_as_planned(data, tmp_path, method):
    drop = {} if method == "bernoulli-nb" else {"drop": 0.05}
    found = planned(method, data, **drop)
    run("train", method, data, "-o", tmp_path / "run", *(["--drop", "0.05"] if drop else []))
    weights = 12 if method == "bernoulli-nb" else 8
    real = (tmp_path / "run" / "model.h5").stat().st_size
    assert abs(found.needs.model_bytes - real) < 0.1 * real + weights * 100 + 16_000  # tables and names


def test_command_line(data, tmp_path, capsys):
    numbers = ("--rows", "100000", "--features", "50000", "--labels", "100")
    where = ("--nodes", "2", "--ranks-per-node", "3", "--loss", "squared-hinge", "--json")
    run("plan", "dual", *numbers, *where, tmp_path / "plan.json")
    told, found = capsys.readouterr().out, json.loads((tmp_path / "plan.json").read_text())
    assert "--scheduler=slurm --nodes=2 --ranks-per-node=3" in told and told.endswith(" | sbatch\n")
    assert "--time" not in told and "needs a pilot" in told
    assert found["trained_labels"] == 100 and found["total_seconds"] is None and "words by Zipf's law" in told
    assert found["rank_bytes"] == sum(found["own_bytes"].values()) + found["shared_bytes"]
    run("plan", "probe", data, "--nodes", "2", "--lambda", "X/100", "--json", tmp_path / "plan.json", "--force")
    told, found = capsys.readouterr().out, json.loads((tmp_path / "plan.json").read_text())
    assert "--lambda=X/100" in told and "--time=00:10:00" in told and "pilot on 1 rank" in told
    assert set(found["seconds"]) == {"start", "load", "train", "write the model", "force it to the disk"}
    assert found["node_hours"] == pytest.approx(2 * found["total_seconds"] / 3600)
    run("plan", "pa", data, "--no-pilot")
    assert "time  " in (told := capsys.readouterr().out) and "unknown" in told and "hpcml train pa" in told


def test_rejects_contradictory_arguments(data):
    numbers = ("--rows", "100000", "--features", "50000", "--labels", "100")
    for tokens, match in [
        (("psbml", *numbers), "psbml: planning needs a pilot"),
        (("adaboost", data, "--no-pilot"), "adaboost: planning needs a pilot"),
        (("psbml", data, "--nodes", "2"), "psbml"),
        (("dual",), "no input: give a dataset, or --rows"),
        (("dual", data, *numbers), "--rows 100000: has no effect on DATA"),
        (("dual", "--rows", "0", *numbers[2:]), "--rows 0: expected at least 1"),
        (("dual", *numbers[:-1], f"{10**13}"), r"--labels 10000000000000: expected at most 1e\+12"),
        (("dual", *numbers, "--no-pilot"), "--no-pilot: has no effect without DATA"),
        (("elastic-net", data, "--path", "0.1/m", "0.01/m"), "path"),
        (("dual", *numbers, "--nodes", "0"), "--nodes 0: expected"),
        (("dual", *numbers, "--memory=-1"), "--memory -1.0"),
        (("dual", *numbers, "--memory", "0.001"), "a node has 1 MB"),
        (("dual", *numbers, "--ranks-per-node", "4", "--ranks-per-group", "3"), "ranks.per.group"),
        (("dual", *numbers, "--values-per-row", "0"), "--values-per-row 0"),
        (("dual", *numbers, "--values-per-row", "1e9"), "--values-per-row 1"),
        (("dual", *numbers, "--force"), "--force: has no effect without --json"),
        (("dual", *numbers, "--epsilon", "0.1"), "epsilon"),
        (("--rows", "5"), "missing METHOD: hpcml plan METHOD"),
        (("dull", *numbers), "no method 'dull'; did you mean 'dual'"),
    ]:
        with pytest.raises(ConfigError, match=match):
            run("plan", *tokens)


def test_command_shows_only_changed_options():
    options = asked("dual", lam="X/10", bias=False, label=("a", "b c"))
    assert sorted(command_flags(options)) == sorted(["--no-bias", "--lambda=X/10", "--label=a", "--label=b c"])
    assert command_flags(asked("dual")) == []
