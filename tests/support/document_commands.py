"""Run the commands of README.md and of docs/ as a reader would: the ```bash and ```python blocks of each page, in order.

usage: python tests/support/document_commands.py [PAGE.md...]      default: README.md and docs/**/*.md

Every page has a scratch folder of its own. It holds a copy of the project's files without the package, so that recipes are found
and results fall outside. A page with a line `<!-- needs: first.md -->` (a path from its own folder) begins with what that page
left behind, which is run first. Each block has a shell, or a Python, and a time limit of its own.

A block under a line `<!-- not run: the reason -->` is skipped and listed. One under `<!-- run with: launch/slurm-here.sh with -->`
is run on a private Slurm; where that cannot be, it is skipped and listed, unless HPCML_NEEDS_SLURM is set.
"""

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
NOT_COPIED = (".*", "hpcml", "*.egg-info", "__pycache__", "build", "demo", "runs", "site", "*.h5")
LIMIT = 300  # seconds for a block
SHELLS = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
BLOCK = re.compile(
    r"^(?:<!--\s*(?:not run:\s*(?P<reason>.*?)|run with:\s*(?P<launcher>.*?))\s*-->[ \t]*\n\s*)?"
    r"(?P<indent>[ \t]*)```(?P<language>bash|python)\b[^\n]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
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


def run(block, folder):
    """Run a block; returns its exit code and what it printed. 124 and 137 mean that it took too long."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    launcher = block.launcher.split() if block.launcher else []
    command = ["timeout", "--kill-after=10", str(LIMIT), *launcher, *SHELLS[block.language], block.code]
    done = subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PATH": path},
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


def run_page(page, folder):
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
        code, output = run(block, folder)
        print(f"{'ok' if code == 0 else 'FAILED'} in {time.monotonic() - begin:.0f} s  {title}", flush=True)
        if code != 0:
            print(f"exit code {code}\n--- the block\n{block.code}--- what it printed\n{output}", flush=True)
            return None
    return ran, len(found)


def main(pages):
    """Run all blocks of all pages; returns the exit code."""
    ran, found, begin = 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folders = {}
        for number, page in enumerate(in_order(pages)):
            folder = folders[page] = Path(scratch, str(number), "project")
            before = folders.get(needed(page))
            shutil.copytree(before or TOP, folder, symlinks=True, ignore=None if before else shutil.ignore_patterns(*NOT_COPIED))
            counts = run_page(page, folder)
            if counts is None:
                return 1
            ran, found = ran + counts[0], found + counts[1]
    print(f"{ran} of {found} blocks ran, in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]] or [TOP / "README.md", *sorted(TOP.glob("docs/**/*.md"))]))
