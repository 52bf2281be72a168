"""Git repositories for tests."""

import subprocess

WHO = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def git(folder, *words):
    """Run git in a folder and return its output."""
    return subprocess.run(["git", *WHO, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def commit_all(folder):
    """Commit every file of a folder that git does not ignore."""
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", "all")
