"""Naive Bayes on a GPU: equal to the CPU on numba's simulator; errors without a device."""

import importlib.util
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hpcml import mpi
from hpcml.errors import HpcmlError
from hpcml.kernels import device
from hpcml.model import gpu_bayes
from hpcml.model.learner import _numbers

SCRIPT = Path(__file__).parents[2] / "support" / "gpu_on_simulator.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, SCRIPT, folder], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text())


@pytest.mark.more("kernels")
def test_models_and_scores_equal_the_cpu(found):
    assert len(found["differences"]) == 16
    for name, one in found["differences"].items():
        assert one["spread"] > 0.5, name  # the values differ enough to compare them
        assert one["confidence"] < 1e-12 and one["logs"] < 1e-12, name
        assert one["same_model"] and one["same_scores"] and one["saved"] == name.split()[0], name
    assert set(found["launches"]) == {"add_dense", "add_sparse", "gaps"}


@pytest.mark.more("kernels")
def test_runs_select_the_same_rows(found):
    assert sorted(found["runs"]) == ["gaussian-nb", "kernel-nb"]
    for run in found["runs"].values():
        assert run["length"] == 4
        assert run["cycles"][0] > 0  # rows were drawn
        assert run["same_rows"]
        assert run["cycles"][0] == run["cycles"][1]
        assert run["weights"] < 1e-6
        assert run["history"] < 1e-9


@pytest.mark.more("kernels")
def test_estimator_trained_on_the_device_scores_on_the_cpu(found):
    assert found["launches of estimators"] > 0
    assert len(found["estimators"]) == 2
    for one in found["estimators"].values():
        assert one["kinds"][0] == one["kinds"][1]
        assert one["same_rows"]
        assert one["same_scores"]


def refuse(number):
    raise device.ERRORS[1]("out of\nmemory")


@pytest.mark.parametrize(
    ("count", "has_package", "select", "error"),
    [(0, True, print, "no CUDA device"), (1, False, print, "numba-cuda"), (1, True, refuse, "out of memory")],
)
def test_rejects_unusable_devices(monkeypatch, count, has_package, select, error):
    monkeypatch.setattr(device, "count", lambda: count)
    monkeypatch.setattr(device, "HAS_PACKAGE", has_package)
    monkeypatch.setattr(device, "select", select)
    with pytest.raises(HpcmlError, match=rf"^[^\n]*{error}[^\n]*$"):
        gpu_bayes.choose_device(mpi.self_comm())


def test_ranks_share_the_devices_round_robin(monkeypatch):
    numbers = []
    monkeypatch.setattr(device, "count", lambda: 2)
    monkeypatch.setattr(device, "HAS_PACKAGE", True)
    monkeypatch.setattr(device, "select", numbers.append)
    for rank in range(4):
        monkeypatch.setattr(mpi, "on_node", lambda _, rank=rank: nullcontext(SimpleNamespace(rank=rank)))
        gpu_bayes.choose_device(mpi.self_comm())
    assert numbers == [0, 1, 0, 1]


PACKAGE = {
    "_numba_cuda_redirector.py": "import numba\nnumba.__path__.insert(0, {folder!r} + '/numba_cuda/numba')\n",
    "numba_cuda/__init__.py": "__version__ = '0.30.4'\n",
    "numba_cuda/numba/cuda/__init__.py": "gpus = ()\nis_available = bool\n"
    "def jit(function=None, **_):\n    return function or (lambda function: function)\n",
    "numba_cuda/numba/cuda/cudadrv/__init__.py": "",
    "numba_cuda/numba/cuda/cudadrv/driver.py": "class CudaAPIError(Exception): ...\n",
    "numba_cuda/numba/cuda/cudadrv/error.py": "class CudaSupportError(ImportError): ...\n",
}


@pytest.mark.parametrize("is_installed", [True, False])
def test_finds_numba_cuda_without_its_pth_file(tmp_path, is_installed):
    """Python does not process the .pth file of numba-cuda in a site-packages that itself is added by a .pth file."""
    for name, text in PACKAGE.items() if is_installed else ():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text.format(folder=str(tmp_path)))
    code = (
        "import sys; sys.path.append(sys.argv[1])\nfrom hpcml.kernels import device as d; print(d.NAME, d.HAS_PACKAGE, d.count())"
    )
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "0"}
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=100)
    expected = "numba-cuda 0.30.4 True 0" if is_installed else "numba False 0"
    if not is_installed and importlib.util.find_spec("numba_cuda"):
        pytest.skip("numba-cuda is installed")
    assert done.stdout.strip() == expected, done.stderr


def test_reports_compilation_errors(monkeypatch):
    class Kernel:
        def __getitem__(self, _):
            return self

        def __call__(self, *_):
            raise TypeError("Signature mismatch: 2 argument types given,\nbut function takes 1 arguments")

    monkeypatch.setattr(device, "NAME", "numba-cuda 0.30.4")
    monkeypatch.setattr(device, "GAUSSIAN", (Kernel(), Kernel()))
    monkeypatch.setattr(device, "to_device", lambda array: array)
    monkeypatch.setattr(device, "empty", lambda *shape: np.empty(shape))
    monkeypatch.setattr(device, "free_bytes", lambda: 1e9)
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    classifier = gpu_bayes.GaussianDensitiesOnGpu().fit(X, y)
    for method in ("confidence", "predict_joint_log_proba"):
        with pytest.raises(gpu_bayes.DataError, match=r"^[^\n]*numba-cuda 0\.30\.4[^\n]*Signature mismatch[^\n]*$"):
            _numbers(classifier, method, X)
