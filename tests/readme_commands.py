"""Run the commands of README.md as a reader would: its ```bash blocks, in order, in one scratch folder.

usage: python tests/readme_commands.py [README.md]

A block under a line `<!-- not run: the reason -->` is skipped and listed. One under `<!-- run with: launch/slurm-here.sh with -->`
is run on a private Slurm; where that cannot be, it is skipped and listed, unless HPCML_NEEDS_SLURM is set. Each block has a shell
and a time limit of its own. The scratch folder holds a copy of the project's files without the package, so that recipes are found
and results fall outside.
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

TOP = Path(__file__).resolve().parents[1]
NOT_COPIED = (".*", "hpcml", "*.egg-info", "__pycache__", "build", "demo", "runs", "*.h5")
LIMIT = 300  # seconds for a block
BLOCK = re.compile(
    r"^(?:<!--\s*(?:not run:\s*(?P<reason>.*?)|run with:\s*(?P<launcher>.*?))\s*-->[ \t]*\n\s*)?"
    r"(?P<indent>[ \t]*)```bash[^\n]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """Commands, the line of the README where they begin, the reason for not running them, what they are run with."""

    line: int
    code: str
    reason: str | None
    launcher: str | None = None


def blocks(text):
    """The bash blocks of a README, in order."""
    found = []
    for match in BLOCK.finditer(text):
        indent = len(match["indent"])
        code = "".join(line[indent:] if line[:indent].isspace() else line for line in match["code"].splitlines(keepends=True))
        found.append(Block(text.count("\n", 0, match.start("code")) + 1, code, match["reason"], match["launcher"]))
    return found


def run(block, folder):
    """Run a block; returns its exit code and what it printed. 124 and 137 mean that it took too long."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    launcher = block.launcher.split() if block.launcher else []
    command = ["timeout", "--kill-after=10", str(LIMIT), *launcher, "bash", "-euo", "pipefail", "-c", block.code]
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


def main(readme):
    """Run all blocks; returns the exit code."""
    found, ran = blocks(readme.read_text(encoding="utf-8")), 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "project")
        shutil.copytree(TOP, folder, ignore=shutil.ignore_patterns(*NOT_COPIED))
        for block in found:
            title = f"{readme.name}:{block.line}: {block.code.strip().splitlines()[0] if block.code.strip() else '(empty)'}"
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
                return 1
    print(f"{ran} of {len(found)} blocks ran")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else TOP / "README.md"))
