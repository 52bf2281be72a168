"""Instructions of all kernels for ARM and x86: only explicit operations are fused, and none may be reordered."""

import numba
import numpy as np
import pytest
from support.instructions import PROCESSORS, compiled, flags, fused, library_functions
from support.methods import options_of, small_data
from support.training import train

import hpcml

TRAININGS = [
    *(("dual", options_of("dual", way)) for way in range(3)),
    *(("probe", options_of("probe", way)) for way in (0, 2)),
    *(("elastic-net", options_of("elastic-net", way)) for way in range(3)),
    *((name, {"voted": voted}) for name in ("pw", "mbw", "pa", "romma") for voted in (False, True)),
    *((name, {}) for name in ("bernoulli-nb", "boosted-bayes", "staged-bayes", "svmperf")),
    *(("psbml", {"label": "label3", "base": (base,), "grid": "2x1", "cycles": 1}) for base in ("kernel-nb", "gaussian-nb", "tree")),
]
# Functions whose bits are not the same on every processor, and that kernels still call; the last in numba's texts of whole numbers.
LEFT = {"llvm.log10"}


def _multiply_and_add(x, y, z):
    """x y + z, of which a compiler may make one instruction that rounds once."""
    for i in range(x.size):
        z[i] = x[i] * y[i] + z[i]


def _exponential(x, y, z):
    """A function of a library, twice: of floats of either width."""
    for i in range(x.size):
        z[i] = np.exp(x[i]) + np.expm1(y[i])


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The modules of all kernels that trainings and measures need."""
    folder = tmp_path_factory.mktemp("instructions")
    data = small_data(folder / "data.h5")
    models = [train(name, None, data, folder / f"{number}", options).model for number, (name, options) in enumerate(TRAININGS)]
    for model in (models[0], models[-1]):
        hpcml.evaluate(model, data, split="test")
    hpcml.threshold(models[0], data, "label", split="train")
    hpcml.calibrate(models[0], data, split="train")
    hpcml.predict(models[0], data, folder / "probabilities.h5")
    (folder / "rows.svm").write_text("1 1:0.5 3:1e-3\n0 2:7\n")
    hpcml.convert("svmlight", [folder / "rows.svm"], folder / "rows.h5")
    return compiled()


def made(function, **options):
    """The module of a kernel of three arrays."""
    kernel = numba.njit(function, error_model="numpy", **options)  # not kept: kept forms do not know of options
    kernel(np.ones(8), np.ones(8), np.ones(8))
    (module,) = compiled(kernel).values()
    return module


@pytest.mark.more("kernels")
def test_nothing_may_be_fused_or_reordered(kernels):
    assert len(kernels) > 80
    assert {name: found for name, module in kernels.items() if (found := flags(module))} == {}


@pytest.mark.more("kernels")
@pytest.mark.parametrize("processor", ["ARM", "x86"])
def test_only_explicit_operations_are_fused(kernels, processor):
    counts = {name: fused(module, processor) for name, module in kernels.items()}
    assert {name: (found, written) for name, (found, written) in counts.items() if found > written} == {}
    assert sum(found for found, _ in counts.values()) > 300  # and the search finds those that are


@pytest.mark.more("kernels")
def test_functions_of_libraries(kernels):
    assert set().union(*map(library_functions, kernels.values())) <= LEFT


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize(("options", "is_fused"), [({}, False), ({"fastmath": True}, True), ({"fastmath": {"contract"}}, True)])
def test_the_search_finds_what_is_fused(options, is_fused, processor):
    module = made(_multiply_and_add, **options)
    found, written = fused(module, processor)
    assert (written, found > 0, bool(flags(module))) == (0, is_fused, is_fused)


def test_the_search_finds_functions_of_libraries():
    assert library_functions(made(_exponential)) == {"llvm.exp", "expm1"}
    assert library_functions(made(_multiply_and_add)) == set()
