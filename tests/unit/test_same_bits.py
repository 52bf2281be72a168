"""Library functions whose bits depend on the processor (exp and others, sums of products) are not used for saved results.

`hpcml.kernels.elementary` and `elementwise` replace the functions; sums are loops, or numpy's sums of products.
"""

import ast
from pathlib import Path

import pytest

import hpcml

TOP = Path(hpcml.__file__).parent
FUNCTIONS = {"exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2", "pow", "power", "cbrt"}
FUNCTIONS |= {"sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "asin", "acos", "atan", "atan2", "hypot", "dist"}
FUNCTIONS |= {"float_power", "sinh", "cosh", "tanh", "erf", "erfc", "gamma", "lgamma", "geomspace", "logspace"}
PRODUCTS = {"dot", "vdot", "inner", "matmul", "tensordot", "einsum", "convolve", "correlate", "cov", "corrcoef", "interp"}
PRODUCTS |= {"polyfit", "linalg", "safe_sparse_dot", "sumprod"}
METHODS = {"dot", "vdot", "matmul", "tensordot", "einsum", "linalg", "safe_sparse_dot"}  # of any object
LIBRARIES = {"math", "np", "numpy", "cmath"}
PACKAGES = ("scipy.special", "scipy.stats", "scipy.optimize", "scipy.linalg", "scipy.integrate", "scipy.interpolate", "daqp")

SECONDS = "forecasts of seconds"
DEVICE = "functions of the GPU, whose last bits differ from the CPU's"
SHOWN = "only drawn or printed"
FOLDERS = {"planning": SECONDS}
EXCEPTIONS = {
    "crossval/table.py": {"scipy.stats": "p values of t-tests, which are only printed"},
    "crossval/problems.py": {"@": "whole numbers, which are exact in any order"},
    "evaluation/intervals.py": {"@": "whole numbers, which are exact in any order"},
    "evaluation/unlearnt.py": {"@": "whole numbers, which are exact in any order"},
    "kernels/__init__.py": {"scipy.linalg": "imported early, not used"},
    "kernels/device.py": dict.fromkeys(("math.exp", "math.log", "math.erfc"), DEVICE),
    "leave_one_out/decide.py": {"np.interp": "a loop without BLAS; saved thresholds are edges of cells"},
    "methods/bayes/estimator.py": {"@": "scores in memory, for scikit-learn"},
    "methods/linear/estimator.py": {"safe_sparse_dot": "scores in memory, for scikit-learn"},
    "methods/online/order.py": {"np.log2": SHOWN},
    "methods/online/estimator.py": {"safe_sparse_dot": "scores in memory, for scikit-learn"},
    "methods/svmperf/svmperf.py": {"daqp": "solves the quadratic program; there is no other solver"},
    "prediction/table.py": {"np.log10": "number of digits to try; the result is then compared"},
    "reporting/gather.py": {"np.log": SHOWN},
    "reporting/statistics.py": dict.fromkeys(("np.exp", "np.log"), SHOWN),
}


def dotted(node):
    if isinstance(node, ast.Name):
        return node.id
    return f"{before}.{node.attr}" if isinstance(node, ast.Attribute) and (before := dotted(node.value)) else ""


def is_exact(power, in_kernel):
    if isinstance(power, ast.AugAssign):
        return False
    base = power.left.operand if isinstance(power.left, ast.UnaryOp) else power.left
    if isinstance(base, ast.Constant) and base.value in (1, 2, 5, 10):
        return True
    return in_kernel and isinstance(power.right, ast.Constant) and power.right.value == 2


def find_uses(source, in_kernel=False):
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult | ast.Pow):
            if isinstance(node.op, ast.MatMult):
                found.add("@")
            elif not is_exact(node, in_kernel):
                found.add("**")
        elif isinstance(node, ast.Attribute):
            before = dotted(node.value)
            if before in LIBRARIES and node.attr in FUNCTIONS | PRODUCTS:
                found.add(f"{before}.{node.attr}")
            elif node.attr in METHODS:
                found.add(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            of = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules = [*of, *(".".join([*of, each.name]) for each in node.names)]
            found |= {package for package in PACKAGES for name in modules if f"{name}.".startswith(f"{package}.")}
            if of and of[0] in LIBRARIES:
                found |= {f"{of[0]}.{each.name}" for each in node.names if each.name in FUNCTIONS | PRODUCTS}
            elif of:
                found |= {each.name for each in node.names if each.name in PRODUCTS}
    return found


def test_library_functions_are_used_only_with_a_reason():
    found = {}
    for path in sorted(TOP.rglob("*.py")):
        name = path.relative_to(TOP).as_posix()
        if name.split("/")[0] not in FOLDERS and (used := find_uses(path.read_text(encoding="utf-8"), "kernels" in name)):
            found[name] = used
    assert found == {name: set(reasons) for name, reasons in EXCEPTIONS.items()}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from math import exp, sqrt", {"math.exp"}),
        ("import math\nf = math.pow", {"math.pow"}),
        ("w @= x", {"@"}),
        ("X.dot(w)", {"dot"}),
        ("np.linalg.norm(w)", {"np.linalg"}),
        ("from scipy import stats", {"scipy.stats"}),
        ("x**0.5", {"**"}),
        ("x **= 3", {"**"}),
        ("2.0**k + 10**k - (-1) ** k + math.sqrt(x) + elementwise.log(x)", set()),
    ],
)
def test_finds_each_kind_of_use(source, expected):
    assert find_uses(source) == expected
    assert find_uses("x**2 + y**3", in_kernel=True) == {"**"} != find_uses("x**2", in_kernel=True)
