"""`hpcml predict MODEL -` as processes: pipes, closed pipes and invalid input."""

import json
import subprocess
import sys
from shlex import quote

import numpy as np
import pytest
from support import make
from support.jobs import done, refused, slow_pipe


@pytest.fixture
def files(tmp_path):
    X, _ = make.random_data(3, 400, 20, 1)
    rng = np.random.default_rng(4)
    W, bias = rng.standard_normal((2, 20)), rng.standard_normal(2)
    source = tmp_path / "rows.svm"
    source.write_text("".join(make.svmlight_lines(X, ["1"] * 400)))
    assert source.stat().st_size < 50_000
    return source, make.model(tmp_path / "model.h5", W, bias), X.astype(np.float64) @ W.T + bias


def pipeline(command, timeout=100):
    hpcml = f"{quote(sys.executable)} -m hpcml"
    script = f'set -o pipefail; hpcml() {{ {hpcml} "$@"; }}; {command.replace("mpirun -n 2 hpcml", "mpirun -n 2 " + hpcml)}'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=timeout, check=False)


def test_pipes(mpirun, files, tmp_path):
    source, model, scores = files
    reference = tmp_path / "reference.csv"
    pipe = slow_pipe(tmp_path / "pipe", source.read_bytes())
    assert done(mpirun(2, "predict", model, pipe, "-o", reference)).stdout == ""
    text = reference.read_text()
    lines = [line.split(",") for line in text.splitlines()[1:]]
    expected = [(row, label) for row in range(400) for label in np.argsort(-scores[row]).tolist() if scores[row, label] > 0]
    assert [(int(row), int(label.removeprefix("label"))) for row, label, _ in lines] == expected
    np.testing.assert_allclose([float(score) for *_, score in lines], scores[tuple(np.transpose(expected))], rtol=1e-7)
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


def test_reports_a_closed_pipe(files):
    source, model = (quote(str(file)) for file in files[:2])
    result = pipeline(f"for i in {{1..40}}; do cat {source}; done | hpcml predict {model} - -o - | true; echo ${{PIPESTATUS[1]}}")
    assert result.stdout.splitlines()[-1:] == ["2"]
    assert result.stderr.splitlines()[-1] == "hpcml: standard output: cannot write: Broken pipe"


def test_rejects_invalid_input(standing, files, tmp_path):
    source, model, _ = files
    named = tmp_path / "rows.csv"
    named.symlink_to(source)
    before = sorted(tmp_path.iterdir())
    for arguments, sentence in {
        (source, "-o", tmp_path / "out.h5", "--all-scores"): "--all-scores: ",
        ("-", "-o", tmp_path / "out.csv"): "standard input under mpirun",
        ("/dev/null", "-o", tmp_path / "out.csv"): "/dev/null: no rows",
        (source, "-o", tmp_path / "out.csv", "--split", "test"): "--split test: ",
        (named, "-o", named, "--source", "svmlight", "--force"): "is also an input",
        (named, "-o", tmp_path / "out.csv"): "the features have no names",
    }.items():
        refused(standing(2, "predict", model, *arguments), sentence)
    refused(
        pipeline(f"(cat {quote(str(source))}; echo 1 0:1) | hpcml predict {quote(str(model))} - -o {quote(str(tmp_path))}/out.csv"),
        "standard input: line 401: index 0",
    )
    assert sorted(tmp_path.iterdir()) == before
