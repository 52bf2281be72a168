"""What a wheel and a source distribution hold: all of the package, and nothing besides."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import hpcml

PACKAGE = Path(hpcml.__file__).parent
FOLDERS = ("LICENSES", "docs", "launch", "packaging", "slurm", "tests")
TEXTS = [f"{name}.md" for name in ("CHANGELOG", "CODE_OF_CONDUCT", "CONTRIBUTING", "README", "SECURITY", "SUPPORT")]
FILES = (*TEXTS, "CITATION.cff", "LICENSE", "REUSE.toml", "codemeta.json", "mkdocs.yml", "requirements.lock")
BUILD = "from setuptools import build_meta as b; b.build_sdist('dist'); b.build_wheel('dist')"


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with a wheel and a source distribution, built from a copy of this clone."""
    pytest.importorskip("setuptools", minversion="77", reason="building needs setuptools 77 (pip install '.[test]')")
    clone, folder = PACKAGE.parent, tmp_path_factory.mktemp("clone")
    for name in [*FILES, "pyproject.toml", "MANIFEST.in", "setup.py"]:
        shutil.copy(clone / name, folder)
    for name in ("hpcml", *FOLDERS):
        shutil.copytree(clone / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
    built = subprocess.run([sys.executable, "-c", BUILD], cwd=folder, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    assert "deprecated" not in built.stderr, built.stderr
    return folder / "dist"


def package_files():
    others = [
        PACKAGE / "py.typed",
        PACKAGE / "check" / "bits.json",
        *(PACKAGE / "reporting" / f"page.{kind}" for kind in ("html.j2", "css", "js")),
    ]
    others += [PACKAGE / "serving" / name for name in ("page.html", "page.css", "page.js", "openapi.json")]
    return {f"hpcml/{path.relative_to(PACKAGE).as_posix()}" for path in [*PACKAGE.rglob("*.py"), *others]}


def test_a_wheel_holds_the_package_its_licence_and_no_tests(dist):
    (wheel,) = dist.glob("*.whl")
    assert wheel.name == f"hpcml-{hpcml.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        about = f"hpcml-{hpcml.__version__}.dist-info"
        assert {name for name in archive.namelist() if not name.startswith(about)} == package_files()
        assert f"{about}/licenses/LICENSE" in archive.namelist()
        assert "hpcml = hpcml.__main__:main" in archive.read(f"{about}/entry_points.txt").decode()


def test_a_source_distribution_holds_all_that_is_needed_to_read_run_and_test_it(dist):
    (source,) = dist.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    clone = PACKAGE.parent
    files = {path.relative_to(clone).as_posix() for folder in FOLDERS for path in (clone / folder).rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name and not name.endswith((".h5", ".pyc"))}
    assert names >= package_files() | files | {*FILES, "pyproject.toml", "setup.py"}
    assert not [name for name in names if "__pycache__" in name]


def description(dist):
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        about = Parser().parsestr(archive.read(name).decode())
    assert about["Description-Content-Type"] == "text/markdown"
    return about.get_payload()


def test_the_page_of_a_package_index_has_no_link_that_leads_nowhere(dist):
    text = description(dist)
    assert not re.search(r"\]\((?!https?://)", text)
    named = set(re.findall(r"`([\w./-]+\.(?:md|cff))`", text))
    assert {"docs/learn/first.md", "docs/methods/dual.md", "CHANGELOG.md"} <= named
    assert all((PACKAGE.parent / name).is_file() for name in named)
    assert "## Which method" in text and "<!--" not in text


def test_all_is_what_users_need_and_has_one_mpi():
    extras = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (wanted,) = extras["all"]
    own = set(re.fullmatch(r"hpcml\[(.*)\]", wanted)[1].split(","))
    assert own == set(extras) - {"all", "openmpi", "intel", "gpu", "bench", "docs", "test"}
