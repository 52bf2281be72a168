"""`hpcml predict MODEL - …` as processes: what goes through pipes, and what people do to them."""

import json
import os
import pty
import subprocess
import sys
from shlex import quote

import numpy as np
import pytest
from support import make
from support.jobs import done, refused, slow_pipe


@pytest.fixture
def files(tmp_path):
    """Paths of a text of 400 rows and of a model, and what is predicted of the rows."""
    X, _ = make.random_data(3, 400, 20, 1)
    rng = np.random.default_rng(4)
    W, bias = rng.standard_normal((2, 20)), rng.standard_normal(2)
    source = tmp_path / "rows.svm"
    source.write_text("".join(make.svmlight_lines(X, ["1"] * 400)))
    assert source.stat().st_size < 50_000
    return source, make.model(tmp_path / "model.h5", W, bias), X.astype(np.float64) @ W.T + bias


def pipeline(command, timeout=100):
    """A line of bash with `hpcml` in it."""
    hpcml = f"{quote(sys.executable)} -m hpcml"
    script = f'set -o pipefail; hpcml() {{ {hpcml} "$@"; }}; {command.replace("mpirun -n 2 hpcml", "mpirun -n 2 " + hpcml)}'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=timeout, check=False)


def test_pipes(mpirun, files, tmp_path):
    source, model, scores = files
    reference = tmp_path / "reference.csv"
    result = done(mpirun(2, "predict", model, source, "-o", reference))
    assert result.stdout == ""
    text = reference.read_text()
    found = [line.split(",") for line in text.splitlines()[1:]]
    expected = [(row, label) for row in range(400) for label in np.argsort(-scores[row]).tolist() if scores[row, label] > 0]
    assert [(int(row), int(label.removeprefix("label"))) for row, label, _ in found] == expected
    np.testing.assert_allclose([float(score) for *_, score in found], scores[tuple(np.transpose(expected))], rtol=1e-7)
    for command in (
        f"hpcml predict {quote(str(model))} - -o - < {quote(str(source))}",
        f"gzip -c {quote(str(source))} | hpcml predict {quote(str(model))} - -o - | cat",
        f"mpirun -n 2 hpcml predict {quote(str(model))} <(xz -c {quote(str(source))}) -o - < /dev/null",
    ):
        result = done(pipeline(command))
        assert result.stdout == text
        assert f"{len(expected)} labels of 400 rows" in result.stderr
    result = pipeline(f"hpcml predict {quote(str(model))} - -o - --format jsonl --top 1 < {quote(str(source))}")
    first = json.loads(result.stdout.splitlines()[0])
    assert (first["id"], first["label"]) == (0, f"label{np.argmax(scores[0])}") and result.stdout.count("\n") == 400


def test_named_pipe_of_a_slow_writer(mpirun, files, tmp_path):
    source, model, _ = files
    pipe = slow_pipe(tmp_path / "pipe", source.read_bytes())
    done(mpirun(2, "predict", model, pipe, "-o", tmp_path / "out.jsonl", "--top", "1"))
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 400


def test_a_reader_that_goes_away(files):
    source, model = (quote(str(file)) for file in files[:2])
    result = pipeline(f"for i in {{1..40}}; do cat {source}; done | hpcml predict {model} - -o - | true; echo ${{PIPESTATUS[1]}}")
    assert result.stdout.splitlines()[-1:] == ["2"]
    assert result.stderr.splitlines()[-1] == "hpcml: standard output: cannot write: Broken pipe"


def test_what_is_refused(standing, files, tmp_path):
    source, model, _ = files
    named = tmp_path / "rows.csv"
    named.symlink_to(source)
    before = sorted(tmp_path.iterdir())
    for arguments, sentence in {
        (source, "-o", tmp_path / "out.h5", "--all-scores"): "--all-scores: applies only to a dataset",
        (
            source,
            "-o",
            tmp_path / "out.csv",
            "--labels",
        ): "predict writes labels above their thresholds",
        ("-", "-o", tmp_path / "out.csv"): "standard input under mpirun or srun (PMI_SIZE): launchers lose",
        ("/dev/null", "-o", tmp_path / "out.csv"): "/dev/null: no rows; expected `label index:value ...`",
        (source, "-o", tmp_path / "out.csv", "--split", "test"): "--split test: applies only to a dataset",
        (named, "-o", named, "--source", "svmlight", "--force"): "is also an input",
        (named, "-o", tmp_path / "out.csv"): "the features have no names; use svmlight text, a matrix or a dataset",
    }.items():
        refused(standing(2, "predict", model, *arguments), sentence)
    refused(
        pipeline(f"(cat {quote(str(source))}; echo 1 0:1) | hpcml predict {quote(str(model))} - -o {quote(str(tmp_path))}/out.csv"),
        "hpcml: standard input: line 401: index 0, but indices start at 1 (use --zero-based)",
    )
    assert sorted(tmp_path.iterdir()) == before


def test_a_terminal_is_refused(files):
    first, second = pty.openpty()
    try:
        result = subprocess.run(
            [sys.executable, "-m", "hpcml", "predict", files[1], "-", "-o", "-"],
            stdin=second,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    finally:
        os.close(first)
        os.close(second)
    assert result.returncode == 2
    assert "hpcml: standard input is a terminal; pipe lines into it, or name a file" in result.stderr
