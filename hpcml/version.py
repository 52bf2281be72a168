"""The version, which names the commit in a development build, so that it identifies the code and the bits that it computes.

`git archive` (by .gitattributes) and setup.py, which makes wheels and source distributions, write the commit into their copy of
this file. A checkout is read, and git started, only when a version is printed or written: no start of a command waits for it.
"""

import subprocess
from functools import cache
from pathlib import Path

NUMBER = "0.13.0.dev0"  # of the next release, whose commit alone has it without `.dev0`
COMMIT = "$Format:%H$"  # in copies: what `read_commit` returns


@cache
def version() -> str:
    """Return `0.13.0.dev0+g129f16b3`, of a release `0.13.0`; `.dirty` is appended if files of hpcml/ differ from the commit."""
    commit, dot, state = (read_commit(Path(__file__).resolve().parents[1]) if COMMIT.startswith("$") else COMMIT).partition(".")
    if "dev" not in NUMBER and state != "dirty":
        return NUMBER
    return f"{NUMBER}+{'g' * bool(commit)}{commit[:8] or 'unknown'}{dot}{state}"


def read_commit(root: Path) -> str:
    """Return the commit of a checkout, "" if there is none.

    `.dirty` is appended if files of hpcml/ differ from the commit, `.unchecked` if git cannot tell.
    """
    try:
        commit = _read_head(root)
    except (OSError, ValueError):
        commit = ""
    if not commit:
        return ""
    # With both paths git takes no repository from the environment, and accepts one of another user.
    command = ["git", f"--git-dir={root}/.git", f"--work-tree={root}", "--no-optional-locks", "status", "--porcelain", "hpcml"]
    try:
        changes = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return f"{commit}.unchecked"
    return f"{commit}.dirty" if changes else commit


def _read_head(root: Path) -> str:
    """Return the commit that is checked out. Raises OSError if `root` is no checkout, ValueError for text that is not UTF-8."""
    git = root / ".git"
    if git.is_file():  # of a worktree: it names a folder, which names that of the repository
        git = root / git.read_text(encoding="utf-8").removeprefix("gitdir: ").strip()
    shared = git / (git / "commondir").read_text(encoding="utf-8").strip() if (git / "commondir").exists() else git
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    name = head.removeprefix("ref: ")
    if name == head:
        return head
    if (shared / name).exists():
        return (shared / name).read_text(encoding="utf-8").strip()
    packed = (shared / "packed-refs").read_text(encoding="utf-8").splitlines()
    return next((line.partition(" ")[0] for line in packed if line.endswith(f" {name}")), "")
