"""`hpcml train mbw` as processes: pipes, passes that are stopped or killed, and one sentence for a user's mistake."""

import gzip
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from shlex import quote

import numpy as np
import pytest
import scipy.sparse as sp
from support.edits import edit, remove, replace
from support.jobs import done, refused, slow_pipe
from support.make import dataset, model, random_data, svmlight_lines
from support.training import train

from hpcml.errors import Interrupted

N_ROWS, N_FEATURES = 300, 50


def matrices():
    rng = np.random.default_rng(3)
    X = sp.random(N_ROWS, N_FEATURES, 0.1, "csr", random_state=rng, data_rvs=lambda n: rng.random(n) + 0.01).astype(np.float32)
    return X, (X @ rng.standard_normal((N_FEATURES, 3)) > 0.2).astype(int)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The same rows as a dataset, as text of label sets and as text of one class; and models trained on them."""
    folder = tmp_path_factory.mktemp("online")
    X, Y = matrices()
    splits = {"train": np.arange(N_ROWS), "late": np.arange(200, N_ROWS)}
    dataset(folder / "data.h5", X, Y, [f"word {j}" for j in range(N_FEATURES)], list("012"), splits=splits)
    (folder / "sets.svm").write_text("".join(svmlight_lines(X, [",".join(map(str, np.flatnonzero(y))) for y in Y])))
    (folder / "class.svm").write_text("".join(svmlight_lines(X, [f"{2 * y - 1:+d}" for y in Y[:, 1].tolist()])))
    (folder / "class.svm.gz").write_bytes(gzip.compress((folder / "class.svm").read_bytes()))
    for name, data, options in (
        ("data", "data.h5", {"voted": True}),
        ("class", "class.svm", {"voted": True}),
        ("sets", "sets.svm", {"voted": True, "label": ("0", "1", "2")}),
        ("live", "data.h5", {"voted": True, "live_features": 20}),
        ("final", "data.h5", {"voted": True, "final": True}),
        ("one", "data.h5", {"voted": True, "label": ("0",)}),
    ):
        train("mbw", None, folder / data, folder / name, options)
    train("probe", None, folder / "data.h5", folder / "probe", {})
    return folder


def result_of(run):
    """What a pass leaves, but for its log."""
    return (run / "model.h5").read_bytes(), (run / "history.csv").read_bytes()


# pipes


def test_standard_input_without_mpirun(files, tmp_path):
    source, run = quote(str(files / "class.svm.gz")), quote(str(tmp_path / "run"))
    command = f"gzip -dc {source} | {quote(sys.executable)} -m hpcml train mbw - --voted -o {run}"
    result = done(
        subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    )
    assert result_of(tmp_path / "run") == result_of(files / "class")
    assert "learnt 1 label from 300 rows" in result.stderr + result.stdout


def test_named_pipe_on_two_ranks(mpirun, files, tmp_path):
    pipe = slow_pipe(tmp_path / "pipe", (files / "class.svm").read_bytes())
    done(mpirun(2, "train", "mbw", pipe, "--voted", "-o", tmp_path / "run", timeout=60))
    assert result_of(tmp_path / "run") == result_of(files / "class")


@pytest.mark.parametrize("name", ["data.h5", "sets.svm", "class.svm.gz"])
def test_files_on_three_ranks(standing, files, tmp_path, name):
    labels = [token for label in "012" for token in ("--label", label)] if name == "sets.svm" else []
    result = done(standing(3, "train", "mbw", files / name, "--voted", "-o", tmp_path / "run", *labels))
    assert result_of(tmp_path / "run") == result_of(files / name.split(".")[0])
    assert "Traceback" not in result.stderr


# passes that are stopped or killed in the middle


PROGRAM = """
import os, signal
import hpcml.data.svmlight, hpcml.methods.online.source
from hpcml.methods.online.run import Pass
hpcml.methods.online.source.PIECE_NNZ = 100
hpcml.data.svmlight.SvmlightStream.__init__.__defaults__ = (False, 2000)
count, whole = 0, Pass._take
def take(*args):
    global count
    count += 1
    if count == {piece} and int(os.environ.get("PMI_RANK", "0")) == {rank}:
        os.kill(os.getpid(), signal.{signal})
    whole(*args)
