"""Naive Bayes on a GPU: on numba's simulator the CPU's numbers; without a device one sentence."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hpcml import mpi
from hpcml.errors import ConfigError
from hpcml.kernels import device
from hpcml.methods.psbml.options import PsbmlOptions
from hpcml.model import gpu_bayes
from hpcml.model.learner import LEARNERS, ON_GPU, _numbers, parse_learner

SCRIPT = Path(__file__).parents[2] / "support" / "gpu_on_simulator.py"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the script saw on the simulator, which must be chosen before numba.cuda is imported."""
    folder = tmp_path_factory.mktemp("gpu")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run([sys.executable, SCRIPT, folder], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "found.json").read_text())


@pytest.mark.more("kernels")
def test_rows_are_scored_as_by_the_cpu(found):
    assert len(found["differences"]) == 16
    for name, one in found["differences"].items():
        assert one["spread"] > 0.5, name  # so that there is something to compare
        assert one["confidence"] < 1e-12, name
        assert one["logs"] < 1e-12, name


@pytest.mark.more("kernels")
def test_models_are_those_of_the_cpu(found):
    for name, one in found["differences"].items():
        assert one["same_model"], name
        assert one["saved"] == name.split()[0], name
        assert one["same_scores"], name


@pytest.mark.more("kernels")
def test_every_kernel_ran(found):
    kernels = {name for name in ("density", "gaussian") for name in (f"{name}_dense", f"{name}_sparse")}
    assert set(found["launches"]) == kernels | {"gaps"}


@pytest.mark.more("kernels")
def test_a_run_selects_the_same_rows(found):
    assert sorted(found["runs"]) == ["gaussian-nb", "kernel-nb"]
    for run in found["runs"].values():
        assert run["length"] == 4
        assert run["cycles"][0] > 0  # so that rows were drawn
        assert run["same_rows"]
        assert run["cycles"][0] == run["cycles"][1]
        assert run["weights"] < 1e-6
        assert run["history"] < 1e-9


@pytest.mark.more("kernels")
def test_the_estimator_learns_on_the_device_what_scores_on_the_cpu(found):
    assert found["launches of estimators"] > 0
    assert len(found["estimators"]) == 2
    for one in found["estimators"].values():
        assert one["kinds"][0] == one["kinds"][1]
        assert one["same_rows"]
        assert one["same_scores"]


def test_no_device_is_one_sentence(monkeypatch):
    monkeypatch.setattr(device, "count", lambda: 0)
    with pytest.raises(ConfigError, match=r"^--device gpu: there is no CUDA device or driver on a node; remove it to use the CPU$"):
        gpu_bayes.choose_device(mpi.self_comm())


def test_no_package_is_one_sentence(monkeypatch):
    monkeypatch.delattr("hpcml.kernels.device")
    monkeypatch.setitem(sys.modules, "hpcml.kernels.device", None)
    with pytest.raises(ConfigError, match=r"^--device gpu: numba has no CUDA \(.*\); pip install 'hpcml\[gpu\]', or remove it$"):
        gpu_bayes.choose_device(mpi.self_comm())


@pytest.mark.parametrize(("place", "chosen"), [(0, 0), (1, 1), (2, 0), (3, 1)])
def test_ranks_share_the_devices_in_turn(monkeypatch, place, chosen):
    class Node:
        """Of a rank's place on it."""

        rank = place

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    numbers = []
    monkeypatch.setattr(device, "count", lambda: 2)
    monkeypatch.setattr(device, "HAS_PACKAGE", True)
    monkeypatch.setattr(device, "select", numbers.append)
    monkeypatch.setattr(mpi, "on_node", lambda _: Node())
    gpu_bayes.choose_device(mpi.self_comm())
    assert numbers == [chosen]


def test_what_the_device_refuses_is_one_sentence(monkeypatch):
    def refuse(number):
        raise device.ERRORS[1]("out of\nmemory")

    monkeypatch.setattr(device, "count", lambda: 1)
    monkeypatch.setattr(device, "HAS_PACKAGE", True)
    monkeypatch.setattr(device, "select", refuse)
    with pytest.raises(gpu_bayes.DataError, match=r"^--device gpu: the device refuses: out of memory; use fewer ranks"):
        gpu_bayes.choose_device(mpi.self_comm())


def test_numba_without_its_package_is_one_sentence(monkeypatch):
    """The numba.cuda that numba still contains has a device, but fails to compile."""
    monkeypatch.setattr(device, "count", lambda: 1)
    monkeypatch.setattr(device, "HAS_PACKAGE", False)
    with pytest.raises(
        ConfigError, match=r"^--device gpu: the package numba-cuda is not in use; pip install 'hpcml\[gpu\]', or remove"
    ):
        gpu_bayes.choose_device(mpi.self_comm())


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
def test_package_that_python_has_not_put_in_place_is_used(tmp_path, is_installed):
    """Of a site-packages that a .pth file adds, Python does not process the .pth file of numba-cuda."""
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


def test_what_cannot_be_compiled_is_one_sentence(monkeypatch):
    class Kernel:
        """Numba's answer to the first call with new types."""

        def __getitem__(self, _):
            return self

        def __call__(self, *_):
            raise TypeError("Signature mismatch: 2 argument types given,\nbut function takes 1 arguments")

    monkeypatch.setattr(device, "NAME", "numba-cuda 0.30.4")
    monkeypatch.setattr(device, "gaussian_dense", Kernel())
    monkeypatch.setattr(device, "to_device", lambda array: array)
    monkeypatch.setattr(device, "empty", lambda *shape: np.empty(shape))
    monkeypatch.setattr(device, "free_bytes", lambda: 1e9)
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 2
    classifier = gpu_bayes.GaussianDensitiesOnGpu().fit(X, y)
    expected = (
        "GPU scoring failed: numba-cuda 0.30.4 could not compile the kernel (Signature mismatch: 2 argument types given, "
        "but function takes 1 arguments); install hpcml[gpu] or use --device cpu"
    )
    for method in ("confidence", "predict_joint_log_proba"):
        with pytest.raises(gpu_bayes.DataError, match=f"^{re.escape(expected)}$"):
            _numbers(classifier, method, X)


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_only_naive_bayes_moves(name):
    learner = parse_learner([name])
    if LEARNERS[name].path in ON_GPU:
        assert type(learner.moved_to_gpu().unfitted(0)).__name__.endswith("OnGpu")
        assert not type(learner.unfitted(0)).__name__.endswith("OnGpu")
    else:
        with pytest.raises(ConfigError, match=rf"^--device gpu: {name} has nothing for a GPU, only gaussian-nb and kernel-nb have"):
            learner.moved_to_gpu()


def test_devices_have_names():
    with pytest.raises(ConfigError, match=r"^--device tpu: expected cpu or gpu$"):
        PsbmlOptions(device="tpu").validate()
