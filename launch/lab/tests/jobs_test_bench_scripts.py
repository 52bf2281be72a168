"""Every script of launch/bench runs: here on tiny data, where nothing else of the tests starts it."""

import json
import lzma
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import make

from hpcml import convert
from hpcml.data.dataset import DataFile

TOP = Path(__file__).parents[2]
BENCH = TOP / "launch" / "bench"
LAUNCHED = ("PMI_", "PMIX_", "OMPI_", "MPI_LOCAL", "HYDRA_", "HYDI_")


def start(*command, env=None):
    """A script that has ended."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHED)}
    variables |= {"PYTHONPATH": str(TOP)} | (env or {})
    options = {"capture_output": True, "text": True, "timeout": 280, "check": False, "stdin": subprocess.DEVNULL}
    return subprocess.run([*map(str, command)], env=variables, **options)


def run(*command, env=None):
    """What a program printed; it must end well."""
    done = start(*command, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run_script(name, *arguments, env=None):
    """What a script of launch/bench printed; it must end well."""
    return run(sys.executable, BENCH / name, *arguments, env=env)


@pytest.fixture
def run_here(monkeypatch, capsys):
    """What a script printed that ran in this process: to start another one takes longer than most of these."""
    monkeypatch.syspath_prepend(BENCH)

    def run_it(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(BENCH / name), run_name="__main__")
        return capsys.readouterr().out

    return run_it


@pytest.fixture
def copied(tmp_path):
    """Copies a shell script to a place where its setup.sh, which may install, is replaced."""
    launch = tmp_path / "launch"
    (launch / "bench").mkdir(parents=True)
    (launch / "setup.sh").write_text(f"cd '{TOP}'\n")
    return lambda name: shutil.copy(BENCH / name, launch / "bench")


@pytest.fixture
def data(tmp_path):
    """200 rows with five labels."""
    return make.dataset(tmp_path / "data.h5", *make.random_data(3, 200, 40, 5, density=0.2))


def tied_to_labels(seed, n_rows, frequencies):
    """Rows whose first features tell their labels, and the labels."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n_rows, len(frequencies))) < frequencies
    return np.column_stack([Y + 0.5 * rng.standard_normal(Y.shape), rng.random((n_rows, 6))]), Y.astype(float)


