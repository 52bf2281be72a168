"""`hpcml compare` and `hpcml plot convergence` as processes: the same on any number of ranks; one sentence for a user's mistake."""

import os
import signal

import numpy as np
import pytest
from support.jobs import done, refused
from support.make import dataset, random_data
from support.tables import table

METHODS = ("probe", "pegasos", "elastic-net")
START = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml"}


@pytest.fixture
def data(tmp_path):
    X, Y = random_data(7, 400, 60, 5, density=0.1)
    return dataset(tmp_path / "data.h5", X, Y, splits={"train": np.arange(300), "test": np.arange(300, 400)})


@pytest.fixture
def drawing():
    pytest.importorskip("matplotlib")


@pytest.fixture
def plain_run(standing, data, tmp_path):
    """A run that took the steps that are walked again: all rows, double precision."""
    done(standing(1, "train", "probe", data, "-o", tmp_path / "run", "--no-dormant", "--precision", "double"))
    return tmp_path / "run"


def test_compare_says_the_same_on_any_number_of_ranks(standing, data, tmp_path):
    tables = []
    for n in (1, 3):
        out = tmp_path / f"on{n}"
        command = ("compare", data, "-o", out, "--method", *METHODS, "--max-steps", "40", "--label", "label1")
        result = done(standing(n, *command))
        assert result.stdout.count("MAP") == 1
        tables.append(table(out / "compare.csv"))
        assert [row["ranks"] for row in tables[-1]] == [str(n)] * 3
        for method in METHODS[1:]:
            assert (out / method / "model.h5").read_bytes() == (tmp_path / "on1" / method / "model.h5").read_bytes()
    exact = ("method", "average_precision", "break_even", "iterations", "f", "objective")
    assert [[row[key] for key in exact] for row in tables[0]] == [[row[key] for key in exact] for row in tables[1]]


def test_interrupted_comparison_resumes(mpirun, standing, tmp_path):
    data, out = dataset(tmp_path / "big.h5", *random_data(7, 3000, 400, 40, density=0.05)), tmp_path / "out"
    command = ("compare", data, "-o", out, "--method", "probe", "--method", "pegasos")
    job = mpirun.start(2, *command)
    job.until(lambda: (out / "pegasos" / "history.csv").exists())
    cost = table(out / "compare.csv")[0]
    os.kill(job.rank_pids()[1], signal.SIGTERM)
    result = job.wait(60)
    assert result.returncode == 75, result.stderr
    assert result.stderr.count("hpcml: ") == 1
    result = done(standing(1, *command, "--resume"))
    assert "probe is finished already" in result.stderr
    assert table(out / "compare.csv")[0] == cost
    assert "pegasos is finished already" not in result.stderr
    assert "finished" not in (out / "probe" / "log.txt").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--method", "prob"), "did you mean 'probe'"),
        (("--test-split", "dev"), "no split named 'dev'"),
        (("--epsilon", "7"), "--epsilon 7"),
        (("--ranks-per-group", "2"), "--ranks-per-group 2: liblinear needs all rows on every rank"),
    ],
)
def test_compare_refuses_in_one_sentence(standing, data, tmp_path, arguments, words):
    refused(standing(2, "compare", data, "-o", tmp_path / "out", *arguments), words, alone=True)
    assert not (tmp_path / "out").exists()


def test_plot_is_the_run_itself_and_the_same_on_any_number_of_ranks(standing, drawing, data, plain_run, tmp_path):
    pictures = []
    for n in (1, 3):
        output = tmp_path / f"on{n}.png"
        result = done(standing(n, "plot", "convergence", plain_run, "--label", "label2", "--output", output))
        assert result.stdout.count("picture: ") == 1
        pictures.append((output.read_bytes(), output.with_suffix(".csv").read_bytes()))
    assert pictures[0] == pictures[1]
    assert pictures[0][0].startswith(START[".png"])
    walked = [row for row in table(tmp_path / "on1.csv") if row["algorithm"] == "PROBE"]
    trained = [row for row in table(plain_run / "history.csv") if row["label"] == "label2"]
    np.testing.assert_allclose([float(r["f"]) for r in walked[:60]], [float(r["f"]) for r in trained[:60]], rtol=1e-9)
    assert [row["step"] for row in walked if row["break_even"]][:3] == ["10", "20", "30"]
    assert min(float(row["distance"]) for row in walked) == 0.0


