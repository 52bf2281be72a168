"""Where compiled kernels are kept."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numba
import numpy as np
import pytest

import hpcml
from hpcml.kernels.cache import _digest, cache_folder, sources_digest

NAME = f"hpcml-numba-{os.getuid()}"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """A home's cache folder and a node's own disk; neither numba's nor Slurm's variables are set."""
    for name in ("SLURM_JOB_ID", "SLURM_TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    home, disk = tmp_path / "home", tmp_path / "disk"
    disk.mkdir(mode=0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(disk))
    return home, disk


def mode(folder):
    return folder.stat().st_mode & 0o777


def test_at_home_and_in_a_job_on_the_disk_of_the_node(places, monkeypatch, tmp_path):
    home, disk = places
    assert cache_folder() == home / "hpcml" / "numba"
    assert cache_folder() == home / "hpcml" / "numba"
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert cache_folder() == disk / NAME
    assert mode(disk / NAME) == 0o700
    monkeypatch.setenv("SLURM_TMPDIR", str(tmp_path / "job"))
    assert cache_folder() == tmp_path / "job" / NAME


def test_a_home_that_cannot_be_used_is_passed_over(places, monkeypatch):
    home, disk = places
    home.write_text("a file")
    assert cache_folder() == disk / NAME
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder() == disk / NAME
    assert not Path("not").exists()


@pytest.fixture
def nobody(monkeypatch):
    """A user without a home, and whom the system does not know."""

    def unknown(uid):
        raise KeyError(uid)

    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)


def test_a_user_without_a_home(places, nobody):
    assert cache_folder() == places[1] / NAME


def plant_link(place, elsewhere):
    elsewhere.mkdir()
    place.symlink_to(elsewhere)


def plant_open_folder(place, elsewhere):
    place.mkdir()
    place.chmod(0o777)


def plant_under_open_folder(place, elsewhere):
    place.mkdir(mode=0o700)
    place.parent.chmod(0o777)


@pytest.mark.parametrize("plant", [plant_link, plant_open_folder, plant_under_open_folder])
def test_what_others_can_write_to_is_not_used(places, monkeypatch, tmp_path, plant):
    """What numba keeps are pickles: who can write them can run code."""
    _, disk = places
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    plant(disk / NAME, tmp_path / "elsewhere")
    found = cache_folder()
    assert found != disk / NAME
    assert mode(found) == 0o700
    assert found.parent == disk


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a folder of another user")
def test_another_users_folder_is_not_used(places, monkeypatch):
    _, disk = places
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    (disk / NAME).mkdir(mode=0o700)
    os.chown(disk / NAME, 12345, 12345)
    assert cache_folder() != disk / NAME


KERNEL = """
import time
from hpcml.kernels import njit
def add(a, b):
    return a + b
kernel = njit(add)
def run():
    sleep = time.sleep
    time.sleep = lambda seconds: (print("waiting", flush=True), sleep(seconds))
    kernel(1, 2)
    print(sum(kernel.stats.cache_hits.values()), "taken")
"""


def test_a_process_takes_what_another_compiles_meanwhile(tmp_path, monkeypatch):
    (tmp_path / "summing.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    import summing

    other = numba.njit(summing.add, cache=True, error_model="numpy", nogil=True)  # keeps its forms in the same file
    summing.kernel(1.5, 2.5)
    other._cache._cache_file = summing.kernel._cache._cache_file
    (path,) = tmp_path.rglob("*.lock")
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        process = subprocess.Popen(
            [sys.executable, "-c", "import summing; summing.run()"], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "waiting\n"
        other(1, 2)
    assert process.communicate(timeout=120)[0].splitlines()[-1] == "1 taken"


SCALING = """
from constants import FACTOR
from hpcml.kernels import njit
@njit
def kernel(a):
    return a * FACTOR
def run():
    print(kernel(1), sum(kernel.stats.cache_hits.values()), "taken")
"""


def test_a_kernel_is_compiled_again_for_a_constant_of_another_module(tmp_path):
    (tmp_path / "scaling.py").write_text(SCALING)
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", "import scaling; scaling.run()"]
    for factor, taken in ((2, 0), (2, 1), (3, 0)):
        (tmp_path / "constants.py").write_text(f"FACTOR = {factor}")
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True, timeout=120)
        assert done.stdout == f"{factor} {taken} taken\n"


def test_kernels_are_of_the_sources_of_what_they_call(tmp_path, monkeypatch):
    modules, digests = [], []
    for name in ("hpcml.one_kernels", "hpcml.two_kernels", "hpcml.other", "hpcml.losses.three"):
        module = ModuleType(name)
        module.__file__ = str(tmp_path / name)
        Path(module.__file__).write_text(name)
        monkeypatch.setitem(sys.modules, name, module)
        modules.append(module)
    one, two, other, three = modules
    one.call, one.named, two.call_back, two.listed = SimpleNamespace(__module__=two.__name__), other, one, [three]

    def digest():
        sources_digest.cache_clear()
        _digest.cache_clear()
        return sources_digest(one.__name__)

    digests.append(digest())
    Path(other.__file__).write_text("changed")
    assert digest() == digests[-1]  # it has no kernels
    Path(two.__file__).write_text("changed")
    digests.append(digest())
    Path(three.__file__).write_text("changed")  # in a list of modules
    digests.append(digest())
    two.CONSTANT = 1.5
    digests.append(digest())
    one.TABLE = np.zeros(3)
    digests.append(digest())
    assert len(set(digests)) == 5


IN_A_COPY = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from hpcml.kernels import elementwise
assert elementwise.__file__.startswith(sys.argv[1])
elementwise.exp(np.zeros(3))
"""


def test_a_copy_of_the_package_in_another_folder_compiles_nothing(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    kept = []
    for name in ("one", "two"):
        shutil.copytree(Path(hpcml.__file__).parent, tmp_path / name / "hpcml", ignore=shutil.ignore_patterns("__pycache__"))
        command = [sys.executable, "-c", IN_A_COPY, str(tmp_path / name)]
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        kept.append({(path, path.stat().st_mtime_ns) for path in (tmp_path / "kept").rglob("*.nbc")})
    assert kept[0]
    assert kept[1] == kept[0]


OF_A_CLASS = """
from typing import NamedTuple
import numpy as np
from hpcml.kernels import njit
class NAME(NamedTuple):
    values: np.ndarray
@njit
def total(some):
    return some.values.sum()
print(total(NAME(np.arange(4.0))), sum(total.stats.cache_hits.values()))
"""


def test_a_kept_kernel_of_a_class_that_has_another_name_now_is_compiled_anew(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "PYTHONDONTWRITEBYTECODE": "1"}
    module, said = tmp_path / "module.py", []
    for name in ("First", "First", "Other", "Other"):
        module.write_text(OF_A_CLASS.replace("NAME", name))
        os.utime(module, (1e9, 1e9))  # numba goes by the time and the size of the file
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import module"]
        said.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split())
    assert said == [["6.0", "0"], ["6.0", "1"], ["6.0", "0"], ["6.0", "1"]]