Pass._take = take
from hpcml.__main__ import main
main()
"""
OFTEN = ("--checkpoint-every", "1e-9")
STOPS = [  # what happens to which data, in which piece and on which rank; then the exit code, where it goes on, and what it says
    ("data.h5", "SIGTERM", 5, 1, (), 75, 3, "resuming from state-000001"),
    ("data.h5", "SIGKILL", 5, 0, OFTEN, None, 1, "resuming from state-00000[34]"),
    ("sets.svm", "SIGKILL", 4, 1, OFTEN, None, 3, "resuming from state-00000[23]"),
    ("data.h5", "SIGKILL", 3, 1, (), None, 3, "no checkpoint was written yet"),
]


@pytest.mark.parametrize(("name", "signal", "piece", "rank", "more", "code", "n", "says"), STOPS)
def test_a_pass_goes_on_where_it_was(mpirun, standing, files, tmp_path, name, signal, piece, rank, more, code, n, says):
    run = tmp_path / "run"
    labels = [token for label in "012" for token in ("--label", label)] if name == "sets.svm" else []
    command = ("train", "mbw", files / name, "--voted", "-o", run, *labels)
    program = ("-c", PROGRAM.format(signal=signal, piece=piece, rank=rank))
    stopped = mpirun(2, *command, *more, program=program, timeout=60)
    assert stopped.returncode == code if code else stopped.returncode not in (0, 2, 75), stopped.stderr
    assert not (run / "model.h5").exists()
    if code:
        assert "a signal arrived" in stopped.stderr or "interrupted: checkpoint written" in stopped.stderr
        assert "Traceback" not in stopped.stderr
    refused(standing(n, *command), "exists already")
    result = done(standing(n, *command, "--resume"))
    assert result_of(run) == result_of(files / name.split(".")[0])
    assert re.search(says, result.stderr)
    done(standing(n, *command, "--resume"))  # nothing is left to do


def test_a_stream_is_given_again_from_its_beginning(files, tmp_path):
    """And refused if it is shorter than what has been learnt from it."""
    run, text = tmp_path / "run", quote(str(files / "class.svm"))
    hpcml = f"{quote(sys.executable)} -m hpcml train mbw - --voted -o {quote(str(run))}"

    def piped(command):
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)

    stopped = piped(f"cat {text} | {hpcml} --time-limit 1e-9")
    assert stopped.returncode == 75, stopped.stderr
    short = piped(f"head -n 100 {text} | {hpcml} --resume")
    refused(short, "standard input: ends after 100 rows")
    other = piped(f"tac {text} | {hpcml} --resume")
    refused(other, "this run was started on other rows")
    done(piped(f"cat {text} | {hpcml} --resume"))
    assert result_of(run) == result_of(files / "class")


def test_a_stream_that_stalls_can_be_interrupted(files, tmp_path):
    """What has come so far is learnt and in the checkpoint."""
    run = tmp_path / "run"
    command = [sys.executable, "-m", "hpcml", "train", "mbw", "-", "--voted", "-o", run]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        lines = (files / "class.svm").read_text().splitlines(keepends=True)
        job.stdin.write("".join(lines[:200]) + lines[200][:5])
        job.stdin.flush()
        for line in job.stderr:  # then the handlers are there; what comes is learnt within a second or two
            if line.startswith("learning"):
                break
        time.sleep(3)
        job.terminate()
        said = job.stderr.read()
        job.stdin.close()
        assert job.wait(60) == 75, said
    assert "200 rows done" in said
    done(subprocess.run([*command, "--resume"], input="".join(lines), capture_output=True, text=True, timeout=120, check=False))
    assert result_of(run) == result_of(files / "class")


def test_other_options_or_data_are_not_resumed(standing, files, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(Interrupted):
        train("mbw", None, files / "data.h5", run, {"voted": True, "time_limit": 1e-9})
    shutil.copy(files / "data.h5", tmp_path / "other.h5")
    edit(tmp_path / "other.h5", replace("splits/train", lambda _: np.arange(299)))
    for command, sentence in (
        (("bw", files / "data.h5", "--voted"), "this run had method = 'mbw', not 'bw'"),
        (("mbw", files / "data.h5"), "this run had voted = True"),
        (("mbw", files / "data.h5", "--voted", "--shuffle"), "this run had shuffle = False"),
        (("mbw", tmp_path / "other.h5", "--voted"), "this run was started on other data"),
        (("mbw", files / "class.svm", "--voted"), "this run was started on other data"),
    ):
        refused(standing(2, "train", *command, "-o", run, "--resume"), sentence)
    done(standing(2, "train", "mbw", files / "data.h5", "--voted", "-o", run, "--resume"))
    assert result_of(run) == result_of(files / "data")


# a user's mistakes


def damaged_models(files, folder):
    """Models of which a part is not what it should be."""

    def changed(name, change, of="data"):
        return edit(Path(shutil.copy(files / of / "model.h5", folder / f"{name}.h5")), change)

    raw = (files / "data" / "model.h5").read_bytes()
    (folder / "short.h5").write_bytes(raw[: len(raw) // 2])
    yield folder / "short.h5"
    (folder / "empty.h5").write_bytes(b"")
    yield folder / "empty.h5"
    yield changed("no u", remove("state/u"))
    yield changed("no features", remove("state/features"))
    yield changed("no rows", lambda file: file.attrs.__delitem__("n_rows"))
    yield changed("fewer lanes", replace("state/lanes", lambda old: old[:, :2]))
    yield changed("fewer labels", replace("state/lanes", lambda old: old[:1]))
    yield changed("fewer stamps", replace("state/stamps", lambda old: old[:, :-3]))
    yield changed("feature beyond", replace("state/features", lambda old: np.append(old[:-1], 10**6)))
    yield changed("negative feature", replace("state/features", lambda old: np.append(-7, old[1:])))
    yield changed("fractions", replace("state/features", lambda old: old + 0.5))


def mistakes(files, folder):
    """(arguments after `train`, part of the sentence)."""
    data, text = files / "data.h5", files / "class.svm"
    texts = {
        "bad": "+1 1:1\n-1 2:1\n+1 3:x\n",
        "empty": "",
        "comment": "# nothing\n\n",
        "unlabelled": "+1 1:1\n 2:1\n",
        "three": "+1 1:1\n2 2:1\n",
        "negative": "+1 1:1\n-1 2:1\n\n-1 5:1 7:-0.5\n",
        "nan": "+1 1:nan\n",
        "unsorted": "+1 3:1 2:1\n",
    }
    for name, content in texts.items():
        (folder / f"{name}.svm").write_text(content)
    X, Y = matrices()
    X = X.tolil()
    X[123, 4] = -2
    negative = dataset(folder / "negative.h5", X.tocsr(), Y)
    other = dataset(folder / "other.h5", *random_data(5, 40, N_FEATURES, 3))
    (folder / "folder").mkdir()
    yield ("mbw", data, "--label", "7"), "no label '7'"
    yield ("mbw", data, "--label", "1", "--label", "1"), "--label 1: given twice"
    yield ("mbw", text, "--label", "sea"), "--label sea: the labels of svmlight text are numbers"
    yield ("mbw", data, "--split", "tain"), "tain"
    yield ("mbw", data, "--min-positives", 400), "no label has 400 positive rows"
    yield ("perceptron", data, "--live-features", 5), "--live-features has no effect on perceptron"
    yield ("pw", data, "--live-features", 5), "--live-features has no effect on pw"
    yield ("mbw", data, "--live-features", 0), "--live-features 0: expected"
    yield ("mbw", data, "--share", 1.5), "--share 1.5: expected"
    yield ("mbw", data, "--alpha", 1), "--alpha 1.0: expected a number above 1"
    yield ("mbw", data, "--alpha", "nan"), "--alpha nan: expected a number above 1"
    yield ("mbw", data, "--beta", 1.5), "--beta 1.5: expected"
    yield ("pa", data, "--gamma", -1), "--gamma -1.0: expected"
    yield ("mbw", data, "--checkpoint-every", 0), "--checkpoint-every 0.0"
    yield ("mbw", negative), "row 123 (from 0) has the value -2"
    yield ("mbw", negative, "--live-features", 20, "--shuffle"), "row 123 (from 0) has the value -2"
    yield ("bw", folder / "negative.svm"), "row 2 (from 0) has the value -0.5"
    yield ("mbw", folder / "bad.svm"), "bad.svm: line 3: "
    yield ("mbw", folder / "nan.svm"), "nan.svm: line 1: "
    yield ("mbw", folder / "unlabelled.svm"), "row 1 (from 0) has the label (none), but expected -1 or +1"
    yield ("mbw", folder / "three.svm"), "row 1 (from 0) has the label 2, but expected -1 or +1"
    yield ("mbw", folder / "empty.svm"), "empty.svm: no rows"
    yield ("mbw", folder / "comment.svm"), "comment.svm: no rows"
    yield ("mbw", folder / "absent.svm"), "absent.svm: cannot read"
    yield ("mbw", folder / "absent.h5"), "absent.h5: cannot read"
    yield ("mbw", folder / "folder"), "folder"
    yield ("mbw", files / "data" / "config.toml"), "config.toml"
    yield ("mbw", text, "--shuffle"), "--shuffle: a stream"
    yield ("mbw", text, "--split", "all"), "--split all: a stream"
    yield ("mbw", text, "--min-positives", 2), "--min-positives 2: a stream"
    yield ("mbw", files / "data" / "model.h5"), "expected a dataset"
    initial = ("--initial-model", files / "data" / "model.h5")
    yield ("bw", data, "--voted", *initial), "it has method = mbw, not bw"
    yield ("mbw", data, *initial), "it has voted = True, not False"
    yield ("mbw", data, "--voted", "--alpha", 2, *initial), "it has alpha = 1.5, not 2.0"
    yield ("mbw", data, "--voted", "--live-features", 9, *initial), "it has live-features = 0, not 9"
    yield (
        ("mbw", data, "--voted", "--live-features", 9, "--initial-model", files / "live" / "model.h5"),
        "live-features = 20, not 9",
    )
    yield ("mbw", data, "--voted", "--initial-model", files / "final" / "model.h5"), "was trained with --final"
    yield ("mbw", data, "--voted", "--initial-model", files / "probe" / "model.h5"), "method = probe, not mbw"
    yield ("mbw", data, "--voted", "--initial-model", files / "class" / "model.h5"), "has other features than"
    yield ("mbw", other, "--voted", *initial), "no label '0'"
    yield ("mbw", text, "--voted", "--initial-model", model(folder / "m.h5", np.ones((1, 3)))), "method = probe, not mbw"
    yield ("mbw", data, "--voted", "--initial-model", folder / "absent.h5"), "absent.h5: cannot read"
    yield ("mbw", data, "--voted", "--initial-model", data), "expected a model"


def test_a_mistake_is_one_sentence_and_leaves_nothing(standing, files, tmp_path):
    for arguments, sentence in mistakes(files, tmp_path):
        refused(standing(2, "train", *arguments, "-o", tmp_path / "run"), sentence)
        assert not (tmp_path / "run").exists(), sentence


def test_a_damaged_initial_model_is_one_sentence_and_leaves_nothing(standing, files, tmp_path):
    run = tmp_path / "run"
    for path in damaged_models(files, tmp_path):
        refused(standing(2, "train", "mbw", files / "data.h5", "--voted", "--initial-model", path, "-o", run), path.name)
        assert not run.exists(), path


def test_labels_that_the_initial_model_does_not_have_are_refused(standing, files, tmp_path):
    """And not trained, nor left out, in silence."""
    run = tmp_path / "run"
    for data, labels, name in (
        ("data.h5", "012", "one"),
        ("data.h5", "1", "one"),
        ("data.h5", "0", "data"),
        ("sets.svm", "02", "sets"),
        ("sets.svm", "7", "class"),
    ):
        tokens = [token for label in labels for token in ("--label", label)]
        initial = files / name / "model.h5"
        refused(standing(2, "train", "mbw", files / data, "--voted", *tokens, "--initial-model", initial, "-o", run))
        assert not run.exists(), (data, labels, name)


def test_weights_beyond_all_numbers_are_one_sentence_and_leave_nothing(standing, files, tmp_path):
    run = tmp_path / "run"
    result = standing(2, "train", "pa", files / "data.h5", "--epsilon", "1e308", "--gamma", "0", "-o", run)
    refused(result, "label '0': a weight has grown beyond all numbers")
    assert "Warning" not in result.stderr and "Error:" not in result.stderr
    assert not run.exists()


def test_results_are_not_overwritten_without_force(standing, files, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(files / "data", run)
    before = result_of(run)
    for output, sentence in ((run, "exists already"), (run / "model.h5", "is a file")):
        refused(standing(2, "train", "bw", files / "data.h5", "-o", output), sentence)
        assert result_of(run) == before
    done(standing(2, "train", "bw", files / "data.h5", "-o", run, "--force"))
    assert result_of(run) != before


def test_negative_values_are_not_scored(standing, files, tmp_path):
    X, Y = matrices()
    X = X.tolil()
    X[123, 4] = -2
    data = dataset(tmp_path / "data.h5", X.tocsr(), Y, [f"word {j}" for j in range(N_FEATURES)], list("012"))
    trained = files / "data" / "model.h5"
    for command in (
        ("predict", trained, data, "-o", tmp_path / "out.csv"),
        ("evaluate", trained, data, "--csv", tmp_path / "out.csv"),
    ):
        refused(standing(2, *command), "row 123 (from 0) has a negative value")
        assert not (tmp_path / "out.csv").exists()