def lines_of(text):
    """The lines of JSON in what a script printed."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_every_script_is_run_by_some_test():
    texts = [path.read_text() for path in (TOP / "tests").rglob("*.py")]
    scripts = [path.name for path in BENCH.iterdir() if path.is_file()]
    assert scripts
    assert [name for name in scripts if not any(name in text for text in texts)] == []


def test_elementary():
    """Errors of our functions are below one unit in the last place, and the table has NumPy's and the C library's beside them."""
    lines = [line.split("|")[1:-1] for line in run_script("elementary.py", "--points", 400, "exp", "log1p").splitlines()[2:]]
    assert [line[0].strip() for line in lines] == ["`exp`", "`log1p`"]
    assert all(len(line) == 10 and 0 < float(line[2]) < float(line[1]) < 0.9 and float(line[7]) > 0 for line in lines)


def test_arm_says_how_it_is_used():
    """The rest of it needs hundreds of megabytes of packages, and half an hour."""
    done = start("bash", BENCH / "arm.sh")
    assert done.returncode and "usage:" in done.stderr and "FOLDER" in done.stderr


def test_plan(tmp_path, run_here):
    X, Y = make.random_data(0, 300, 60, 20, 0.2)
    data = make.dataset(tmp_path / "rows.h5", abs(X), Y)
    machine = tmp_path / "machine.json"
    run(sys.executable, "-m", "hpcml", "bench", "machine", "--quick", "-o", machine, "--folder", tmp_path)
    options = ("--machine", machine)
    (line,) = lines_of(run_script("plan.py", *options, "--data", data, "--method", "dual"))
    assert line["rows"] == 300 and line["model_bytes"]["planned"] > 0 and line["MiB"]["measured"] > 50
    assert 0.5 < line["MiB"]["ratio"] < 2  # nearly all of it is the program
    assert 0 <= line["refused"] <= 1
    simulated = lines_of(run_here("plan.py", *options, "--simulate", data))
    assert [(each["ranks"], each["shards"]) for each in simulated][:2] == [(16, 1), (16, 4)]
    assert all(each["slowest_to_mean"] >= 1 for each in simulated)
    rows = run_here("plan.py", *options, "--medline").splitlines()
    assert len(rows) == 8 and {row.count("|") for row in rows} == {9}
    lines = [line["table"] for line in lines_of(run_here("plan.py", *options, "--table", data))]
    assert lines and all(moved <= visited for _, visited, moved, *_ in lines)


def test_online(tmp_path):
    X, Y = make.random_data(0, 120, 30, 3, 0.3)
    data = make.dataset(tmp_path / "rows.h5", abs(X), Y, splits={"test": np.arange(40), "train": np.arange(40, 120)})
    found = lines_of(run_script("online.py", data, data, "--label", "label0", "--repeats", 1))
    speeds = found[0]["examples_per_second"]
    assert (found[0]["rows"], [line.get("method") for line in found]) == (80, [None, None, "mbw", "perceptron"])
    assert {"mbw, HDF5", "mbw, text", "v-pa, HDF5"} <= speeds.keys()
    assert min(speeds.values()) > 0


@pytest.fixture
def documents(tmp_path):
    """Documents of two topics, one a line."""
    rng, words = np.random.default_rng(0), [f"word{k}" for k in range(40)]
    with (tmp_path / "documents.jsonl").open("w") as out:
        for row in range(90):
            topic = row % 2
            text = " ".join(rng.choice(words[20 * topic : 20 * topic + 25], 12))
            out.write(json.dumps({"id": str(row), "text": text, "labels": [f"topic {topic}"]}) + "\n")
    return tmp_path / "documents.jsonl"


def test_speed(documents, tmp_path):
    convert("jsonl", documents, tmp_path / "documents.h5", test_share=0.33)
    (line,) = lines_of(run_script("speed.py", tmp_path / "documents.h5", "--ranks", 1, "--repeats", 1, "--no-bias"))
    assert (line["labels"], line["intercept"]) == (2, False)
    assert line["probe"]["seconds"] > 0 and line["liblinear_0.1"]["ratio"] > 0


@pytest.mark.skipif("HPCML_DATA" not in os.environ, reason="HPCML_DATA names no folder with real data")
def test_pubmed_to_mesh(tmp_path, copied):
    text = run("bash", copied("pubmed_to_mesh.sh"), tmp_path / "out", 200, env={"RANKS": "1"})
    measures = json.loads((tmp_path / "out" / "bioasq.json").read_text())
    answers = json.loads((tmp_path / "out" / "answers.json").read_text())["documents"]
    assert "MiF" in text and measures["measures"]["MiF"] > 0.05 and len(answers) == measures["n_rows"]
    assert all(label.startswith("D") for answer in answers for label in answer["labels"])
    assert (tmp_path / "out" / "report.html").stat().st_size > 100_000


def test_asynchronous(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    lines = [f"{1 if x[0] * x[1] > 0 else -1} 1:{x[0]:.3f} 2:{x[1]:.3f} 3:{x[2]:.3f}" for x in X]
    (tmp_path / "xor.svm.xz").write_bytes(lzma.compress("\n".join(lines).encode()))
    options = ("--bases", "gaussian-nb", "--seeds", 2, "--cycles", 3)
    text = run_script("asynchronous.py", "xor", *options, env={"HPCML_DATA": str(tmp_path)})
    first, _ = lines_of(text)
    assert first["rows"] == 280 and all(0 < first[who]["distinct"] < 280 for who in ("synchronous", "another", "asynchronous"))
    assert first["asynchronous"]["seconds"] < first["synchronous"]["seconds"] == pytest.approx(first["another"]["seconds"], rel=0.2)
    assert text.count("| xor |") == 2


def test_elastic_net(data, run_here):
    *classes, whole = lines_of(run_here("elastic_net.py", data, "--sample", 1, "--l1", "0.5/m"))
    assert sum(line["labels"] for line in classes) == whole["labels"] == 5
    assert all(line["ratio"] > 0 and -1e-6 < line["excess"] < 0.1 for line in classes)
    assert all(0 < line["touched"] <= line["most_touched"] <= 1 for line in classes)
    optima = lines_of(run_here("elastic_net.py", data, "--sample", 2, "--l1", "0.5/m", "--optimum", "saga"))
    assert len(optima) == 2 and all(abs(line["relative"]) < 1e-4 and line["support"] < 1e-4 < line["weights"] for line in optima)
    found = lines_of(run_here("elastic_net.py", "--rows", 1000, 3000, "--sizes", 10, 100, "--sample", 1))
    assert [(line["rows"], line["positives"]) for line in found[:8:2]] == [(1000, 10), (1000, 100), (3000, 10), (3000, 100)]
    assert {"exponent_in_positives", "exponent_in_rows"} <= set().union(*found[8:])


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The name of a set in HPCML_DATA."""
    X, Y = make.random_data(3, 120, 15, 2, density=0.3)
    lines = make.svmlight_lines(abs(X), [",".join(map(str, own.indices)) for own in Y])
    (tmp_path / "tiny.svm.xz").write_bytes(lzma.compress("".join(lines).encode()))
    monkeypatch.setenv("HPCML_DATA", str(tmp_path))
    return "tiny"