def test_plot_chooses_label_and_names_and_overwrites_nothing(standing, drawing, data, plain_run):
    done(standing(0, "plot", "convergence", plain_run))
    (picture,) = plain_run.glob("convergence-label*.png")
    assert picture.with_suffix(".csv").exists()
    before = picture.stat().st_mtime_ns
    refused(standing(0, "plot", "convergence", plain_run), "exists already")
    assert picture.stat().st_mtime_ns == before
    moved = data.rename(data.with_name("moved.h5"))
    refused(standing(0, "plot", "convergence", plain_run, "--force"), "data.h5: cannot read")
    done(standing(2, "plot", "convergence", plain_run, "--force", "--data", moved, "--output", plain_run / "a.svg"))
    assert (plain_run / "a.svg").read_bytes().startswith(START[".svg"])


def test_plot_refuses_in_one_sentence(standing, drawing, data, plain_run, tmp_path):
    other = tmp_path / "other"
    done(standing(0, "train", "pegasos", data, "-o", other, "--max-steps", "5"))
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "config.toml").write_bytes((plain_run / "config.toml").read_bytes())
    strange = dataset(tmp_path / "strange.h5", *random_data(8, 400, 60, 5, density=0.1), splits={"train": np.arange(300)})
    cases = {
        "is a run of pegasos": (other,),
        "is not finished": (unfinished,),
        "is no run folder": (tmp_path,),
        "did you mean 'label1'": (plain_run, "--label", "lable1"),
        "was trained on other data": (plain_run, "--data", strange),
        "cannot draw a .jpg": (plain_run, "--output", tmp_path / "a.jpg"),
        "history.csv is also an input": (plain_run, "--output", plain_run / "history.png", "--force"),
        "does not exist": (plain_run, "--output", tmp_path / "no" / "a.png"),
    }
    for words, arguments in cases.items():
        refused(standing(2, "plot", "convergence", *arguments), words, alone=True)


def without(package, folder):
    """The environment of processes that cannot import a package."""
    fake = folder / package
    fake.mkdir()
    (fake / "__init__.py").write_text(f"raise ImportError('No module named {package}')")
    return {"PYTHONPATH": str(folder)}


def test_plot_without_matplotlib_says_what_to_install(mpirun, plain_run, tmp_path):
    plot = mpirun(2, "plot", "convergence", plain_run, env=without("matplotlib", tmp_path))
    refused(plot, "pip install 'hpcml[plot]'", alone=True)


@pytest.mark.parametrize(
    ("method", "package", "extra"), [("svmperf", "daqp", "svmperf"), ("psbml --base linear-svm", "skops", "sklearn")]
)
def test_training_without_a_package_says_what_to_install(mpirun, data, tmp_path, method, package, extra):
    run = tmp_path / "run"
    name, *base = method.split()
    train = mpirun(1, "train", name, data, "-o", run, "--label", "label1", *base, env=without(package, tmp_path))
    refused(train, f"pip install 'hpcml[{extra}]'", alone=True)
    assert not run.exists()


def test_a_classifier_of_scikit_learn_is_not_read_without_skops(mpirun, standing, data, tmp_path):
    done(standing(1, "train", "psbml", data, "-o", tmp_path / "run", "--label", "label1", "--base", "linear-svm", "--cycles", "1"))
    evaluate = mpirun(1, "evaluate", tmp_path / "run", data, env=without("skops", tmp_path))
    refused(evaluate, "pip install 'hpcml[sklearn]'", alone=True)
