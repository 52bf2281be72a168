"""Folders and digests of compiled kernels."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numba
import numpy as np
import pytest

from hpcml.kernels.cache import _digest, cache_folder, sources_digest

NAME = f"hpcml-numba-{os.getuid()}"


@pytest.fixture
def places(tmp_path, monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    home, disk = tmp_path / "home", tmp_path / "disk"
    disk.mkdir(mode=0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(disk))
    return home, disk


def test_folder_at_home_and_on_the_disk_of_a_node(places, monkeypatch, tmp_path):
    home, disk = places
    assert cache_folder() == home / "hpcml" / "numba"
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert cache_folder() == disk / NAME and (disk / NAME).stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("SLURM_TMPDIR", str(tmp_path / "job"))
    assert cache_folder() == tmp_path / "job" / NAME


def test_skips_a_home_that_cannot_be_used(places, monkeypatch):
    home, disk = places
    home.write_text("a file")
    assert cache_folder() == disk / NAME
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache_folder() == disk / NAME and not Path("not").exists()
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)  # a user whom the system does not know
    assert cache_folder() == disk / NAME


@pytest.mark.parametrize("kind", ["link", "open folder", "below an open folder"])
def test_does_not_use_a_folder_that_others_can_write_to(places, monkeypatch, tmp_path, kind):
    folder = places[1] / NAME
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    if kind == "link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir(mode=0o700)
        (folder if kind == "open folder" else folder.parent).chmod(0o777)
    found = cache_folder()
    assert found != folder and found.parent == folder.parent and found.stat().st_mode & 0o777 == 0o700


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


def test_process_waits_for_a_kernel_that_another_one_compiles(tmp_path, monkeypatch):
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


def test_digest_covers_called_kernels_and_constants(tmp_path, monkeypatch):
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