def test_elastic_net_lambda(tiny, run_here):
    pairs = ("--min-positives", 3, "--at", "0.1/m,0.01/m", "20/m,0.01X/m")
    dual, little, much = lines_of(run_here("elastic_net_lambda.py", "choose", tiny, "--folds", 2, *pairs))
    assert 0 < dual["map"] <= 1 and 0 < little["map"] <= 1
    assert little["features"] > much["features"] == 0 and much["seconds"] >= 0
    dual, little, much = lines_of(run_here("elastic_net_lambda.py", "judge", tiny, *pairs))
    assert dual["labels"] == 2 and dual["features"] >= little["features"] > much["features"] == 0
    assert dual["rows"] < 120 and 0 < little["touched"] <= 1


def test_probe_epsilon(tiny, run_here):
    lines = lines_of(run_here("probe_epsilon.py", tiny, "--min-positives", 3, "--epsilon", 0.3, 0.001))
    assert [line["loss"] for line in lines] == [loss for loss in ("hinge", "huber", "logistic") for _ in range(2)]
    for loose, close in zip(lines[::2], lines[1::2], strict=True):
        assert -0.01 < close["mean"] <= close["largest"] < 1 and loose["mean"] >= close["mean"]
        assert close["certified"] < 1e-5 and loose["steps"] < close["steps"]


def test_pubmed_bench():
    options = ("--rows", 2000, "--words", 3000, "--labels", 5, "--ranks", 1, "--", "--l1", "0.1/m")
    (line,) = lines_of(run_script("pubmed.py", *options))
    assert 0 < line["at_end"] < 1 and 0 <= line["training"] < line["seconds"] and 0.05 < line["gb_a_rank"] < 2


