"""The version, which names the commit in a development build, so that it identifies the code and the bits that it computes.

`git archive` (by .gitattributes) and setup.py, which makes wheels and source distributions, write the commit into their copy of
this file. In a checkout git is asked, only when a version is printed or written: no start of a command waits for it.
"""

import subprocess
from functools import cache
from pathlib import Path

NUMBER = "0.13.0.dev0"  # of the next release, whose commit alone has it without `.dev0`
COMMIT = "$Format:%H$"  # in copies: what `read_commit` returns


@cache
def version() -> str:
    """Return `0.13.0.dev0+g129f16b3`, of a release `0.13.0`; `.dirty` is appended if files of hpcml/ differ from the commit."""
    found = read_commit(Path(__file__).resolve().parents[1]) if COMMIT.startswith("$") else COMMIT
    commit, dirty, _ = found.partition(".dirty")
    if "dev" not in NUMBER and not dirty:
        return NUMBER
    return f"{NUMBER}+g{commit[:8]}{dirty}" if commit else f"{NUMBER}+unknown"


def read_commit(root: Path) -> str:
    """Return the commit of a checkout, with `.dirty` if files of hpcml/ differ from it; "" without git or a commit."""
    # With both paths git takes no repository from the environment, and accepts one of another user.
    places = [f"--git-dir={root}/.git", f"--work-tree={root}", "--no-optional-locks"]
    command = ["git", *places, "status", "--porcelain=v2", "--branch", "--untracked-files=normal", "hpcml"]
    try:
        git = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    oid, _, *lines = git.stdout.decode(errors="replace").splitlines()  # `# branch.oid COMMIT`, `# branch.head NAME`
    commit = oid.split()[2].replace("(initial)", "")
    is_dirty = any(not line.startswith("# ") for line in lines)
    return f"{commit}.dirty" if commit and is_dirty else commit
