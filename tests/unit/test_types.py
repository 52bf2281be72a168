"""Type checkers, editors and `help` see the real signatures, and report wrong calls."""

import ast
import importlib.util
import inspect
import os
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
from typing import assert_type

import numpy as np
from mpi4py import MPI

import hpcml
from hpcml.conversion.convert import ConvertReport
from hpcml.evaluation.bioasq import BioasqEvaluation
from hpcml.evaluation.evaluate import Evaluation
from hpcml.evaluation.explain import Explanation, WhyRows
from hpcml.evaluation.unlearnt import Learnability
from hpcml.tuning.tune import TuneReport

assert_type(hpcml.convert("jsonl", [Path("docs.jsonl")], "docs.h5", min_df=2, fields=["title=T", "text=A"]), ConvertReport)
trained = hpcml.train("dual", "docs.h5", Path("run"), label=["sea"], lam=0.1, dual_tol=0.01, show_gaps=True, force=True)
assert_type(trained.model, Path)
assert_type(hpcml.train("mbw", "docs.h5", "run", final=True).error, float)
hpcml.train("psbml", "docs.h5", "run", base=("tree", "max_depth=5"), grid="2x2", judge="auc", label="sea")
assert_type(hpcml.tune("docs.h5", "tuned", folds=3, lambdas=np.logspace(-2, 2, 5), weights=(1, 4), by="f1"), TuneReport)
assert_type(hpcml.evaluate("run", "docs.h5", labels=range(3), csv="a.csv"), Evaluation)
assert_type(hpcml.evaluate("run", "docs.h5", measures="bioasq", descriptors="desc.xml"), BioasqEvaluation)
assert_type(hpcml.predict(hpcml.open_model("run"), "docs.h5", "out.csv", top=3), Path)
assert_type(hpcml.explain("run", comm=MPI.COMM_WORLD), Explanation | None)
assert_type(hpcml.explain("run", "docs.h5", row="17", json="why.json"), WhyRows)
assert_type(hpcml.explain("run", "docs.h5", unlearnt=True), Learnability)
assert_type(hpcml.cross_validate(["dual"], ["docs.h5"], folds=3, seed=1), hpcml.CrossValidation)
with hpcml.Dataset.from_sparse([[1.0]], [["sea"]], "rows.h5", label_names=["sea"], test_share=0.2) as data:
    assert_type(data, hpcml.Dataset)
