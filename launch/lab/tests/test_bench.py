"""Every benchmark runs on tiny data and prints sensible numbers; a user error is one sentence and exit code 2."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest
import scipy.sparse as sp
from support import make

import hpcml
from hpcml.errors import ConfigError
from launch.lab.__main__ import main
from launch.lab.bench import f1, processors
from launch.lab.bench.trees import judge
from launch.lab.core import bench
from launch.lab.core.ranks import PHASES

LAB = Path(__file__).parents[1]
ROOT = LAB.parents[1]
LAUNCHED = ("PMI_", "PMIX_", "OMPI_", "MPI_LOCAL", "HYDRA_", "HYDI_")
BENCHES = bench.names()
PASS_ON = ("little_memory", "peers", "pubmed_speed", "strong_scaling", "trees")  # unknown words to hpcml


def start(*words):
    env = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHED)} | {"PYTHONPATH": str(ROOT)}
    options = {"capture_output": True, "text": True, "timeout": 280, "check": False, "stdin": subprocess.DEVNULL}
    return subprocess.run([sys.executable, "-m", "launch.lab", "bench", *map(str, words)], env=env, cwd=ROOT, **options)


@pytest.fixture
def run(capsys, monkeypatch):
    for name in os.environ:
        if name.startswith(LAUNCHED):
            monkeypatch.delenv(name)

    def lines(*words, code=0):
        assert main(["bench", *map(str, words)]) == code, capsys.readouterr().err
        return [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]

    return lines


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(3)
    Y = rng.random((200, 5)) < [0.5, 0.4, 0.3, 0.2, 0.15]
    X = np.column_stack([Y + 0.5 * rng.random(Y.shape), rng.random((200, 6))])
    return make.dataset(tmp_path / "d.h5", X, Y.astype(float), splits={"train": np.arange(140), "test": np.arange(140, 200)})


@pytest.mark.parametrize("name", BENCHES)
def test_help_and_errors_of_every_benchmark(name, capsys):
    if name in ("faults", "fuzz"):  # which change this process when they are imported
        done = start(name, "--no-such-option")
        code, message = done.returncode, done.stderr
    else:
        with pytest.raises(SystemExit):
            main(["bench", name, "--help"])
        assert f"bench {name}" in capsys.readouterr().out
        if name in PASS_ON:
            return
        code, message = main(["bench", name, "--no-such-option"]), capsys.readouterr().err
    assert (code, message.count("\n")) == (2, 1) and message.startswith(f"lab: {name}: ")


def test_settings_and_tables(capsys, monkeypatch):
    def function(
        scratch: Path, data: Path, sizes: tuple[int, ...] = (1, 2), *, k: str = "", way: Literal["a", "b"] = "a",
        at: tuple[float, ...] = (0.5,), output: Path | None = None, all_labels: bool = False, options: tuple[str, ...],
    ) -> Iterator[dict]:  # fmt: skip
        yield {"settings": [str(data), sizes, k, way, at, output, all_labels, options]}

    def settings(*words):
        bench.run_bench("toy", words)
        out = capsys.readouterr().out.splitlines()
        return json.loads(out[0])["settings"], out[1:]

    monkeypatch.setattr(bench, "import_module", lambda _name: SimpleNamespace(run=function, __doc__="A toy."))
    assert settings("d.h5")[0] == ["d.h5", [1, 2], "", "a", [0.5], None, False, []]
    arguments = settings("d.h5", "3", "-k", "x", "--way", "b", "--at", "1", "2", "--at", "3", "--all-labels", "--", "--l1", "4")[0]
    assert arguments == ["d.h5", [3], "x", "b", [1.0, 2.0, 3.0], None, True, ["--l1", "4"]]
    assert settings("d.h5", "--table")[1][1].startswith("settings")
    with pytest.raises(ConfigError, match="toy: argument --way: invalid choice"):
        settings("d.h5", "--way", "c")
    assert bench.tables([{"a": 1, "b": 0.25}, {"c": None}, {"a": 2, "d": float("nan")}]) == [
        *("", "a     b  d", "1  0.25  -", "2     -  -"),
        *("", "c", "-"),
    ]


def test_peers(data, tmp_path, run):
    out = tmp_path / "out"
    options = ("--method", "dual", "--loss", "squared-hinge", "--peer", "liblinear-squared-hinge", "--tol", "0.001")
    *_, about = run("peers", data, "-o", out, *options)
    ours, theirs = json.loads((out / "peers.json").read_text())["table"]
    assert (ours["trainer"], theirs["trainer"]) == ("dual", "liblinear-squared-hinge")
    assert ours["f"] == pytest.approx(theirs["f"], rel=1e-3) and ours["map"] == pytest.approx(theirs["map"], abs=0.01)
    assert ours["seconds"] >= 0 and theirs["peak_mib"] > 10 and "LinearSVC" in about["about"]
    assert (out / "peers.csv").read_text().startswith("trainer,tolerance,")
    run("peers", data, "-o", out, *options, code=2)  # exists already


def test_quality(data, run):
    ways = {line["way"]: line for line in run("tune", data, "--ranks", 1)}
    assert len(ways) == 4 and ways["tune"]["macro_f1"] > 0.6 and ways["train dual"]["ratio_wall"] == 1
    assert ways["train dual"]["lost"] == [] and 0.3 < ways["train dual"]["p1"] <= 1
    dual, little, much = run("defaults", data, "--at", "0.1/m,0.01/m", "50/m,0.01X/m", "--ranks", 1)
    assert dual["map"] > 0.8 and dual["features"] >= little["features"] > much["features"]
    lines = run("defaults", "--tiny", "--ranks", 1, "--method", "dual")
    assert [line["protocol"] for line in lines] == ["no intercept, hinge", "default"]
    assert all(abs(line["map"] - line["linear_svc_map"]) < 0.02 for line in lines)


def test_thresholds(data, run):
    result = {(line["method"], line["thresholds"]): line for line in run("f1", data)}
    assert len(result) == 19 and result["dual", "label"]["macro"] > 0.9
    assert result["elastic-net", "0"]["features_per_label"] < result["dual", "0"]["features_per_label"]
    assert all(line["100 %"] == line["instance"] for line in result.values())
    splits = f1.three_splits(data, 0)
    assert np.array_equal(np.sort(np.concatenate([splits["train"], splits["valid"]])), np.arange(140))
    assert 15 < splits["valid"].size < 60 and np.array_equal(splits["test"], np.arange(140, 200))
    lines = run("decisions", data, "--folds", 3)
    rules = {line["thresholds"]: line for line in lines if "thresholds" in line}
    assert len(rules) == 6 and rules["shrink"]["macro"] > 0.9 and rules["number of labels"]["macro"] == 5
    judged = {line["probabilities"]: line for line in lines if line.get("positives") == "all"}
    assert len(judged) == 5 and judged["calibrate"]["brier"] < judged["1/(1+exp(-score))"]["brier"]


def test_speed(data, run):
    *sizes, whole = run("elastic_net", data, "--sample", 1, "--l1", "0.5/m")
    assert sum(line["labels"] for line in sizes) == whole["labels"] == 5 and whole["liblinear"] > 0
    assert all(-1e-3 < line["excess"] < 0.1 for line in sizes)
    (line,) = run("retrain", data, "--rounds", 1, "--min-positives", 2, "--share", 0.5)
    assert line["labels"] == 5 and 0 < line["kept"] < 5 and line["same_file"]


def test_panels(data, run):
    lines = run("panels", data, "squared-hinge:0", "hinge:2")
    assert [line["loss"] for line in lines] == ["squared-hinge", "hinge"]
    assert all(line["passes"] >= 1 and 0 <= line["mean_gap"] <= line["largest_gap"] < 20 for line in lines)
    run("panels", data, "hinge:6", code=2)  # there are only 5 labels


def test_plan(data, run):
    (line,) = run("plan", "--data", data, "--method", "dual")
    assert line["size"].startswith("140 ×") and line["model_bytes"]["planned"] > 0 and 0.5 < line["MiB"]["ratio"] < 2


def test_strong_scaling_and_replay(run, tmp_path):
    folder, picture, only = tmp_path / "scaling", tmp_path / "plot.png", ("train dual", "predict")
    lines = run("strong_scaling", folder, "--ranks", 1, 2, "--only", *only, "-o", picture, "--every", 2, "--min-positives", 2)
    by_command = {(line["command"], line["ranks"]): line for line in lines if "command" in line}
    assert by_command.keys() == {(name, n) for name in only for n in (1, 2)} and picture.read_bytes().startswith(b"\x89PNG")
    for (_, n), line in by_command.items():
        phases = sum(line[phase] for phase in PHASES)
        assert 0.5 * line["seconds"] < phases < 1.1 * line["seconds"] and 50 < line["peak_mib"] < 1000
        assert 1 <= line["imbalance"] <= n and (line["efficiency"] == 1 or n == 2)
    assert by_command["train dual", 1]["hours"] == pytest.approx(2 * by_command["train dual", 1]["training"] / 3600, rel=0.01)
    assert [line["ranks"] for line in lines if line.get("profile") == "train dual"] == [1, 2]
    assert hpcml.open_model(folder / "run").n_labels == 20  # every second one
    (late,) = run("strong_scaling", folder, "--ranks", 1, "--only", "evaluate", "--limit", 0.1)
    assert late["code"] == 1 and "longer than 0.1 s" in late["message"]
    one, two, many = run("replay", folder / "run", "--ranks", 1, 2, 64, "--bandwidth", 0.01)
    history = (line.split(",") for line in (folder / "run" / "history.csv").read_text().splitlines()[1:])
    seconds = {label: float(last) for label, *_, last in history if last}
    assert one["labels"] == 20 and one["efficiency"] == one["imbalance"] == 1 and one["writing"] == two["writing"] > 0
    assert one["training"] == pytest.approx(sum(seconds.values()), rel=1e-3)
    assert many["training"] == pytest.approx(max(seconds.values()), rel=1e-3)  # a rank for each label
    assert one["training"] / 2 <= two["training"] * 1.001 and two["efficiency"] <= 1


def test_trees(run, tmp_path):
    """A tree that is not installed is left out."""
    measures = judge(np.array([[2, 0, 1, -1, -1], [0, 1, 2, 3, 4]]), sp.csr_matrix([[0, 0, 1, 1, 0], [0] * 5]))
    assert measures == {"p1": 0.5, "p3": pytest.approx(1 / 6), "p5": 0.1, "ndcg5": pytest.approx(1 / (1 + 1 / np.log2(3)))}
    about, ours, *others = run("trees", "tiny", "--repeat", 1, "--ranks", 1)
    assert about["test_rows"] > 200 and ours["trainer"] == "dual" and 0.3 < ours["p1"] < 1
    assert 0 < ours["predict_alone"] < ours["predict"] and ours["train_alone"] < ours["train"] and ours["model_mb"] > 0.1
    assert {line.get("left_out") or line["trainer"] for line in others} == {"omikuji", "napkinxc", "libmultilabel"}


def test_little_memory(capsys):
    sizes = ("--rows", 300, "--per-row", 5, "--features", 50, "--labels", 2, "--ranks", 1, "--limits", 900, 800)
    code, (out, error) = main(["bench", "little_memory", *map(str, sizes)]), capsys.readouterr()
    if code == 3:
        pytest.skip(error.strip())
    assert code == 0 and [json.loads(line)["same_bits"] for line in out.splitlines()] == [True, True]


def test_robustness(data, run, tmp_path):
    *_, line = [json.loads(line) for line in start("faults", "--rounds", 2).stdout.splitlines()]
    assert 1 <= line["rounds"] <= 2 and line["bits"] == "same"
    first, second, options = tmp_path / "a.json", tmp_path / "b.json", ("--methods", "bernoulli-nb", "--ranks", 1)
    run("same_bits", first, "--data", data, *options)
    digests = json.loads(first.read_text())
    assert len(digests) == 2
    first.write_text(json.dumps(dict.fromkeys(digests, "0" * 64)))
    differing = run("same_bits", second, "--data", data, *options, "--against", first, code=1)
    assert [line.get("wrong") for line in differing] == ["differs", "differs", None] and json.loads(second.read_text()) == digests
    run("processors", first, "--methods", "mbw", "--ranks", 1, "--processors", "native")
    result = json.loads(first.read_text())["runs"]["native, 1 rank(s)"]["digests"]["mbw"]
    assert (
        set(result) > {"model", "scores", "measures"}
        and f"| mbw: model | `{result['model'][:8]}`" in first.with_suffix(".md").read_text()
    )
    earlier = {"native, 1 rank(s)": {"digests": {"mbw": result | {"scores": "0" * 16}}}}
    assert processors.differences({"now": {"digests": {"mbw": result}}}, earlier) == [
        ("mbw: scores", "not as in the earlier table")
    ]


@pytest.mark.skipif("HPCML_DATA" not in os.environ, reason="HPCML_DATA names no folder with real data")
def test_pubmed_speed(run):
    generated, ours = run("pubmed_speed", "--records", 60, "--files", 2, "--ranks", 1, "--no-peer")
    assert generated["records"] == 60 and ours["ranks"] == 1 and ours["records_a_cpu_second"] > 0 and ours["peak_mib"] > 50
