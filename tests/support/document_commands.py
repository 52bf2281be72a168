"""Run the ```bash and ```python blocks of README.md and docs/, in the order of each page.

usage: python tests/support/document_commands.py [PAGE.md...]
default: README.md and docs/**/*.md, except the pages with blocks that need Slurm, which tests/slurm runs

Commands of hpcml on one and two ranks run on standing ranks, because starting ranks takes most of the time. Processes are started
for docs/learn/first.md, and for blocks with a pipe, a background job, a here-document or Python.

Every page has a scratch folder with a copy of the project's files without the package. A page with `<!-- needs: first.md -->` (a
path relative to the page) starts with the files that page left behind; that page is run first. Each block has a time limit.

A block after `<!-- not run: the reason -->` is only listed. A block after `<!-- run with: launch/slurm-here.sh with -->` runs on a
private Slurm; where Slurm cannot run, it is only listed, unless HPCML_NEEDS_SLURM is set.
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
LIMIT = 600  # seconds for a block
SHELLS = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}
BLOCK = re.compile(
    r"^(?:<!--\s*(?:not run:\s*(?P<reason>.*?)|run with:\s*(?P<launcher>.*?))\s*-->[ \t]*\n\s*)?"
    r"(?P<indent>[ \t]*)```(?P<language>bash|python)\b[^\n]*\n(?P<code>.*?)^(?P=indent)```[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
NEEDS_PROCESSES = re.compile(r"(?<!&)&(?![&>\d])|\||<<|\bpython\b")  # in a block whose commands cannot run on standing ranks
PAGES_WITH_PROCESSES = {"first.md"}
STANDING = Path(__file__).with_name("standing_commands.py")
NEEDS = re.compile(r"^<!--\s*needs:\s*(?P<page>\S+)\s*-->[ \t]*$", re.MULTILINE)


class Block(NamedTuple):
    line: int
    code: str
    reason: str | None  # for not running it
    launcher: str | None = None
    language: str = "bash"


def blocks(text):
    result = []
    for match in BLOCK.finditer(text):
        indent = len(match["indent"])
        code = "".join(line[indent:] if line[:indent].isspace() else line for line in match["code"].splitlines(keepends=True))
        line = text.count("\n", 0, match.start("code")) + 1
        result.append(Block(line, code, match["reason"], match["launcher"], match["language"]))
    return result


def needed_page(page):
    match = NEEDS.search(page.read_text(encoding="utf-8"))
    return (page.parent / match["page"]).resolve() if match else None


def in_order(pages):
    """Return the pages, each after the page that it needs, which is added if it is missing."""
    ordered = []

    def add(page, waiting):
        if page in waiting:
            raise SystemExit(f"{page}: needs itself, by way of {', '.join(other.name for other in waiting)}")
        if not page.is_file():
            raise SystemExit(f"{page} does not exist" + (f", but {waiting[-1]} needs it" if waiting else ""))
        if page not in ordered:
            before = needed_page(page)
            if before is not None:
                add(before, [*waiting, page])
            ordered.append(page)

    for page in pages:
        add(page.resolve(), [])
    return ordered


class StandingRanks:
    """One rank and two ranks that run the commands of hpcml in the blocks."""

    def __init__(self, folder):
        self.folder, self.programs = folder, folder / "bin"
        self.jobs = []

    def path(self):
        """Start the ranks, if they have not been, and return a folder with replacements of `hpcml` and `mpirun`."""
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
        for n, job in enumerate(self.jobs, 1):
            number = len([*(self.folder / str(n)).glob("*.json")])
            (self.folder / str(n) / f"{number}.json").write_text("null")
            job.wait()


def environment(*folders):
    path = os.pathsep.join([*map(str, folders), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"} | os.environ | {"PATH": path}


def run(block, folder, ranks=None):
    launcher = block.launcher.split() if block.launcher else []
    can_stand = ranks and not launcher and block.language == "bash" and not NEEDS_PROCESSES.search(block.code)
    folders = [ranks.path()] if can_stand and "hpcml" in block.code else []
    command = ["timeout", "--kill-after=10", str(LIMIT), *launcher, *SHELLS[block.language], block.code]
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    result = subprocess.run(command, cwd=folder, env=environment(*folders), text=True, errors="replace", check=False, **streams)
    return result.returncode, result.stdout


def reason_not_to_run(block, folder):
    if block.reason is not None or not block.launcher or "HPCML_NEEDS_SLURM" in os.environ:
        return block.reason
    result = subprocess.run([block.launcher.split()[0], "can"], cwd=folder, capture_output=True, text=True, check=False)
    return result.stderr.strip() if result.returncode == 3 else None


def run_page(page, folder, ranks):
    """Run the blocks of a page and return how many ran and how many there are, or None if one failed."""
    name = page.relative_to(TOP) if page.is_relative_to(TOP) else page.name
    all_blocks, ran = blocks(page.read_text(encoding="utf-8")), 0
    for block in all_blocks:
        title = f"{name}:{block.line}: {block.code.strip().splitlines()[0] if block.code.strip() else '(empty)'}"
        reason = reason_not_to_run(block, folder)
        if reason is not None:
            print(f"not run ({reason})  {title}", flush=True)
            continue
        ran += 1
        begin = time.monotonic()
        code, output = run(block, folder, None if page.name in PAGES_WITH_PROCESSES else ranks)
        print(f"{'ok' if code == 0 else 'FAILED'} in {time.monotonic() - begin:.0f} s  {title}", flush=True)
        if code != 0:
            print(f"exit code {code}\n--- the block\n{block.code}--- its output\n{output}", flush=True)
            return None
    return ran, len(all_blocks)


def usual_pages():
    pages = [TOP / "README.md", *sorted(TOP.glob("docs/**/*.md"))]
    return [page for page in pages if not any(block.launcher for block in blocks(page.read_text(encoding="utf-8")))]


def main(pages):
    counts, begin, folders = [], time.monotonic(), {}
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        (Path(scratch) / "ranks").mkdir()
        ranks = StandingRanks(Path(scratch) / "ranks")
        stack.callback(ranks.close)
        for number, page in enumerate(in_order(pages)):
            folder = folders[page] = Path(scratch, str(number), "project")
            before = folders.get(needed_page(page))
            shutil.copytree(before or TOP, folder, symlinks=True, ignore=None if before else shutil.ignore_patterns(*NOT_COPIED))
            counts.append(run_page(page, folder, ranks))
            if counts[-1] is None:
                return 1
    ran, total = (sum(column) for column in zip(*counts, strict=True))
    print(f"{ran} of {total} blocks ran, in {time.monotonic() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]] or usual_pages()))
