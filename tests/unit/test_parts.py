"""`./launch/test.sh` skips only tests whose inputs have not changed, and counts them."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from support import parts
from support.repository import commit_all, git

TOP = Path(__file__).parents[2]
TESTS = """
import pytest
pytest_plugins = ["support.more"]

def test_always():
    pass

@pytest.mark.more("files")
def test_files():
    pass

@pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.more("kernels"))])
def test_one_case(x):
    pass
"""


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("hpcml/kernels/lanes/unrolled.py", {"kernels", "versions"}),
        ("hpcml/methods/dual/kernels.py", {"kernels", "versions", "methods"}),
        ("pyproject.toml", {"kernels", "versions", "types", "lab"}),
        ("slurm/train.sh", {"disturbances"}),
        ("launch/lab/tests/test_runs.py", {"lab"}),
        ("tests/jobs/test_given.py", {"ranks", "files"}),  # by its marks
        ("CHANGELOG.md", set()),
    ],
)
def test_changed_file_starts_its_parts(file, expected):
    assert parts.parts_of({file}, lambda name: '@pytest.mark.more("ranks") more("files")') == expected


def test_every_pattern_of_inputs_matches_a_file():
    folders = ("hpcml", "launch", "slurm", "docs", "examples", "tests")
    files = [path.relative_to(TOP).as_posix() for folder in folders for path in (TOP / folder).rglob("*")]
    files += ["README.md", *parts.REQUIREMENTS]
    patterns = {pattern for inputs in parts.PARTS.values() for pattern in inputs}
    assert [pattern for pattern in sorted(patterns) if not any(parts.fnmatch(name, pattern) for name in files)] == []


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A function that runs git in a repository with one commit."""
    monkeypatch.setattr(parts, "TOP", tmp_path)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)

    (tmp_path / "README.md").write_text("a\n")
    git(tmp_path, "init", "--quiet")
    commit_all(tmp_path)
    return partial(git, tmp_path)


def test_runs_all_parts_or_those_that_changed_since_the_commit_that_passed(clone, tmp_path):
    passed = tmp_path / ".ci" / "all-passed"
    passed.parent.mkdir()
    assert parts.parts_to_run() == [*parts.PARTS]
    for text in ("HEAD", "0" * 40, clone("commit-tree", "HEAD^{tree}", "-m", "not before HEAD")):
        passed.write_text(text)
        assert parts.parts_to_run() == [*parts.PARTS]
    passed.write_text(clone("rev-parse", "HEAD") + "\n")
    assert parts.parts_to_run() == []
    clone("add", ".")
    clone("commit", "--quiet", "-m", "only that file")
    assert parts.parts_to_run() == []
    assert parts.parts_to_run(everything=True) == [*parts.PARTS]
    (tmp_path / "README.md").write_text("b\n")
    assert parts.parts_to_run() == ["documents"]
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm" / "new.sh").touch()
    assert parts.parts_to_run() == ["disturbances", "documents"]


def test_runs_requested_parts_and_counts_the_others(tmp_path, monkeypatch):
    (tmp_path / "test_x.py").write_text(TESTS)
    monkeypatch.setenv("PYTHONPATH", str(TOP / "tests"))
    monkeypatch.setenv("HPCML_LEFT_OUT", str(tmp_path / "left"))
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)

    def passed(asked, *names):
        monkeypatch.delenv("HPCML_PARTS", raising=False)
        if asked is not None:
            monkeypatch.setenv("HPCML_PARTS", asked)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=.", *names]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout
        return done.stdout.splitlines()[-1]

    assert "2 passed, 2 deselected" in passed("", "test_x.py")
    assert "3 passed, 1 deselected" in passed("kernels types", "test_x.py")
    assert "2 passed, 2 deselected" in passed(None, "test_x.py")
    assert "1 passed" in passed(None, "test_x.py::test_files")
    lines = (tmp_path / "left").read_text().splitlines()
    assert lines[:3] == ["files 1", "kernels 1", "files 1"]
    report = parts.left_out(lines[:2], ["versions"])
    assert "2 tests" in report and "kernels (1)" in report and "files (1)" in report and "versions" not in report
