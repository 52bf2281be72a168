"""`hpcml train mbw` as processes: pipes, passes that are stopped or killed, invalid arguments."""

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
from support.jobs import done, refused
from support.make import dataset, svmlight_lines
from support.training import train

N_ROWS, N_FEATURES = 300, 50


def matrices():
    rng = np.random.default_rng(3)
    X = sp.random(N_ROWS, N_FEATURES, 0.1, "csr", random_state=rng, data_rvs=lambda n: rng.random(n) + 0.01).astype(np.float32)
    return X, (X @ rng.standard_normal((N_FEATURES, 3)) > 0.2).astype(int)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("online")
    X, Y = matrices()
    splits = {"train": np.arange(N_ROWS), "late": np.arange(200, N_ROWS)}
    dataset(folder / "data.h5", X, Y, [f"word {j}" for j in range(N_FEATURES)], list("012"), splits=splits)
    (folder / "sets.svm").write_text("".join(svmlight_lines(X, [",".join(map(str, np.flatnonzero(y))) for y in Y])))
    (folder / "class.svm").write_text("".join(svmlight_lines(X, [f"{2 * y - 1:+d}" for y in Y[:, 1].tolist()])))
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
    return (run / "model.h5").read_bytes(), (run / "history.csv").read_bytes()


PROGRAM = """
import os, signal
import hpcml.data.svmlight, hpcml.methods.online.source
from hpcml.methods.online.run import Pass
hpcml.methods.online.source.PIECE_NNZ = 100
hpcml.data.svmlight.SvmlightStream.__init__.__defaults__ = (False, 2000)
count, whole = 0, Pass._learn_piece
def take(*args):
    global count
    count += 1
    if count == {piece} and int(os.environ.get("PMI_RANK", "0")) == {rank}:
        os.kill(os.getpid(), signal.{signal})
    whole(*args)
Pass._learn_piece = take
from hpcml.__main__ import main
main()
"""
OFTEN = ("--checkpoint-every", "1e-9")
STOPS = [  # data, signal, piece, rank, options; exit code, number of ranks that resume, and their message
    ("data.h5", "SIGTERM", 5, 1, (), 75, 3, "resuming from state-000001"),
    ("data.h5", "SIGKILL", 5, 0, OFTEN, None, 1, "resuming from state-00000[34]"),
    ("sets.svm", "SIGKILL", 4, 1, OFTEN, None, 3, "resuming from state-00000[23]"),
]


@pytest.mark.parametrize(("name", "signal", "piece", "rank", "more", "code", "n", "says"), STOPS)
def test_resumes_a_stopped_or_killed_pass(mpirun, standing, files, tmp_path, name, signal, piece, rank, more, code, n, says):
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
    done(standing(n, *command, "--resume"))  # the run is finished


def test_resumes_a_stream_that_is_piped_again(files, tmp_path):
    run, text = tmp_path / "run", quote(str(files / "class.svm"))
    hpcml = f"{quote(sys.executable)} -m hpcml train mbw - --voted -o {quote(str(run))}"

    def piped(command):
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)

    stopped = piped(f"cat {text} | {hpcml} --time-limit 1e-9")
    assert stopped.returncode == 75, stopped.stderr
    short = piped(f"head -n 100 {text} | {hpcml} --resume")
    refused(short, "ends after 100 rows")
    other = piped(f"tac {text} | {hpcml} --resume")
    refused(other, "this run was started on other rows")
    done(piped(f"cat {text} | {hpcml} --resume"))
    assert result_of(run) == result_of(files / "class")


def test_interrupts_a_stream_that_stalls(files, tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "hpcml", "train", "mbw", "-", "--voted", "-o", run]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
        lines = (files / "class.svm").read_text().splitlines(keepends=True)
        job.stdin.write("".join(lines[:200]) + lines[200][:5])
        job.stdin.flush()
        for line in job.stderr:  # the signal handlers are installed now
            if line.startswith("training"):
                break
        time.sleep(3)
        job.terminate()
        said = job.stderr.read()
        job.stdin.close()
        assert job.wait(60) == 75, said
    assert "200 rows done" in said
    done(subprocess.run([*command, "--resume"], input="".join(lines), capture_output=True, text=True, timeout=120, check=False))
    assert result_of(run) == result_of(files / "class")


