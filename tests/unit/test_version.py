"""The version of a checkout: its commit, whether files differ from it, and a version without git."""

import re
import runpy
import shutil
from pathlib import Path

import pytest
from packaging.version import Version
from support.repository import commit_all, git

import hpcml
from hpcml import version as module

NUMBER = "1.2.0.dev0"
SOURCE = Path(module.__file__).read_text().replace(module.COMMIT, "$Format:%H$")  # a source distribution has a fixed commit


def set_number(folder, number):
    text = re.sub(r'^NUMBER = ".*?"', f'NUMBER = "{number}"', SOURCE, flags=re.MULTILINE)
    (folder / "hpcml" / "version.py").write_text(text)


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "clone"
    (folder / "hpcml").mkdir(parents=True)
    set_number(folder, NUMBER)
    (folder / "README.md").write_text("text")
    git(folder, "init", "--quiet", "--initial-branch", "topic/a")
    commit_all(folder)
    return folder


def version(folder):
    return runpy.run_path(str(folder / "hpcml" / "version.py"))["version"]()


def head(folder):
    return git(folder, "rev-parse", "HEAD")[:8]


def test_checkout_has_its_commit_on_a_branch_detached_and_in_a_worktree(clone, tmp_path):
    first = head(clone)
    git(clone, "pack-refs", "--all")
    assert version(clone) == f"{NUMBER}+g{first}"
    (clone / "hpcml" / "a.py").touch()
    commit_all(clone)  # a loose reference beside the packed one of the first commit
    assert version(clone) == f"{NUMBER}+g{head(clone)}" != f"{NUMBER}+g{first}"
    for words in (["--detach", "--quiet"], ["-b", "other", "--quiet"]):
        other = tmp_path / words[0]
        git(clone, "worktree", "add", *words, str(other), first)
        assert version(other) == f"{NUMBER}+g{first}"


@pytest.mark.parametrize("change", ["changed file", "new file", "staged file", "file elsewhere", "new time"])
def test_only_changes_of_the_package_make_a_checkout_dirty(clone, change):
    if change == "file elsewhere":
        (clone / "README.md").write_text("other")
    elif change == "new time":
        (clone / "hpcml" / "version.py").touch()
    elif change == "new file":
        (clone / "hpcml" / "b.py").touch()
    else:
        with (clone / "hpcml" / "version.py").open("a") as out:
            out.write("# more\n")
    if change == "staged file":
        git(clone, "add", "--all")
    is_dirty = change not in ("file elsewhere", "new time")
    assert version(clone) == f"{NUMBER}+g{head(clone)}" + ".dirty" * is_dirty


def test_commit_is_unknown_without_git_or_its_own_repository(clone, tmp_path, monkeypatch):
    shutil.copytree(clone / "hpcml", tmp_path / "copy" / "hpcml")
    assert version(tmp_path / "copy") == f"{NUMBER}+unknown"
    git(tmp_path, "init", "--quiet")  # another repository around the copy
    assert version(tmp_path / "copy") == f"{NUMBER}+unknown"
    monkeypatch.setenv("GIT_DIR", str(clone / "none"))  # another repository, of the environment
    assert version(clone).startswith(f"{NUMBER}+g") and "." not in version(clone).partition("+")[2]
    monkeypatch.setenv("PATH", str(clone))
    assert version(clone) == f"{NUMBER}+unknown"


def test_release_has_no_commit_unless_it_was_changed(clone):
    set_number(clone, "1.2.0")
    assert version(clone) == f"1.2.0+g{head(clone)}.dirty"
    commit_all(clone)
    assert version(clone) == "1.2.0"


def test_version_follows_pep_440_and_is_computed_on_demand():
    assert str(Version(hpcml.__version__)) == hpcml.__version__
    assert "__version__" not in vars(hpcml) and "__version__" in dir(hpcml)