def test_f1(tmp_path, run_here):
    rng = np.random.default_rng(3)
    Y = (rng.random((160, 4)) < 0.3).astype(float)
    X = np.column_stack([Y + 0.3 * rng.random(Y.shape), rng.random((160, 6))])  # a feature tells each label
    data = make.dataset(tmp_path / "data.h5", X, Y)
    text = run_here("f1.py", data)
    found = {(line["method"], line["thresholds"]): line for line in lines_of(text)}
    assert len(found) == 19 and text.count("\nprobe-logistic") == 2 * 7
    assert found["elastic-net", "0"]["features_per_label"] < found["dual", "0"]["features_per_label"] == 10
    assert all(line["by_percent"]["100"] == line["instance"] for line in found.values())
    assert found["dual", "label"]["macro"] > 0.9
    splits = {"train": np.arange(110), "test": np.arange(110, 160)}
    data = make.dataset(tmp_path / "with_splits.h5", X, Y, splits=splits)
    runpy.run_path(str(BENCH / "f1.py"))["with_three_splits"](data, tmp_path / "three.h5", 0)
    with DataFile(tmp_path / "three.h5") as made:
        train, valid, test = (np.array(made.split(name)) for name in ("train", "valid", "test"))
    assert np.array_equal(np.sort(np.concatenate([train, valid])), splits["train"]) and np.array_equal(test, splits["test"])
    assert 10 < valid.size < 50


@pytest.mark.filterwarnings("ignore")
def test_decisions(tmp_path, run_here):
    data = make.dataset(tmp_path / "data.h5", *tied_to_labels(3, 400, [0.5, 0.3, 0.1, 0.05]))
    text = run_here("decisions.py", data, "--folds", 3)
    found = {line.get("thresholds"): line for line in lines_of(text) if "thresholds" in line}
    assert len(found) == 5 and text.count("\nshrink") == 1 and found["shrink"]["macro"] > found["0"]["macro"]
    judged = {line["probabilities"]: line for line in lines_of(text) if line.get("positives") == "all"}
    assert len(judged) == 5 and judged["calibrate"]["brier"] < judged["1/(1+exp(-score))"]["brier"]


def test_both_losses(tmp_path, capsys):
    data = make.dataset(tmp_path / "rows.h5", *make.random_data(0, 120, 40, 6, 0.2))
    runpy.run_path(str(BENCH / "both_losses.py"))["main"](str(data), 1, 3)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [line[:2] for line in lines] == [[loss, tol] for loss in ("squared-hinge", "hinge") for tol in ("0.1", "0.01")]
    assert all(abs(float(line[5])) < 5 and 0 <= float(line[6]) <= float(line[7]) < 20 for line in lines)


def test_panels(tmp_path, capsys):
    data = make.dataset(tmp_path / "rows.h5", *make.random_data(0, 120, 40, 6, 0.2))
    main = runpy.run_path(str(BENCH / "panels.py"))["main"]
    main(str(data), ("squared-hinge:0", "hinge:2"))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [line[0] for line in lines] == ["squared-hinge", "hinge"]
    assert all(float(line[3]) >= 1 and 0 <= float(line[4]) <= float(line[5]) < 20 for line in lines)
    with pytest.raises(SystemExit, match="only 6 labels"):
        main(str(data), ("hinge:6",))


