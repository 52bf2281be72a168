"""Runs of several seeds, and runs that end at a plateau, on any number of ranks."""

import numpy as np
import pytest
from scipy.stats import ttest_rel
from support.make import by_one_rank, class_data, dataset_for_all
from support.training import changed, same_as_alone, train

from hpcml.errors import ConfigError, Interrupted
from hpcml.files.table import read_csv
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.methods.psbml.seeds import paired

pytestmark = pytest.mark.mpi
SEEDS = PsbmlOptions(grid="2x2", cycles=4, seed=5, seeds=3, replace=0.4, validation_share=0.2)


@pytest.fixture
def data(comm, mpi_tmp_path):
    X, _, Y = class_data(3, 240, 6, 2, 0.4)
    splits = {"train": np.arange(0, 160), "test": np.arange(160, 240)}
    return dataset_for_all(comm, mpi_tmp_path / "data.h5", X, Y, splits=splits)


def lines(run):
    return [{name: value for name, value in line.items() if name != "seconds"} for line in read_csv(run / "seeds.csv")]


def test_seeds_are_those_of_one_rank_and_go_on_where_they_were_stopped(comm, mpi_tmp_path, data):
    report, alone = same_as_alone(comm, "psbml", data, mpi_tmp_path, SEEDS)
    assert lines(mpi_tmp_path / "ranks") == lines(mpi_tmp_path / "alone")
    assert [line.seed for line in report.lines] == [5, 6, 7]
    with pytest.raises(Interrupted, match="of 3 seeds done"):
        train("psbml", comm, data, mpi_tmp_path / "late", changed(SEEDS, time_limit=1e-9))
    train("psbml", comm, data, mpi_tmp_path / "late", SEEDS, resume=True)
    assert lines(mpi_tmp_path / "late") == lines(mpi_tmp_path / "alone")
    assert (mpi_tmp_path / "late" / "model.h5").read_bytes() == alone.model.read_bytes()


def test_a_split_that_compares_leaves_the_run_of_a_seed_as_it_is(comm, mpi_tmp_path, data):
    report = train("psbml", comm, data, mpi_tmp_path / "seeds", changed(SEEDS, test_split="test"))
    plain = by_one_rank(comm, lambda: train("psbml", None, data, mpi_tmp_path / "plain", changed(SEEDS, seeds=None)))
    assert report.model.read_bytes() == plain.model.read_bytes()
    assert report.n_test == 80
    with pytest.raises(ConfigError, match="--test-split train: 160 of its 160 rows are in the split train"):
        train("psbml", comm, data, mpi_tmp_path / "shared", changed(SEEDS, test_split="train"))


def test_a_plateau_is_the_same_on_any_number_of_ranks(comm, mpi_tmp_path, data):
    options = changed(SEEDS, seeds=None, cycles=30, patience=3)
    same_as_alone(comm, "psbml", data, mpi_tmp_path, options)
    errors = [float(line["error"]) for line in read_csv(mpi_tmp_path / "ranks" / "history.csv")][1:]
    assert len(errors) < 30
    assert len(errors) - 1 - errors.index(min(errors)) == 3


def test_paired_test_and_its_correction():
    base, chosen = np.array([0.1, 0.2, 0.3, 0.2]), np.array([0.1, 0.1, 0.2, 0.15])
    found = paired(base, chosen, 0.25)
    assert found.p == pytest.approx(ttest_rel(chosen, base).pvalue)
    assert found.p_corrected > found.p
    assert paired(base, chosen, 0.0).p_corrected == pytest.approx(found.p)
    assert np.isnan(paired(base, base, 0.25).p)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"seeds": 1}, "--seeds 1: expected at least 2"),
        ({"asynchronous": True}, "--asynchronous has no effect with --seeds 3"),
        ({"slow_rank": 0}, "--slow-rank 0 has no effect with --seeds 3"),
        ({"checkpoint_every": 5.0}, r"--checkpoint-every 5\.0 has no effect with --seeds 3"),
        ({"profile": True}, "--profile has no effect with --seeds 3"),
        ({"validation_share": 0.5}, "expected below 0.5"),
        ({"seeds": None, "test_split": "test"}, "--test-split test has no effect without --seeds"),
        ({"seeds": None, "patience": 4}, "--patience 4 has no effect on 4 cycles"),
    ],
)
def test_what_makes_no_sense(options, sentence):
    with pytest.raises(ConfigError, match=sentence):
        changed(SEEDS, **options).validate()
