"""What programs that check types see of the package: real signatures, and errors where a call is wrong."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hpcml

RIGHT = """
from pathlib import Path
from typing import Any, Literal, assert_type

import numpy as np

import hpcml
from hpcml.conversion.convert import ConvertReport
from hpcml.evaluation.bioasq import BioasqEvaluation
from hpcml.evaluation.evaluate import Evaluation
from hpcml.evaluation.explain import Explanation, WhyRows
from hpcml.evaluation.unlearnt import Learnability
from hpcml.evaluation.wrong import MostWrong
from hpcml.tuning.tune import TuneReport

assert_type(hpcml.convert("jsonl", [Path("docs.jsonl")], "docs.h5", min_df=2, fields=["title=T", "text=A"]), ConvertReport)
assert_type(hpcml.convert("csv", ("a.csv", "b.csv"), Path("docs.h5"), text="title", labels=["topic"], test_share=0.2).rows, int)
hpcml.convert("synthetic", "text", "docs.h5", rows=400, features=60, labels=3, seed=1, force=True)
hpcml.convert("docstrings", (), "docs.h5", like=Path("first.h5"), new_labels=True)
hpcml.convert("pubmed", ["1.xml.gz", "2.xml.gz"], "docs.h5", test_years=[2019, "2021-"], descriptors="desc.xml")
trained = hpcml.train("dual", "docs.h5", Path("run"), label=["sea"], dual_tol=0.01, show_gaps=True, force=True)
assert_type(trained.model, Path)
hpcml.train("dual", "docs.h5", "run", lam=0.1, positive_weight=4, label="sea", loss="logistic", max_gap=None, time_limit=60)
hpcml.train(method="probe", data=Path("docs.h5"), output="run", epsilon=0.01, bias=False, lam="0.1X/m", resume=True)
hpcml.train("elastic-net", "docs.h5", "run", path=["0.1N/m", 0.002], solver="newton", initial_model="other")
hpcml.train("romma", "docs.svm.gz", "run", zero_based=True, max_line_mb=64, voted=True)
hpcml.train("psbml", "docs.h5", "run", base=("tree", "max_depth=5"), grid="2x2", judge="auc", label="sea")
learners: list[Literal["mbw", "pa"]] = ["mbw", "pa"]
for learner in learners:
    hpcml.train(learner, "docs.h5", learner, shuffle=True)
options: dict[str, Any] = {"dual_tol": 0.01}
hpcml.train("dual", "docs.h5", "run", **options)
assert_type(hpcml.tune("docs.h5", "tuned", folds=3, lambdas=[0.5, 1.0], method="probe"), TuneReport)
hpcml.tune("docs.h5", "tuned", lambdas=np.logspace(-2, 2, 5), weights=(1, 4), by="f1", one=True)
assert_type(hpcml.retrain("run", "docs.h5", "again").model, Path)
assert_type(hpcml.evaluate(trained.model, "docs.h5", split="test").macro("average_precision"), float)
assert_type(hpcml.evaluate("run", "docs.h5", labels=range(3), csv="a.csv"), Evaluation)
assert_type(hpcml.evaluate("run", "docs.h5", measures="bioasq", descriptors="desc.xml"), BioasqEvaluation)
assert_type(hpcml.predict(hpcml.open_model("run"), "docs.h5", "out.csv", top=3), Path)
assert_type(hpcml.report(["run"], "page.html"), Path)
assert_type(hpcml.threshold("run", "docs.h5", "label", method="half").found.thresholds, np.ndarray)
print(hpcml.calibrate("run", "docs.h5", split="valid"))
assert_type(hpcml.explain("run", label=["sea"]), Explanation | None)
assert_type(hpcml.explain("run", "docs.h5", row="17", json="why.json"), WhyRows)
assert_type(hpcml.explain("run", "docs.h5", wrong=3), MostWrong)
assert_type(hpcml.explain("run", "docs.h5", unlearnt=True), Learnability)
assert_type(hpcml.duplicates("docs.h5", similarity=0.9).n_pairs, int)
assert_type(hpcml.cross_validate(["dual"], ["docs.h5"], folds=3, seed=1), hpcml.CrossValidation)
with hpcml.Dataset.from_sparse([[1.0]], [["sea"]], "rows.h5", label_names=["sea"], test_share=0.2) as data:
    assert_type(data, hpcml.Dataset)
