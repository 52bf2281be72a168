"""Type checkers, editors and `help`: real signatures, and errors where a call is wrong."""

import ast
import doctest
import importlib.util
import inspect
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hpcml
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.sources import SOURCES
from hpcml.errors import ConfigError
from hpcml.methods.registry import METHODS

TOP = Path(hpcml.__file__).parents[1]
RIGHT = """
from pathlib import Path
from typing import Any, Literal, assert_type

import numpy as np
from mpi4py import MPI

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
assert_type(trained.n_labels, int)
hpcml.train("dual", "docs.h5", "run", lam=0.1, positive_weight=4, label="sea", loss="logistic", max_gap=None, time_limit=60)
hpcml.train(method="probe", data=Path("docs.h5"), output="run", epsilon=0.01, bias=False, lam="0.1X/m", resume=True)
hpcml.train("elastic-net", "docs.h5", "run", path=["0.1N/m", 0.002], solver="newton", initial_model="other")
hpcml.train("romma", "docs.svm.gz", "run", zero_based=True, max_line_mb=64, voted=True)
assert_type(hpcml.train("mbw", "docs.h5", "run", final=True).error, float)
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
assert_type(hpcml.explain("run", label=["sea"]).labels[0].share(1.0), float)
assert_type(hpcml.explain("run", comm=MPI.COMM_WORLD), Explanation | None)  # on rank 0 alone
assert_type(hpcml.explain("run", "docs.h5", row="17", json="why.json"), WhyRows)
assert_type(hpcml.explain("run", "docs.h5", wrong=3, unlearnt=False), MostWrong)
assert_type(hpcml.evaluate("run", "docs.h5", measures=None), Evaluation)


def judge(measures: Literal["bioasq"] | None) -> Evaluation | BioasqEvaluation:
    return hpcml.evaluate("run", "docs.h5", measures=measures)


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
hpcml.train("dual", "docs.h5", "run").error
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
    assert len(signatures) == len(FUNCTIONS) == 16 and not any(re.search(r"\b(Any|Unknown)\b", line) for line in signatures), found


def test_names_are_listed():
    assert {"train", "DualClassifier", "__version__"} <= set(dir(hpcml)) >= set(hpcml.__all__)
    assert all(getattr(hpcml, name) is not None for name in hpcml.__all__)
    with pytest.raises(AttributeError, match="module 'hpcml' has no attribute 'trian'"):
        hpcml.trian  # noqa: B018


def overloads():
    """The functions of the stub."""
    found = {}
    for node in ast.parse((TOP / "hpcml" / "__init__.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def by_family(name):
    """The signature that the stub has for each method or source."""
    for node in overloads()[name]:
        for literal in ast.walk(node.args.args[0].annotation.slice):
            if isinstance(literal, ast.Constant):
                yield literal.value, node.args


def defaults(arguments):
    """The options of a signature with their defaults."""
    return {each.arg: ast.literal_eval(value) for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)}


def test_the_stub_is_up_to_date():
    spec = importlib.util.spec_from_file_location("stub", TOP / "launch" / "stub.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.STUB.read_text() == module.stub(), "the options have changed: python -m launch.stub"


def test_the_stub_has_the_options_of_each_method_and_source():
    shared = {"force": False, "resume": False, "comm": None, "log": None, "signals": None}
    methods = dict(by_family("train"))
    assert methods.keys() == METHODS.keys()
    for name, arguments in methods.items():
        assert [each.arg for each in arguments.args] == ["method", "data", "output"] and not arguments.defaults
        assert defaults(arguments) == vars(METHODS[name].options()) | shared
    sources = dict(by_family("convert"))
    assert sources.keys() == SOURCES.keys()
    for name, arguments in sources.items():
        own = {option: getattr(ConvertOptions(), option) for option in SOURCES[name].options}
        assert defaults(arguments) == own | {"force": False, "comm": None, "log": None}


def test_python_shows_the_options_of_all_methods():
    parameters = inspect.signature(hpcml.train).parameters
    assert [*parameters][:3] == ["method", "data", "output"]
    assert {option for method in METHODS.values() for option in method.option_names} < set(parameters)
    assert (parameters["dual_tol"].default, parameters["dual_tol"].annotation) == (0.1, "float")
    assert (parameters["lam"].default, parameters["lam"].annotation) == (..., "str | float")  # one of elastic-net's own
    assert parameters["label"].annotation == "str | Iterable[str] | None"
    text = " ".join(inspect.getdoc(hpcml.train).split())
    assert "dual_tol Of dual: Stopping tolerance for the range of the projected gradients, as in LIBLINEAR" in text
    assert "bias Of probe, dual, svmperf, liblinear: Fit an intercept" in text
    assert inspect.signature(hpcml.tune).parameters["folds"].default == 5
    assert "folds Parts of the training rows, at least 3; " in " ".join(inspect.getdoc(hpcml.tune).split())


def test_an_option_of_the_command_line_alone_is_none_for_python():
    with pytest.raises(ConfigError, match="dual has no option 'config'"):
        hpcml.train("dual", "docs.h5", "run", config="run.toml")


def test_help_fits_two_screens_and_begins_with_an_example_that_runs(tmp_path, monkeypatch):
    code = "import hpcml, sys; help(hpcml); print(*{'numpy', 'mpi4py', 'numba'} & set(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.split() == []
    lines = pydoc.render_doc(hpcml, renderer=pydoc.plaintext).rstrip().splitlines()
    assert lines[2:] == done.stdout.rstrip().splitlines()[2:]
    assert len(lines) <= 100 and max(map(len, lines)) <= 100
    assert lines[6].strip() == ">>> import hpcml"
    assert set(hpcml.__all__) - {"__version__"} <= set(re.findall(r"\w+", hpcml.__doc__))
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner()
    (example,) = doctest.DocTestFinder().find(hpcml, "hpcml", globs={}, extraglobs={})[:1]
    assert runner.run(example, out=None).failed == 0 and runner.tries > 5
    assert (tmp_path / "labels.csv").read_text().count("\n") > 10