def test_tune(tmp_path, documents, run_here):
    """Tuned models are better than chance, scikit-learn agrees with what is measured, words of fewer rows are compared."""

    def found(*options):
        return lines_of(run_here("tune.py", *options))

    splits = {"train": np.arange(140), "test": np.arange(140, 200)}
    data = make.dataset(tmp_path / "data.h5", *tied_to_labels(3, 200, [0.4, 0.3, 0.2]), splits=splits)
    ways = {line["way"]: line for line in found(data)}
    assert len(ways) == 4 and ways["tune"]["macro_f1"] > 0.6 and ways["train dual"]["ratio_user"] == 1
    assert {line["ordered_by"] for way, line in ways.items() if way.startswith("tune")} == {"probability"}
    assert all(0.3 < line["p1"] <= 1 and 0 < line["micro_ap"] <= 1 and line["lost"] == [] for line in (ways["train dual"],))
    some = found(data, "--margins", 3)
    assert [line["margin"] for line in some] == [0, 0.001, 0.002, 0.003, 0.005, 0.01] and some[0]["others"] >= some[-1]["others"]
    (line,) = found(data, "--check", 3)
    assert line["labels"] == 3 and np.allclose(line["mean AP: tune, exact"], line["mean AP: tune"], atol=1e-4)  # few positives
    assert np.allclose(line["mean AP: search"], line["mean AP: solutions"], atol=0.1)
    texts = documents.read_text().splitlines()
    splits = ("test" if number % 3 == 0 else "train" for number in range(len(texts)))
    documents.write_text("\n".join(json.dumps(json.loads(text) | {"split": next(splits)}) for text in texts))
    convert("jsonl", documents, tmp_path / "words.h5", min_df=2)
    (line,) = found(tmp_path / "words.h5", "--text", documents, "--min-df", 2)
    assert line["labels"] == 2 and line["features"] == 40 and 0.5 < line["test AP"] <= 1
    assert len(line["mean AP: idf of all"]) == len(line["mean AP: idf of the others"]) == 10


def test_retrain(tmp_path, run_here):
    data = make.dataset(tmp_path / "data.h5", *make.random_data(3, 200, 30, 5, density=0.2))
    (line,) = lines_of(run_here("retrain.py", data, "--rounds", 1, "--min-positives", 2, "--share", 0.5))
    assert line["labels"] == 5 and 0 < line["kept"] < 5 and line["ratio"] > 0 and line["same_file"]


def test_naive_bayes(tmp_path):
    data = make.dataset(tmp_path / "data.h5", *make.random_data(3, 60, 30, 5, density=0.2))
    peer, ours = lines_of(run_script("naive_bayes.py", data, "--sample", 2, "--ranks", 1, "--rounds", 1))
    assert (peer["labels"], ours["labels"], peer["ratio"]) == (2, 5, 1) and ours["wall"] > 0


def test_delayed(data):
    (line,) = lines_of(run_script("delayed.py", data, "--l1", "1/m", "--loss", "squared"))
    assert line["labels"] == 5 and 0 <= line["median"] <= line["largest"] < 100
    found = lines_of(run_script("delayed.py", "--rows", 200, "--features", 100, "--labels", 17, "--sample", 1))
    ours = next(line for line in found if "positives" in line)  # Vowpal Wabbit's line may stand before it
    assert ours["excess"] > 0 and any(line.get("who") == "SGDClassifier" and line["seconds"] > 0 for line in found)


def test_startup():
    (line,) = lines_of(run_script("startup.py", 1, "bernoulli-nb", 1))
    assert (line["command"], line["ranks"], line["cache"]) == ("train bernoulli-nb", 1, "warm")
    assert 0 < line["first_step"] < line["seconds"] and line["cpu"] > 0


def test_faults():
    """Of the whole table, the one fault that test_faults.py leaves to it."""
    (line,) = run_script("faults.py", "-k", "truncated after").splitlines()
    assert line.startswith("data truncated after the rows were copied (probe): exit code 0, ")
    assert "same bits" in line


def test_defaults():
    found = [(line["method"], line["protocol"] == "default") for line in lines_of(run_script("defaults.py", "--tiny"))]
    assert found == [("probe", False), ("probe", True), ("dual", False), ("dual", True)]


