"""Every benchmark runs on tiny data and prints sensible numbers; a user error is one sentence and exit code 2."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import make

import hpcml

LAB = Path(__file__).parents[1]
ROOT = LAB.parents[1]
LAUNCHED = ("PMI_", "PMIX_", "OMPI_", "MPI_LOCAL", "HYDRA_", "HYDI_")
# Modules that need kernels or single steps of a method, or files that no command can write: what they import of hpcml, besides
# the public names.
INTERNALS = {
    "bench/decisions": {"evaluation", "rng"},
    "bench/f1": {"evaluation", "files", "rng"},
    "bench/fuzz": {"__main__", "conversion", "data", "evaluation", "methods", "model", "mpi"},
    "bench/little_memory": {"files", "methods", "mpi"},
    "bench/many_labels": {"data", "files", "model", "mpi", "partition"},
    "bench/one_pass": {"data", "methods", "mpi", "run"},
    "bench/online": {"data", "methods", "mpi"},
    "bench/panels": {"data", "methods", "mpi", "run"},
    "bench/plan": {"methods", "mpi", "planning"},
    "bench/processors": {"check"},
    "bench/pubmed": {"files", "mpi"},
    "bench/same_bits": {"check"},
    "bench/serve": {"data", "files"},
    "bench/startup": {"methods"},
    "papers/eager": {"data", "kernels", "methods", "mpi", "run"},
    "papers/margins": {"data", "methods", "model", "mpi", "slices"},
    "papers/psbml_noise": {"methods", "model"},
    "papers/psbml_seeds": {"data", "methods", "model", "mpi", "rng"},
    "papers/selection": {"rng"},
    "papers/top": {"rng"},
}
BENCHES = sorted(path.stem for path in (LAB / "bench").glob("*.py") if not path.stem.startswith("_"))


def start(*words):
    """A benchmark that has ended."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHED)} | {"PYTHONPATH": str(ROOT)}
    options = {"capture_output": True, "text": True, "timeout": 280, "check": False, "stdin": subprocess.DEVNULL}
    return subprocess.run([sys.executable, "-m", "launch.lab", "bench", *map(str, words)], env=env, cwd=ROOT, **options)


def run(*words):
    """The JSON lines of a benchmark; it must end well."""
    done = start(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.fixture
def data(tmp_path):
    """200 rows, 5 labels, each with a feature that tells it."""
    rng = np.random.default_rng(3)
    Y = rng.random((200, 5)) < [0.5, 0.4, 0.3, 0.2, 0.15]
    X = np.column_stack([Y + 0.5 * rng.random(Y.shape), rng.random((200, 6))])
    return make.dataset(tmp_path / "d.h5", X, Y.astype(float), splits={"train": np.arange(140), "test": np.arange(140, 200)})


def test_imports_of_hpcml_are_public_or_named():
    found = {}
    for path in (path for path in LAB.rglob("*.py") if "tests" not in path.relative_to(LAB).parts):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [name.name for name in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module == "hpcml":
                modules += [f"hpcml.{name.name}" for name in node.names if name.name not in hpcml.__all__]
            rooms = {module.split(".")[1] for module in modules if module.startswith("hpcml.")} - {"errors"}
            if rooms:
                found.setdefault(path.relative_to(LAB).with_suffix("").as_posix(), set()).update(rooms)
    assert found == INTERNALS


@pytest.mark.parametrize("name", BENCHES)
def test_help_and_errors_of_every_benchmark(name):
    assert f"bench {name}" in start(name, "--help").stdout
    if name not in ("little_memory", "peers", "pubmed"):  # which pass unknown options on
        done = start(name, "--no-such-option")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1) and done.stderr.startswith("lab: ")


def test_peers(data, tmp_path):
    out = tmp_path / "out"
    options = ("--method", "dual", "--loss", "squared-hinge", "--peer", "liblinear-squared-hinge", "--tol", "0.001")
    done = start("peers", data, "-o", out, *options)
    assert done.returncode == 0, done.stderr
    ours, theirs = json.loads((out / "peers.json").read_text())["table"]
    assert (ours["trainer"], theirs["trainer"]) == ("dual", "liblinear-squared-hinge")
    assert ours["f"] == pytest.approx(theirs["f"], rel=1e-3) and ours["map"] == pytest.approx(theirs["map"], abs=0.01)
    assert ours["seconds"] >= 0 and theirs["peak_mib"] > 10 and "LinearSVC" in done.stdout
    again = start("peers", data, "-o", out, *options)
    assert again.returncode == 2 and "exists already" in again.stderr


def test_quality(data):
    ways = {line["way"]: line for line in run("tune", data, "--ranks", 1)}
    assert len(ways) == 4 and ways["tune"]["macro_f1"] > 0.6 and ways["train dual"]["ratio_wall"] == 1
    assert ways["train dual"]["lost"] == [] and 0.3 < ways["train dual"]["p1"] <= 1
    dual, little, much = run("elastic_net_lambda", data, "--at", "0.1/m,0.01/m", "50/m,0.01X/m")
    assert dual["map"] > 0.8 and dual["features"] >= little["features"] > much["features"]
    lines = run("defaults", "--tiny", "--ranks", 1, "--method", "dual")
    assert [line["protocol"] for line in lines] == ["no intercept, hinge", "default"]
    assert all(abs(line["map"] - line["linear_svc_map"]) < 0.02 for line in lines)


def test_speed(data):
    *sizes, whole = run("elastic_net", data, "--sample", 1, "--l1", "0.5/m")
    assert sum(line["labels"] for line in sizes) == whole["labels"] == 5 and whole["liblinear"] > 0
    assert all(-1e-3 < line["excess"] < 0.1 for line in sizes)
    (line,) = run("delayed", data, "--l1", "1/m")
    assert line["labels"] == 5 and -0.1 < line["median"] <= line["largest"] < 100
    peer, ours = run("naive_bayes", data, "--sample", 2, "--ranks", 1, "--rounds", 1)
    assert (peer["labels"], ours["labels"], peer["ratio"]) == (2, 5, 1) and ours["wall"] > 0
    (line,) = run("retrain", data, "--rounds", 1, "--min-positives", 2, "--share", 0.5)
    assert line["labels"] == 5 and 0 < line["kept"] < 5 and line["same_file"]
