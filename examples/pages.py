"""Make the pages of the examples: the text and code of each script, what it prints, and its pictures.

usage: python examples/pages.py [--check] [NAME...]      --check: only say whether the pages have the scripts' text and code

A script is in percent format: cells begin with `# %%`, those of text with `# %% [markdown]`. It is run cell by cell in a folder
that is thrown away. NAME: topics, cell_types, pipeline; all by default.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
PAGES = {"topics": "example-csv", "cell_types": "example-anndata", "pipeline": "example-sklearn"}
CELL = re.compile(r"^# %%(?P<kind> \[markdown\])?\n(?P<text>.*?)(?=^# %%|\Z)", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r'savefig\("(\w+)\.svg"\)')
TITLE = re.compile(r'(?:\btitle=|set_title\()"([^"]+)"')


class Cell(NamedTuple):
    """A cell of a script: text, or code."""

    is_text: bool
    text: str


def cells(name: str) -> list[Cell]:
    """The cells of a script; texts without `# `."""
    found = []
    for match in CELL.finditer((HERE / f"{name}.py").read_text(encoding="utf-8")):
        text = match["text"].strip()
        found.append(Cell(bool(match["kind"]), re.sub(r"^# ?", "", text, flags=re.MULTILINE) if match["kind"] else text))
    return found


def source(cell: Cell) -> str:
    """What the page has of a cell, whatever it does: `py`, for blocks of `python` are run by themselves."""
    return cell.text if cell.is_text else f"```py\n{cell.text}\n```"


def pictures(cell: Cell) -> list[str]:
    """The names of the pictures that a cell draws."""
    return [] if cell.is_text else PICTURE.findall(cell.text)


def is_current(name: str, page: str) -> bool:
    """Whether a page has the text, code and pictures of its script, in order and no other code."""
    place = 0
    for cell in cells(name):
        place = page.find(source(cell), place)
        if place < 0 or any(f"(../pictures/example-{picture}.svg)" not in page for picture in pictures(cell)):
            return False
        place += len(source(cell))
    return page.count("```py\n") == sum(not cell.is_text for cell in cells(name))


def made(name: str) -> str:
    """Run a script: its page. The pictures go to docs/pictures."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams |= {"svg.hashsalt": name, "svg.fonttype": "none"}
    os.environ["SOURCE_DATE_EPOCH"] = "0"  # no time in the pictures
    parts, known = list[str](), {"__name__": name}
    for cell in cells(name):
        parts.append(source(cell))
        if cell.is_text:
            continue
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile(cell.text, f"{name}.py", "exec"), known)  # the project's own
        if said.getvalue().strip():
            parts.append("```text\n" + "\n".join(line.rstrip() for line in said.getvalue().strip("\n").splitlines()) + "\n```")
        for picture in pictures(cell):
            shutil.copy(f"{picture}.svg", DOCS / "pictures" / f"example-{picture}.svg")
            parts.append(f"![{(TITLE.search(cell.text) or ['', picture])[1]}](../pictures/example-{picture}.svg)")
    parts.append(f"<!-- made by examples/pages.py from examples/{name}.py -->")
    return "\n\n".join(parts) + "\n"


def main(names: list[str], check: bool) -> int:
    """Make, or check, the pages; the exit code."""
    old = []
    for name in names or PAGES:
        page = DOCS / "learn" / f"{PAGES[name]}.md"
        if check:
            old += [] if page.is_file() and is_current(name, page.read_text(encoding="utf-8")) else [page.name]
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            text = made(name)
        page.write_text(text, encoding="utf-8")
    if old:
        print(f"older than their scripts: {', '.join(old)}; run python examples/pages.py")
    return bool(old)


if __name__ == "__main__":
    asked = [word for word in sys.argv[1:] if word != "--check"]
    sys.exit(main(asked, "--check" in sys.argv))