rows, classes = [[0.0], [1.0]], ["no", "yes"]
assert_type(hpcml.BoostedBayesClassifier(rounds=3).fit(rows, classes), hpcml.BoostedBayesClassifier)
assert_type(hpcml.DualClassifier(loss="hinge", lam=0.1).fit(rows, classes), hpcml.DualClassifier)
assert_type(hpcml.ElasticNetClassifier(l1="0.1/m").fit(rows, classes), hpcml.ElasticNetClassifier)
assert_type(hpcml.KernelNB().fit(rows, classes, [1.0, 2.0]), hpcml.KernelNB)
assert_type(hpcml.BernoulliNBClassifier().fit(rows, classes), hpcml.BernoulliNBClassifier)
assert_type(hpcml.OnlineClassifier("mbw").partial_fit(rows, classes, classes=classes), hpcml.OnlineClassifier)
assert_type(hpcml.ProbeClassifier(epsilon=0.1).fit(rows, classes), hpcml.ProbeClassifier)
assert_type(hpcml.PsbmlClassifier("tree", grid="2x1").fit(rows, classes), hpcml.PsbmlClassifier)
assert_type(hpcml.StagedBayesClassifier().fit(rows, classes), hpcml.StagedBayesClassifier)
assert_type(hpcml.StagedSvmClassifier(svm_c=2.0).fit(rows, classes), hpcml.StagedSvmClassifier)
"""

# Every line but the first is wrong.
WRONG = """import hpcml
from hpcml import Dual
hpcml.trian
hpcml.train(1, 2, 3)
hpcml.train("dual", "docs.h5")
hpcml.train("dual", "docs.h5", "run", dual_toll=3)
hpcml.train("dual", "docs.h5", "run", dual_tol="0.1")
hpcml.train("dual", "docs.h5", "run", epsilon=0.1)
hpcml.train("dula", "docs.h5", "run")
hpcml.train("dual", "docs.h5", "run", loss="huber")
hpcml.train("dual", "docs.h5", "run", True)
hpcml.train("dual", "docs.h5", output="run", data="docs.h5")
hpcml.train("dual", "docs.h5", "run", {"label": ["sea"]})
hpcml.train("dual", "docs.h5", "run", label=object())
hpcml.train("dual", "docs.h5", "run", config="run.toml")
hpcml.train("elastic-net", "docs.h5", "run", bias=False)
hpcml.train("romma", "docs.h5", "run", gamma=0.2)
hpcml.train("dual", "docs.h5", "run").modl
hpcml.tune("docs.h5")
hpcml.tune("docs.h5", "run", lambdas=["0.1"])
hpcml.tune("docs.h5", "run", by="ndcg")
hpcml.retrain("run", "docs.h5", "again", dual_tol=0.1)
hpcml.evaluate("run", "docs.h5", splt="test")
hpcml.evaluate("run", "docs.h5", "test")
hpcml.evaluate("run", "docs.h5").macr("f1")
hpcml.evaluate("run", "docs.h5", measures="bioasq").macro("f1")
hpcml.evaluate("run", "docs.h5", measures="bioask")
hpcml.predict("run", "docs.h5", "out.csv", top="3")
hpcml.predict("run", "docs.h5", "out.csv").rows
hpcml.convert("csv", "docs.csv", "docs.h5", {"labels": ["topic"]})
hpcml.convert("csv", 3, "docs.h5")
hpcml.convert("cvs", "docs.csv", "docs.h5")
hpcml.convert("jsonl", "docs.jsonl", "docs.h5", delimiter=";")
hpcml.convert("csv", "docs.csv", "docs.h5", test_share="20%")
hpcml.threshold("run", "docs.h5")
hpcml.threshold("run", "docs.h5", "labels")
hpcml.explain("run", "docs.h5", wrong=3).as_dct()
hpcml.explain("run", "docs.h5", wrong="3")
hpcml.explain("run", "docs.h5", row=["1"], unlearnt=True)
hpcml.duplicates("docs.h5", similarity="high")
hpcml.calibrate("run")
hpcml.report("run", "page.html", datas="docs.h5")
hpcml.cross_validate(["dual"], ["docs.h5"], fold=3)
hpcml.Dataset("docs.h5", "r")
hpcml.Dataset.from_sparse([[1.0]], [1])
hpcml.BoostedBayesClassifier(rounds="many")
hpcml.DualClassifier(lamb=1.0)
hpcml.ElasticNetClassifier(max_gap="small")
hpcml.KernelNB().fit([[1.0]])
hpcml.BernoulliNBClassifier(nonsense=1)
hpcml.OnlineClassifier(method=1)
hpcml.ProbeClassifier(epsilon="x")
hpcml.PsbmlClassifier(cycles="3")
hpcml.StagedBayesClassifier(stages="two")
hpcml.StagedSvmClassifier(svm_c=[1])
"""

FUNCTIONS = [name for name in dir(hpcml) if name in hpcml.__all__ and name.islower() and not name.startswith("_")]
REVEALED = "import hpcml\n" + "".join(f"reveal_type(hpcml.{name})\n" for name in FUNCTIONS)
CHECKERS = {"mypy": ("--strict", "--cache-dir=cache"), "pyright": ()}


@pytest.fixture
def client(tmp_path):
    """A folder with the programs, and one with the package as if it were installed."""
    for name, text in (("right", RIGHT), ("wrong", WRONG), ("revealed", REVEALED)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "hpcml").symlink_to(Path(hpcml.__file__).parent)
    return tmp_path


@pytest.mark.more("types")
@pytest.mark.parametrize("checker", CHECKERS)
def test_a_program_that_uses_the_package_is_checked(checker, client):
    pytest.importorskip(checker, reason=f"{checker} is missing (pip install 'hpcml[test]')")
    command = [sys.executable, "-m", checker, *CHECKERS[checker], "right.py", "wrong.py", "revealed.py"]
    found = subprocess.run(
        command, cwd=client, env={**os.environ, "PYTHONPATH": "site"}, capture_output=True, text=True, timeout=240
    ).stdout
    errors = re.findall(r"(\w+)\.py:(\d+):.*?error: ", found)
    assert {int(line) for name, line in errors if name == "wrong"} == set(range(2, WRONG.count("\n") + 1)), found
    assert {name for name, _ in errors} == {"wrong"}, found
    signatures = [line for line in found.splitlines() if re.search(r"revealed\.py:\d", line)]
    assert len(signatures) == len(FUNCTIONS) == 14 and not any(re.search(r"\b(Any|Unknown)\b", line) for line in signatures), found


def test_names_are_listed():
    assert {"train", "DualClassifier", "__version__"} <= set(dir(hpcml)) >= set(hpcml.__all__)
    assert all(getattr(hpcml, name) is not None for name in hpcml.__all__)
    with pytest.raises(AttributeError, match="module 'hpcml' has no attribute 'trian'"):
        hpcml.trian  # noqa: B018
