"""`./launch/test.sh` skips only tests whose inputs have not changed, and counts them."""

from functools import partial
from pathlib import Path

import pytest
from support import parts
from support.repository import commit_all, git

TOP = Path(__file__).parents[2]


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
