"""The laboratory's harness: every exhibit's quick form, verdicts, the page, and studies that continue where they stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import mutual_info_score

from hpcml.errors import ConfigError, Interrupted
from launch.lab.__main__ import main
from launch.lab.core import corpora, page, study
from launch.lab.core.exhibit import Claim, Exhibit, Finding, Paper
from launch.lab.core.outcome import Outcome, judged
from launch.lab.core.timing import CommandError, Usage, run_command
from launch.lab.papers import registry, selection, walks

ROOT = Path(__file__).parents[3]
ALL = [(paper, exhibit) for paper in registry.all_papers() for exhibit in paper.exhibits]
OUTCOME = Outcome("probe", "table-3", "x", ["A"], False, 2, 12.25, {"A": {"MAP": 0.5}}, {}, {"it is good": True}, [], {})


@pytest.mark.parametrize(("paper", "exhibit"), ALL, ids=lambda value: value.name)
def test_every_exhibit_is_complete_and_its_quick_form_runs(paper, exhibit, tmp_path, capsys):
    assert exhibit.kind in ("", *corpora.SYNTHETIC) and set(exhibit.corpora) <= set(corpora.CORPORA)
    assert exhibit.make or (exhibit.lacks and not exhibit.claims)
    if exhibit.make:
        assert main(["paper", paper.name, exhibit.name, "-o", str(tmp_path / "s"), "--quick"]) == 0
        assert "not judged" in capsys.readouterr().out
        assert json.loads((tmp_path / "s" / f"{paper.name}-{exhibit.name}.json").read_text())["numbers"]


def test_the_page_is_current():
    assert (
        page.page(registry.all_papers(), page.read_outcomes(ROOT / "docs" / "papers")) == (ROOT / "docs" / "papers.md").read_text()
    )


def test_verdicts_on_the_page_follow_from_its_numbers():
    for path in (ROOT / "docs" / "papers").glob("*.json"):
        said = json.loads(path.read_text())
        claims = registry.paper_named(said["paper"]).exhibit(said["exhibit"]).claims
        assert judged(claims, Finding(said["numbers"]), said["quick"]) == said["claims"], path


@pytest.mark.parametrize(
    ("claims", "quick", "verdict"),
    [
        ({"a": True, "b": True}, False, "holds"),
        ({"a": True, "b": False}, False, "holds in part"),
        ({"a": False, "b": None}, False, "does not hold"),
        ({"a": None}, False, "not judged"),
        ({"a": True}, True, "not judged"),
    ],
)
def test_verdicts(claims, quick, verdict):
    assert replace(OUTCOME, claims=claims, quick=quick).verdict == verdict


def test_a_claim_about_rows_that_are_not_there_is_not_judged():
    claims = (Claim("more than 1", lambda numbers: numbers["A"]["x"] > 1), Claim("about B", lambda numbers: numbers["B"]["x"] > 1))
    assert judged(claims, Finding({"A": {"x": 2.0}}), quick=False) == {"more than 1": True, "about B": None}


def _toy(work):
    rows = work.make_rows()
    work.run("train", "probe", rows.train, "-o", work.folder / "run")
    work.run("predict", "run", "-o", work.folder / "scores.csv")
    return Finding({"A": {"x": 1.0}})


EXHIBIT = Exhibit("table-1", 1, "a toy", claims=(Claim("x is 1", lambda numbers: numbers["A"]["x"] == 1),), make=_toy)
PAPER = Paper("probe", "Toy", "Nobody 2000", "Nothing.", (EXHIBIT,))


class Commands:
    def __init__(self, stops_at=None):
        self.asked, self.stops_at = [], stops_at

    def __call__(self, *tokens, **_):
        self.asked.append(tokens)
        output = Path(tokens[tokens.index("-o") + 1])
        output.mkdir(exist_ok=True) if tokens[0] == "train" else output.write_text("made")
        if tokens[0] == self.stops_at:
            raise Interrupted("stopped")
        return Usage(1.0, 1.0, 1.0)


@pytest.mark.parametrize(("stops_at", "option"), [("train", "--resume"), ("predict", "--force")])
def test_a_study_continues_where_it_stopped(tmp_path, monkeypatch, stops_at, option):
    folder = tmp_path / "study"
    monkeypatch.setattr(study, "run_hpcml", Commands(stops_at))
    with pytest.raises(Interrupted, match="continue with --resume"):
        study.make(PAPER, EXHIBIT, folder)
    again = Commands()
    monkeypatch.setattr(study, "run_hpcml", again)
    with pytest.raises(ConfigError, match="holds a study already"):
        study.make(PAPER, EXHIBIT, folder)
    assert "holds: x is 1" in study.make(PAPER, EXHIBIT, folder, resume=True)
    assert again.asked[0][0] == stops_at and again.asked[0][-1] == option
    again.asked.clear()
    study.make(PAPER, EXHIBIT, folder, force=True)
    assert [words[-1] for words in again.asked] == ["--force"] * 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["paper", "nobody", "table-1", "-o", "x"], "unknown paper 'nobody'"),
        (["paper", "probe", "table-99", "-o", "x"], "probe has no 'table-99'"),
        (["paper", "probe", "table-1"], "missing -o FOLDER"),
        (["paper", "probe", "table-1", "a.h5", "-o", "x", "--quick"], "--quick generates its own rows"),
        (["paper", "online", "table-1", "-o", "x"], "cannot be computed"),
        (["paper", "probe", "table-1", "-o", "launch"], "is not empty and holds no study"),
        (["bench", "nothing"], "unknown benchmark"),
        (["page", "launch", "-o", "x"], "has no PAPER-EXHIBIT.json"),
    ],
)
def test_user_errors_are_one_sentence(words, sentence, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and sentence in said and not Path("x").exists()


def test_commands_that_fail_or_take_too_long():
    with pytest.raises(CommandError, match="exit code 3: no luck") as caught:
        run_command([sys.executable, "-c", "import sys; print('hpcml: no luck', file=sys.stderr); sys.exit(3)"])
    assert caught.value.exit_code == 3
    with pytest.raises(CommandError, match=r"longer than 0\.5 s"):
        run_command(["sleep", "60"], timeout=0.5)


def test_a_signal_stops_the_laboratory_and_its_subprocess(tmp_path):
    code = (
        "import sys; from launch.lab.core.timing import run_command, stopping\n"
        f"with stopping(): run_command(['sh', '-c', 'echo $$ > {tmp_path}/pid; exec sleep 100'])"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL) as program:
        deadline = time.monotonic() + 60
        while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip()) and time.monotonic() < deadline:
            time.sleep(0.05)
        program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=30) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_gradient_of_the_walks_is_that_of_differences():
    X, rng = sp.random(40, 7, 0.5, "csr", random_state=1), np.random.default_rng(2)
    evaluate, w = walks.HingeObjective(X, np.where(rng.random(40) < 0.4, 1.0, -1.0), 0.1), rng.normal(size=7)
    f, g = evaluate(w)
    steps = [(evaluate(w + 1e-7 * np.eye(7)[j])[0] - f) / 1e-7 for j in range(7)]
    np.testing.assert_allclose(g, steps, atol=1e-5)
    traces = walks.walk(evaluate, 7, lambda _w: 0.0)
    assert all(
        b <= a for name in ("PROBE*", "IDEAL") for a, b in zip(traces[name]["distance"], traces[name]["distance"][1:], strict=False)
    )


def test_scores_of_features_are_those_of_scikit_learn():
    rng = np.random.default_rng(4)
    has, y = rng.random((60, 5)) < 0.3, rng.random(60) < 0.4
    counts = has[y].sum(axis=0), has.sum(axis=0), int(y.sum()), 60
    np.testing.assert_allclose(selection.information_gain(*counts), [mutual_info_score(has[:, j], y) for j in range(5)])
    assert selection.best(np.array([5.0, 1, 3, 4, 2]), np.array([1, 1, 1, 1, 0]) > 0, 3, 0.7).tolist() == [0, 1, 3]