rows, classes = [[0.0], [1.0]], ["no", "yes"]
assert_type(hpcml.DualClassifier(loss="hinge", lam=0.1).fit(rows, classes), hpcml.DualClassifier)
assert_type(hpcml.OnlineClassifier("mbw").partial_fit(rows, classes, classes=classes), hpcml.OnlineClassifier)
"""

# Every line but the first is wrong.
WRONG = """import hpcml
from hpcml import Dual
hpcml.trian
hpcml.train("dual", "docs.h5")
hpcml.train("dual", "docs.h5", "run", dual_toll=3)
hpcml.train("dual", "docs.h5", "run", dual_tol="0.1")
hpcml.train("dula", "docs.h5", "run")
hpcml.train("dual", "docs.h5", "run", True)
hpcml.train("dual", "docs.h5", "run").error
hpcml.tune("docs.h5", "run", lambdas=["0.1"])
hpcml.evaluate("run", "docs.h5", "test")
hpcml.evaluate("run", "docs.h5", measures="bioasq").macro("f1")
hpcml.predict("run", "docs.h5", "out.csv", top="3")
hpcml.convert("cvs", "docs.csv", "docs.h5")
hpcml.convert("jsonl", "docs.jsonl", "docs.h5", delimiter=";")
hpcml.explain("run", "docs.h5", row=["1"], unlearnt=True)
hpcml.calibrate("run")
hpcml.Dataset.from_sparse([[1.0]], [1])
hpcml.DualClassifier(lamb=1.0)
"""

CHECKERS = {"mypy": ("--strict", "--cache-dir=cache"), "pyright": ()}


@pytest.mark.more("types")
@pytest.mark.parametrize("checker", CHECKERS)
def test_type_checker_accepts_right_and_reports_wrong_calls(checker, tmp_path):
    pytest.importorskip(checker, reason=f"{checker} is missing (pip install 'hpcml[test]')")
    functions = [name for name in hpcml.__all__ if name.islower() and not name.startswith("_")]
    revealed = "import hpcml\n" + "".join(f"reveal_type(hpcml.{name})\n" for name in functions)
    for name, text in (("right", RIGHT), ("wrong", WRONG), ("revealed", revealed)):
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "site").mkdir()  # the package as if it were installed
    (tmp_path / "site" / "hpcml").symlink_to(Path(hpcml.__file__).parent)
    command = [sys.executable, "-m", checker, *CHECKERS[checker], "right.py", "wrong.py", "revealed.py"]
    environment = {**os.environ, "PYTHONPATH": "site"}
    printed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240).stdout
    errors = re.findall(r"(\w+)\.py:(\d+):.*?error: ", printed)
    assert {int(line) for name, line in errors if name == "wrong"} == set(range(2, WRONG.count("\n") + 1)), printed
    assert {name for name, _ in errors} == {"wrong"}, printed
    signatures = [line for line in printed.splitlines() if re.search(r"revealed\.py:\d", line)]
    assert len(signatures) == len(functions) and not any(re.search(r"\b(Any|Unknown)\b", line) for line in signatures), printed


def test_lists_its_names():
    assert {"train", "DualClassifier", "__version__"} <= set(dir(hpcml)) >= set(hpcml.__all__)
    assert set(hpcml.__all__) - {"__version__"} <= set(re.findall(r"\w+", hpcml.__doc__))
    with pytest.raises(AttributeError):
        hpcml.trian  # noqa: B018


def read_signatures(name):
    for node in ast.parse((TOP / "hpcml" / "__init__.pyi").read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            for literal in ast.walk(node.args.args[0].annotation.slice):
                if isinstance(literal, ast.Constant):
                    yield literal.value, node.args


def read_defaults(arguments):
    return {each.arg: ast.literal_eval(value) for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)}


def test_stub_is_up_to_date():
    spec = importlib.util.spec_from_file_location("stub", TOP / "launch" / "stub.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.STUB.read_text() == module.stub(), "the options have changed: python -m launch.stub"


def test_stub_has_the_options_of_each_method_and_source():
    shared = {"force": False, "resume": False, "comm": None, "log": None, "signals": None}
    methods = dict(read_signatures("train"))
    assert methods.keys() == METHODS.keys()
    for name, arguments in methods.items():
        assert [each.arg for each in arguments.args] == ["method", "data", "output"] and not arguments.defaults
        assert read_defaults(arguments) == vars(METHODS[name].options()) | shared
    sources = dict(read_signatures("convert"))
    assert sources.keys() == SOURCES.keys()
    for name, arguments in sources.items():
        own = {option: getattr(ConvertOptions(), option) for option in SOURCES[name].options}
        assert read_defaults(arguments) == own | {"force": False, "comm": None, "log": None}


def test_signature_has_the_options_of_all_methods():
    parameters = inspect.signature(hpcml.train).parameters
    assert [*parameters][:3] == ["method", "data", "output"]
    assert {option for method in METHODS.values() for option in method.option_names} < set(parameters)
    assert (parameters["dual_tol"].default, parameters["dual_tol"].annotation) == (0.1, "float")
    assert (parameters["lam"].default, parameters["lam"].annotation) == (..., "str | float")  # elastic-net has another default
    assert parameters["label"].annotation == "str | Iterable[str] | None"
    assert inspect.signature(hpcml.tune).parameters["folds"].default == 5
    with pytest.raises(ConfigError, match="'config'"):  # a flag without a parameter
        hpcml.train("dual", "docs.h5", "run", config="run.toml")


def test_help_is_short_and_imports_no_library():
    code = "import hpcml, sys; help(hpcml); print(*{'numpy', 'mpi4py', 'numba'} & set(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.rstrip().splitlines()
    assert done.stderr.split() == [] and len(lines) <= 100 and max(map(len, lines)) <= 120
