"""The wheel and the source distribution have all files of the package and no others."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version
from support.repository import commit_all, git

import hpcml
from hpcml.version import COMMIT, NUMBER

PACKAGE = Path(hpcml.__file__).parent
FOLDERS = ("LICENSES", "docs", "launch", "packaging", "slurm", "tests")
TEXTS = [f"{name}.md" for name in ("CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "README", "SECURITY", "SUPPORT")]
FILES = (*TEXTS, "CITATION.cff", "LICENSE", "REUSE.toml", "codemeta.json", "mkdocs.yml", "requirements.lock")
BUILD = "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"


def build(folder, what=BUILD):
    built = subprocess.run([sys.executable, "-c", what], cwd=folder, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    assert "deprecated" not in built.stderr, built.stderr
    return folder / "dist"


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    pytest.importorskip("setuptools", minversion="77", reason="building needs setuptools 77 (pip install '.[test]')")
    clone, folder = PACKAGE.parent, tmp_path_factory.mktemp("clone")
    of_git = [name for name in (".gitattributes", ".gitignore") if (clone / name).exists()]  # not in a source distribution
    for name in [*FILES, "pyproject.toml", "MANIFEST.in", "setup.py", *of_git]:
        shutil.copy(clone / name, folder)
    for name in ("hpcml", *FOLDERS):
        shutil.copytree(clone / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
    git(folder, "init", "-q")
    commit_all(folder)
    return build(folder)


@pytest.fixture(scope="module")
def version(dist):
    if not COMMIT.startswith("$"):
        pytest.skip("these files are of a source distribution, whose commit is fixed")
    return f"{NUMBER}+g{git(dist.parent, 'rev-parse', 'HEAD')[:8]}"


def version_of(folder):
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import hpcml; print(hpcml.__version__)"
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_distributions_have_the_version_of_their_commit(dist, version, tmp_path):
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    assert str(Version(version)) == version
    assert [wheel.name, source.name] == [f"hpcml-{version}-py3-none-any.whl", f"hpcml-{version}.tar.gz"]
    assert "$Format" in (dist.parent / "hpcml" / "version.py").read_text()  # the source distribution has a hard link to it
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    assert version_of(tmp_path / "installed") == version_of(dist.parent) == version
    shutil.unpack_archive(source, tmp_path, filter="data")
    unpacked = tmp_path / f"hpcml-{version}"
    again = build(unpacked, "from setuptools import build_meta as b; b.build_wheel('dist')")
    assert [each.name for each in again.iterdir()] == [wheel.name]


def package_files():
    others = [
        PACKAGE / "__init__.pyi",
        PACKAGE / "py.typed",
        PACKAGE / "check" / "bits.json",
        *(PACKAGE / "reporting" / f"page.{kind}" for kind in ("html.j2", "css", "js")),
    ]
    others += [PACKAGE / "serving" / name for name in ("page.html", "page.css", "page.js", "openapi.json")]
    return {f"hpcml/{path.relative_to(PACKAGE).as_posix()}" for path in [*PACKAGE.rglob("*.py"), *others]}


def test_wheel_has_the_package_and_its_licence_only(dist):
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        about = f"{wheel.name.removesuffix('-py3-none-any.whl')}.dist-info"
        assert {name for name in archive.namelist() if not name.startswith(about)} == package_files()
        assert f"{about}/licenses/LICENSE" in archive.namelist()
        assert "hpcml = hpcml.__main__:main" in archive.read(f"{about}/entry_points.txt").decode()


def test_source_distribution_has_documentation_and_tests(dist):
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    clone = PACKAGE.parent
    files = {path.relative_to(clone).as_posix() for folder in FOLDERS for path in (clone / folder).rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name and not name.endswith((".h5", ".pyc"))}
    assert names >= package_files() | files | {*FILES, "pyproject.toml", "setup.py"}
    assert not [name for name in names if "__pycache__" in name]


def test_extra_all_has_every_extra_of_users_and_one_mpi():
    extras = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    own = set(re.fullmatch(r"hpcml\[(.*)\]", extras["all"][0])[1].split(","))
    assert own == set(extras) - {"all", "openmpi", "intel", "gpu", "bench", "docs", "test"}
