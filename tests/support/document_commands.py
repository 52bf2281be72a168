"""Run the commands of README.md and of docs/ as a reader would: the ```bash and ```python blocks of each page, in order.

usage: python tests/support/document_commands.py [--processes] [PAGE.md...]
default: README.md and docs/**/*.md, but for the pages with blocks that need a Slurm, which tests/slurm runs

Commands of hpcml on one and on two ranks are sent to ranks that stand by, since starting them takes most of the time. Processes of
their own have: the commands of docs/learn/first.md; blocks with a pipe, a job in the background, a here-document or Python; and,
with --processes, all commands.

Every page has a scratch folder of its own. It holds a copy of the project's files without the package, so that recipes are found
and results fall outside. A page with a line `<!-- needs: first.md -->` (a path from its own folder) begins with what that page
left behind, which is run first. Each block has a shell, or a Python, and a time limit of its own.

A block under a line `<!-- not run: the reason -->` is skipped and listed. One under `<!-- run with: launch/slurm-here.sh with -->`
is run on a private Slurm; where that cannot be, it is skipped and listed, unless HPCML_NEEDS_SLURM is set.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[2]
NOT_COPIED = (".*", "hpcml", "hpcml-check-*", "*.egg-info", "__pycache__", "build", "demo", "runs", "site", "*.h5")
LIMIT = 300  # seconds for a block
SHELLS = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
BLOCK = re.compile(
    r"^(?:<!--\s*(?:not run:\s*(?P<reason>.*?)|run with:\s*(?P<launcher>.*?))\s*-->[ \t]*\n\s*)?"
    r"(?P<indent>[ \t]*)```(?P<language>bash|python)\b[^\n]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
ALONE = re.compile(r"(?<!&)&(?![&>\d])|\||<<|\bpython\b")  # in a block whose commands have processes of their own
STARTED = {"first.md"}  # pages whose commands have processes of their own
STANDING = Path(__file__).with_name("standing_commands.py")
NEEDS = re.compile(r"^<!--\s*needs:\s*(?P<page>\S+)\s*-->[ \t]*$", re.MULTILINE)


class Block(NamedTuple):
    """Commands, the line of the page where they begin, the reason for not running them, what they are run with, their language."""

    line: int
    code: str
    reason: str | None
    launcher: str | None = None
    language: str = "bash"


def blocks(text):
    """The blocks of a page, in order."""
    found = []
    for match in BLOCK.finditer(text):
        indent = len(match["indent"])
        code = "".join(line[indent:] if line[:indent].isspace() else line for line in match["code"].splitlines(keepends=True))
        line = text.count("\n", 0, match.start("code")) + 1
        found.append(Block(line, code, match["reason"], match["launcher"], match["language"]))
    return found


def needed(page):
    """The page whose files this one begins with, or None."""
    match = NEEDS.search(page.read_text(encoding="utf-8"))
    return (page.parent / match["page"]).resolve() if match else None


def in_order(pages):
    """The pages, each after the one that it needs, which is added where it is missing."""
    ordered = []

    def add(page, waiting):
        if page in waiting:
            raise SystemExit(f"{page}: needs itself, by way of {', '.join(other.name for other in waiting)}")
        if not page.is_file():
            raise SystemExit(f"{page} does not exist" + (f", but {waiting[-1]} needs it" if waiting else ""))
        if page not in ordered:
            before = needed(page)
            if before is not None:
                add(before, [*waiting, page])
            ordered.append(page)

    for page in pages:
        add(page.resolve(), [])
    return ordered


class StandingRanks:
    """One rank and two ranks that run the commands of hpcml in the blocks, started when they are first needed."""

    def __init__(self, folder):
        self.folder, self.programs = folder, folder / "bin"
        self.jobs = []

    def path(self):
        """The folder of programs that take the place of `hpcml` and `mpirun`."""
        if not self.jobs:
            self.programs.mkdir()
            for name in ("hpcml", "mpirun"):
                (self.programs / name).write_text(f"#!{sys.executable} -IS\n" + STANDING.read_text(encoding="utf-8"))
                (self.programs / name).chmod(0o755)
            for n in (1, 2):
                (self.folder / str(n)).mkdir()
                words = [sys.executable, TOP / "tests" / "jobs" / "standing.py", self.folder / str(n), str(os.getpid())]
                with (self.folder / f"{n}.log").open("wb") as log:
                    command = ["mpirun", "-n", str(n), *words]
                    job = subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                (self.folder / str(n) / "process").write_text(str(job.pid))
                self.jobs.append(job)
        return self.programs

    def close(self):
        """End the ranks."""
        for job in self.jobs:
            job.terminate()
        for job in self.jobs:
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(20)


def environment(*folders):
    """This process's, with folders before its PATH, and those of this Python."""
    path = os.pathsep.join([*map(str, folders), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"} | os.environ | {"PATH": path}


def run(block, folder, ranks=None):
    """Run a block, with the ranks that stand by if it can; returns its exit code and what it printed. 124 and 137 mean that it took
    too long.
    """
    launcher = block.launcher.split() if block.launcher else []
    stands = ranks and not launcher and block.language == "bash" and "hpcml" in block.code and not ALONE.search(block.code)
    command = ["timeout", "--kill-after=10", str(LIMIT), *launcher, *SHELLS[block.language], block.code]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(*([ranks.path()] if stands else [])),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout


def why_not(block, folder):
    """Why a block cannot run here: what its launcher says of that; None if it can, or must."""
    if not block.launcher or "HPCML_NEEDS_SLURM" in os.environ:
        return None
    can = subprocess.run([block.launcher.split()[0], "can"], cwd=folder, capture_output=True, text=True, timeout=60)
    return can.stderr.strip() if can.returncode == 3 else None


def run_page(page, folder, ranks=None):
    """Run the blocks of a page in a folder; returns how many ran and how many there are, or None if one failed."""
    name = page.relative_to(TOP) if page.is_relative_to(TOP) else page.name
    found, ran = blocks(page.read_text(encoding="utf-8")), 0
    for block in found:
        title = f"{name}:{block.line}: {block.code.strip().splitlines()[0] if block.code.strip() else '(empty)'}"
        reason = block.reason or why_not(block, folder)
        if reason is not None:
            print(f"not run ({reason})  {title}", flush=True)
            continue
        ran += 1
        begin = time.monotonic()
        code, output = run(block, folder, None if page.name in STARTED else ranks)
        print(f"{'ok' if code == 0 else 'FAILED'} in {time.monotonic() - begin:.0f} s  {title}", flush=True)
        if code != 0:
            print(f"exit code {code}\n--- the block\n{block.code}--- what it printed\n{output}", flush=True)
            return None
    return ran, len(found)


def usual_pages():
    """README.md and docs/**/*.md without the pages that need a Slurm, which are listed."""
    pages = [TOP / "README.md", *sorted(TOP.glob("docs/**/*.md"))]
    with_slurm = [page for page in pages if any(block.launcher for block in blocks(page.read_text(encoding="utf-8")))]
    print(f"run by tests/slurm/test_pages.py: {', '.join(str(page.relative_to(TOP)) for page in with_slurm)}", flush=True)
    return [page for page in pages if page not in with_slurm]


def main(pages, standing=True):
    """Run all blocks of all pages; returns the exit code."""
    ran, found, begin = 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        ranks = None
        if standing:
            (Path(scratch) / "ranks").mkdir()
            ranks = StandingRanks(Path(scratch) / "ranks")
            stack.callback(ranks.close)
        folders = {}
        for number, page in enumerate(in_order(pages)):
            folder = folders[page] = Path(scratch, str(number), "project")
            before = folders.get(needed(page))
            shutil.copytree(before or TOP, folder, symlinks=True, ignore=None if before else shutil.ignore_patterns(*NOT_COPIED))
            counts = run_page(page, folder, ranks)
            if counts is None:
                return 1
            ran, found = ran + counts[0], found + counts[1]
    print(f"{ran} of {found} blocks ran, in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--processes"]
    sys.exit(main([Path(name) for name in names] or usual_pages(), "--processes" not in sys.argv))
