"""`hpcml bench ovr` as a process: the same on any number of ranks; one sentence for a user's mistake."""

import os
import signal

import numpy as np
import pytest
from support.jobs import done, refused
from support.make import dataset, random_data
from support.tables import table

from hpcml.bench.programs import PEERS


@pytest.fixture
def data(tmp_path):
    X, Y = random_data(7, 200, 40, 6, density=0.1)
    return dataset(tmp_path / "data.h5", X, Y, splits={"train": np.arange(140), "test": np.arange(140, 200)})


def test_the_same_on_any_number_of_ranks(standing, data, tmp_path):
    tables = []
    for n in (1, 2):
        out = tmp_path / f"on{n}"
        methods = ("--method", "probe", "--method", "liblinear", "--method", "elastic-net")
        result = done(standing(n, "bench", "ovr", data, "-o", out, *methods, "--peer", "none", "--tol", "0.1", "0.01"))
        assert result.stdout.count("ms/label") == 2
        assert result.stdout == (out / "ovr.txt").read_text()
        rows = table(out / "ovr.csv")
        assert {row["ranks"] for row in rows} == {str(n)}
        tables.append(
            [[row[name] for name in ("tolerance", "trainer", "f", "average_precision", "p1", "p3", "p5")] for row in rows]
        )
    assert tables[0] == tables[1]
    assert len(tables[0]) == 6


def test_missing_trainers_are_left_out_on_two_ranks(mpirun, data, tmp_path):
    peers = {name: peer for name, peer in PEERS.items() if peer.penalty == "l2" and "hinge" in peer.losses}
    for peer in peers.values():
        package = tmp_path / "path" / peer.module.split(".")[0]
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise ImportError('no')")
    command = ("bench", "ovr", data, "-o", tmp_path / "out", "--method", "liblinear", "--tol", "0.1")
    result = done(mpirun(2, *command, env={"PYTHONPATH": str(tmp_path / "path")}))
    for name, peer in peers.items():
        assert f"{name}: skipped, not installed: pip install {peer.package}" in result.stdout
    assert "liblinear  " in result.stdout


def test_a_signal_ends_another_trainer_and_says_how_to_begin_again(mpirun, data, tmp_path):
    package = tmp_path / "path" / "pecos" / "xmc"
    package.mkdir(parents=True)
    (package / "base.py").write_text(f"import time; open({str(tmp_path / 'begun')!r}, 'w').close(); time.sleep(600)")
    command = ("bench", "ovr", data, "-o", tmp_path / "out", "--method", "liblinear", "--peer", "pecos")
    job = mpirun.start(2, *command, env={"PYTHONPATH": str(tmp_path / "path")})
    job.until((tmp_path / "begun").exists)
    os.kill(job.rank_pids()[0], signal.SIGTERM)
    result = job.wait(60)
    assert result.returncode == 75, result.stderr
    assert "begin again with --force" in result.stderr
    assert not job.environments()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--repeat", "0"), "--repeat 0"),
        (("--peer-python", "/no/python"), "--peer-python /no/python"),
        (("--test-split", "dev"), "no split named 'dev'"),
        (("--method", "liblinear", "--loss", "logistic"), "minimises hinge only"),
        (("--min-positives", "1000"), "lower --min-positives"),
    ],
)
def test_refuses_in_one_sentence(standing, data, tmp_path, arguments, words):
    refused(standing(2, "bench", "ovr", data, "-o", tmp_path / "out", *arguments), words)
    assert not list(tmp_path.glob("out/*/model.h5"))
