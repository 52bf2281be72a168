"""The version, which includes the commit in a development build, so that it identifies the code and the bits that it computes.

`git archive` (by .gitattributes) and setup.py, which builds wheels and source distributions, write the commit into their copy of
this file. In a checkout git is called only when a version is printed or written, so no command waits for it at start.
"""

import subprocess
from functools import cache
from pathlib import Path

NUMBER = "0.13.0.dev0"  # next release; only its commit has the number without `.dev0`
COMMIT = "$Format:%H$"  # in copies: the result of `read_commit`


@cache
def version() -> str:
    """Return `0.13.0.dev0+g129f16b3`, or `0.13.0` for a release; `.dirty` is appended if files of hpcml/ differ from the commit."""
    source = read_commit(Path(__file__).resolve().parents[1]) if COMMIT.startswith("$") else COMMIT
    commit, dirty, _ = source.partition(".dirty")
    if "dev" not in NUMBER and not dirty:
        return NUMBER
    return f"{NUMBER}+g{commit[:8]}{dirty}" if commit else f"{NUMBER}+unknown"


def read_commit(root: Path) -> str:
    # With both paths git ignores repositories in the environment, and accepts one of another user.
    paths = [f"--git-dir={root}/.git", f"--work-tree={root}", "--no-optional-locks"]
    command = ["git", *paths, "status", "--porcelain=v2", "--branch", "--untracked-files=normal", "hpcml"]
    try:
        git = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    oid, _, *lines = git.stdout.decode(errors="replace").splitlines()  # `# branch.oid COMMIT`, `# branch.head NAME`
    commit = oid.split()[2].replace("(initial)", "")
    is_dirty = any(not line.startswith("# ") for line in lines)
    return f"{commit}.dirty" if commit and is_dirty else commit