def damaged_models(files, folder):
    def changed(name, change, of="data"):
        return edit(Path(shutil.copy(files / of / "model.h5", folder / f"{name}.h5")), change)

    raw = (files / "data" / "model.h5").read_bytes()
    (folder / "short.h5").write_bytes(raw[: len(raw) // 2])
    yield folder / "short.h5"
    yield changed("no u", remove("state/u"))
    yield changed("no rows", lambda file: file.attrs.__delitem__("n_rows"))
    yield changed("fewer lanes", replace("state/lanes", lambda old: old[:, :2]))
    yield changed("fewer stamps", replace("state/stamps", lambda old: old[:, :-3]))
    yield changed("feature beyond", replace("state/features", lambda old: np.append(old[:-1], 10**6)))
    yield changed("fractions", replace("state/features", lambda old: old + 0.5))


def invalid_arguments(files, folder):
    data, text = files / "data.h5", files / "class.svm"
    texts = {"bad": "+1 1:1\n-1 2:1\n+1 3:x\n", "empty": "", "unlabelled": "+1 1:1\n 2:1\n", "three": "+1 1:1\n2 2:1\n"}
    texts["negative"] = "+1 1:1\n-1 2:1\n\n-1 5:1 7:-0.5\n"
    for name, content in texts.items():
        (folder / f"{name}.svm").write_text(content)
    X, Y = matrices()
    X = X.tolil()
    X[123, 4] = -2
    negative = dataset(folder / "negative.h5", X.tocsr(), Y)
    yield ("mbw", data, "--label", "7"), "no label '7'"
    yield ("mbw", text, "--label", "sea"), "--label sea"
    yield ("mbw", data, "--min-positives", 400), "400"
    yield ("pw", data, "--live-features", 5), "--live-features"
    yield ("mbw", data, "--share", 1.5), "--share 1.5"
    yield ("mbw", data, "--alpha", "nan"), "--alpha nan"
    yield ("mbw", negative, "--live-features", 20, "--shuffle"), "row 123 (from 0) has the value -2"
    yield ("bw", folder / "negative.svm"), "row 2 (from 0) has the value -0.5"
    yield ("mbw", folder / "bad.svm"), "bad.svm: line 3: "
    yield ("mbw", folder / "unlabelled.svm"), "row 1 (from 0) has the label (none)"
    yield ("mbw", folder / "three.svm"), "row 1 (from 0) has the label 2"
    yield ("mbw", folder / "empty.svm"), "empty.svm"
    yield ("mbw", folder / "absent.h5"), "absent.h5"
    yield ("mbw", files / "data" / "config.toml"), "config.toml"
    yield ("mbw", text, "--min-positives", 2), "--min-positives 2"
    yield ("pa", data, "--epsilon", "1e308", "--gamma", "0"), "label '0': a weight is not finite"
    initial = ("--initial-model", files / "data" / "model.h5")
    yield ("bw", data, "--voted", *initial), "method = mbw, not bw"
    yield ("mbw", data, "--voted", "--alpha", 2, *initial), "alpha = 1.5, not 2.0"
    yield ("mbw", data, "--voted", "--live-features", 9, *initial), "live-features = 0, not 9"
    yield ("mbw", data, "--voted", "--label", "0", *initial), "other labels"
    for name, words in (
        ("final", "--final"),
        ("probe", "method = probe"),
        ("class", "features differ"),
        ("absent", "absent"),
        ("one", ""),
    ):
        labels = [token for label in "012" for token in ("--label", label)] if name == "one" else []
        yield ("mbw", data, "--voted", *labels, "--initial-model", files / name / "model.h5"), words


def test_rejects_invalid_arguments_and_leaves_no_run(standing, files, tmp_path):
    for arguments, sentence in invalid_arguments(files, tmp_path):
        refused(standing(2, "train", *arguments, "-o", tmp_path / "run"), sentence)
        assert not (tmp_path / "run").exists(), sentence


def test_rejects_damaged_initial_models(standing, files, tmp_path):
    run = tmp_path / "run"
    for path in damaged_models(files, tmp_path):
        refused(standing(2, "train", "mbw", files / "data.h5", "--voted", "--initial-model", path, "-o", run), path.name)
        assert not run.exists(), path
