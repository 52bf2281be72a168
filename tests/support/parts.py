"""Parts of the tests that `./launch/test.sh` skips, without --all, while their inputs have not changed.

A test, or a parameter of one, belongs to a part by `@pytest.mark.more("NAME")`; test.sh also runs some parts itself. The file
`.ci/all-passed` has the commit at which all parts passed. A part runs if its inputs differ from that commit.

usage: python tests/support/parts.py run [--all]    print the names of the parts to run
       python tests/support/parts.py left FILE      print what was skipped, from the lines "PART NUMBER" that tests added to FILE
"""

import os
import re
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
PASSED = ".ci/all-passed"
REQUIREMENTS = ("pyproject.toml", "requirements.lock")
KERNELS = ("hpcml/kernels/*", "hpcml/*kernel*.py", "hpcml/*losses*", "hpcml/check/*")
RUNS = ("hpcml/run/*", "hpcml/signals.py", "hpcml/__main__.py", "hpcml/cli/guard.py", "hpcml/mpi/start.py")
# part -> its inputs: patterns of paths, in which * matches any characters, also /
PARTS = {
    "kernels": (*KERNELS, *REQUIREMENTS, "tests/support/instructions.py", "tests/support/gpu_on_simulator.py"),
    "versions": (*KERNELS, *REQUIREMENTS, "hpcml/files/*", "tests/support/lowest.py", "tests/support/short_run.py"),
    "types": (*REQUIREMENTS, "hpcml/__init__.py*", "hpcml/commands/*.py", "hpcml/*estimator*.py"),
    "disturbances": (
        *(*RUNS, "hpcml/commands/job.py", "hpcml/planning/schedulers.py", "slurm/*", "launch/slurm-here.sh"),
        *("tests/support/faults.py", "tests/support/interrupts.py", "tests/support/private_slurm.py"),
    ),
    "files": ("hpcml/conversion/*", "hpcml/files/*", "hpcml/data/*", "hpcml/model/*", "tests/support/damage*.py"),
    "methods": ("hpcml/methods/*", "hpcml/estimators/*", "hpcml/run/*", "tests/support/toy.py"),
    "ranks": ("hpcml/mpi/*", "tests/support/rendezvous.py"),
    "documents": ("docs/*", "README.md", "examples/*", "tests/support/document_commands.py"),
    "lab": ("launch/lab/*", *REQUIREMENTS),
}
MARK = re.compile(r"\bmore\(\s*\"([\w-]+)\"")


def git(*words):
    """Return the output of git; None if it fails or is not installed."""
    try:
        done = subprocess.run(["git", *words], cwd=TOP, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def passed_at():
    """Return the commit at which all parts passed, if HEAD comes after it; else None."""
    path = TOP / PASSED
    commit = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    known = re.fullmatch(r"[0-9a-f]{40}", commit) and git("merge-base", "--is-ancestor", commit, "HEAD") is not None
    return commit if known else None


def changed(commit):
    """Return the files that differ from a commit; None if git fails."""
    differing, new = (
        git("diff", "--name-only", "--no-renames", "-z", commit),
        git("ls-files", "-z", "--others", "--exclude-standard"),
    )
    return None if differing is None or new is None else {name for name in (differing + new).split("\0") if name}


def parts_of(files, read):
    """Return the parts with an input among these files, or with a test in one; `read` returns the text of a file."""
    found = {part for part, inputs in PARTS.items() if any(fnmatch(name, pattern) for name in files for pattern in inputs)}
    tests = [name for name in files if name.startswith("tests/") and name.endswith(".py") and name != "tests/support/parts.py"]
    return found | {part for name in tests for part in MARK.findall(read(name))}


def text_of(name):
    path = TOP / name
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def parts_to_run(everything=False):
    commit = passed_at()
    files = None if everything or commit is None else changed(commit)
    found = PARTS if files is None else parts_of(files, text_of)
    return [part for part in PARTS if part in found]


def left_out(lines, run):
    """Return a sentence on what a run skipped, from its lines "PART NUMBER" and the parts that it ran."""
    counts = Counter()
    for line in lines:
        part, number = line.split()
        counts[part] += int(number)
    parts = [part for part in PARTS if part not in run]
    if not parts:
        return "nothing was left out"
    commit = (passed_at() or "an unknown commit")[:12]
    listed = ", ".join(f"{part} ({counts[part]})" if counts[part] else part for part in parts)
    return (
        f"left out: {sum(counts.values())} tests of {listed}, which passed at {commit} and have not changed since; "
        "./launch/test.sh --all runs them"
    )


def main(command, *words):
    if command == "run":
        print(" ".join(parts_to_run("--all" in words)))
    else:
        path = Path(words[0])
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        print(left_out(lines, os.environ.get("HPCML_PARTS", "").split()))


if __name__ == "__main__":
    main(*sys.argv[1:])