def test_same_bits(tmp_path):
    """A list of digests; a second one, of a part of it, is as the first, but for the digest that was changed there."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    options = ("--data", "tiny", "--sets", "pairs", "--methods")
    run_script("same_bits.py", first, *options, "bernoulli-nb", "--ranks", 1, 2)
    digests = json.loads(first.read_text())
    assert len(digests) == 3  # of the set, and of a model at 1 and 2 ranks
    changed = "pairs, bernoulli-nb, 1 rank(s)"
    first.write_text(json.dumps(digests | {changed: "0" * 64}))
    done = start(sys.executable, BENCH / "same_bits.py", second, "--against", first, *options, "bernoulli-nb", "--ranks", 1)
    again = {key: digests[key] for key in ("pairs, data", changed)}
    assert (done.returncode, json.loads(second.read_text())) == (1, again), done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("pairs, ")] == [f"{changed}: differs"]


def test_processors(tmp_path):
    """A table of two made-up processors that share kernels; held against one with a digest that was changed."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    options = ("--methods", "mbw", "--ranks", 1, "--processors")
    run_script("processors.py", first, *options, "native", "blas-nehalem")
    found = json.loads(first.read_text())
    assert list(found["runs"]) == ["native, 1 rank(s)", "blas-nehalem, 1 rank(s)"]
    assert all(set(each["digests"]["mbw"]) > {"model", "scores", "measures"} for each in found["runs"].values())
    table = first.with_suffix(".md").read_text()
    assert f"| mbw: model | `{found['runs']['native, 1 rank(s)']['digests']['mbw']['model'][:8]}` (2 runs) |  |" in table
    for each in found["runs"].values():
        each["digests"]["mbw"]["scores"] = "0" * 16
    first.write_text(json.dumps(found))
    done = start(sys.executable, BENCH / "processors.py", second, "--against", first, *options, "native")
    assert done.returncode == 1 and "mbw: scores: not as in the earlier table" in done.stdout.splitlines(), (
        done.stdout + done.stderr
    )


def test_little_memory():
    """Two limits that do not bite; without the right to make a control group there is nothing to run."""
    sizes = ("--rows", 300, "--per-row", 5, "--features", 50, "--labels", 2, "--ranks", 1, "--limits", 900, 800)
    done = start(sys.executable, BENCH / "little_memory.py", *sizes)
    if done.returncode == 3:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line["same_bits"] for line in lines_of(done.stdout)] == [True, True]


def test_slurm_rounds_starts():
    """The rest of it needs a Slurm of its own, and minutes."""
    assert "--rounds" in run_script("slurm_rounds.py", "--help")


def test_label_noise():
    found = lines_of(run_script("label_noise.py", "--random", 2000, "--rows", 2000, "--test", 300))
    assert len(found) == 80 and {line["learner"] for line in found} >= {"mbw", "v-mbw", "pa"}
    wrong = {(line["learner"], line["wrong_labels"]): line["wrong"] for line in found if "wrong_labels" in line}
    assert wrong["v-mbw", 0.1] < wrong["mbw", 0.1]


def test_weka_says_what_it_needs(tmp_path):
    done = start(sys.executable, BENCH / "weka.py")
    assert done.returncode != 0 and "WEKA.JAR" in done.stderr  # the comparison itself needs Java and Weka


@pytest.mark.skipif("HPCML_DATA" not in os.environ, reason="HPCML_DATA names no folder with real data")
def test_pubmed_speed():
    made, ours = lines_of(run_script("pubmed_speed.py", "--records", 60, "--files", 2, "--ranks", 1, "--no-peer"))
    assert made["records"] == 60 and ours["ranks"] == 1 and ours["records_a_cpu_second"] > 0 and ours["peak_mib"] > 50


def test_many_labels(run_here, tmp_path):
    sizes = ("--rows", 200, "--features", 300, "--labels", 60, "--judged", 8)
    some = ("info of a model", "merge", "predict --top 10", "evaluate", "threshold", "retrain")
    lines = run_here("many_labels.py", tmp_path / "many", *sizes, "--ranks", 1, "--only", *some).splitlines()
    found = [json.loads(line) for line in lines]
    assert [each["command"] for each in found] == [
        "info of a model",
        "merge",
        "predict --top 10",
        "evaluate",
        "threshold",
        "retrain",
    ]
    assert all(each["code"] == 0 and each["peaks_mb"][0] > 30 for each in found), found
