"""What a wheel and a source distribution hold: all of the package, and nothing besides."""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hpcml

PACKAGE = Path(hpcml.__file__).parent
BUILD = "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with a wheel and a source distribution, built from a copy of this clone."""
    pytest.importorskip("setuptools", minversion="77", reason="building needs setuptools 77 (pip install '.[test]')")
    clone, folder = PACKAGE.parent, tmp_path_factory.mktemp("clone")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(clone / name, folder)
    for name in ("hpcml", "tests"):
        shutil.copytree(clone / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
    built = subprocess.run([sys.executable, "-c", BUILD], cwd=folder, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    assert "deprecated" not in built.stderr, built.stderr
    return folder / "dist"


def package_files():
    others = [PACKAGE / "py.typed", *(PACKAGE / "reporting" / f"page.{kind}" for kind in ("html.j2", "css", "js"))]
    others += [PACKAGE / "serving" / f"page.{kind}" for kind in ("html", "css", "js")]
    return {f"hpcml/{path.relative_to(PACKAGE).as_posix()}" for path in [*PACKAGE.rglob("*.py"), *others]}


def test_a_wheel_holds_the_package_its_licence_and_no_tests(dist):
    (wheel,) = dist.glob("*.whl")
    assert wheel.name == f"hpcml-{hpcml.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        about = f"hpcml-{hpcml.__version__}.dist-info"
        assert {name for name in archive.namelist() if not name.startswith(about)} == package_files()
        assert f"{about}/licenses/LICENSE" in archive.namelist()
        assert "hpcml = hpcml.__main__:main" in archive.read(f"{about}/entry_points.txt").decode()


def test_a_source_distribution_holds_what_a_wheel_is_built_from_and_no_tests(dist):
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert names >= package_files() | {"pyproject.toml", "README.md", "LICENSE"}
    assert not [name for name in names if name.startswith("tests/")]
