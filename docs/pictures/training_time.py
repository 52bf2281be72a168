"""Draw training_time.svg from the table "dual beside other trainers" of docs/evidence/measurements.md, without any library.

usage: python docs/pictures/training_time.py [--check]      --check: only say whether the picture shows what the table says
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

PICTURE = Path(__file__).with_suffix(".svg")
TABLE = Path(__file__).parents[1] / "evidence" / "measurements.md"
HEADER = re.compile(r"^\| *\| bibtex, s .*\n\|[-| ]+\|\n((?:\|.*\n)+)", re.MULTILINE)
WIDTH, LEFT, RIGHT, TOP, PITCH, BAR = 760, 220, 160, 74, 38, 22  # pixels
OURS, OTHERS, INK, GREY = "#c2410c", "#64748b", "#1e293b", "#475569"
TITLE = "Seconds to train 1,389 labels of MeSH"
NOTE = "Linear support vector machines; tolerance 0.1, no intercept. Loading is not counted."


class Trainer(NamedTuple):
    """A line of the table: a trainer, its seconds on MeSH, and its precision@1 there."""

    name: str
    seconds: str
    precision: str


def trainers(page: str) -> list[Trainer]:
    """The lines of the table, fastest first."""
    match = HEADER.search(page)
    if match is None:
        raise SystemExit(f"{TABLE}: no table of trainers on bibtex and MeSH")
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in match[1].splitlines()]
    return sorted((Trainer(line[0], line[6], line[7]) for line in cells), key=lambda trainer: float(trainer.seconds))


def draw(bars: list[Trainer]) -> str:
    """The picture, as SVG: a bar for each trainer, as long as it takes."""
    height = TOP + PITCH * len(bars) + 46
    longest = max(float(bar.seconds) for bar in bars)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif">',
        f"<title>{TITLE}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        f'<text x="20" y="32" font-size="18" font-weight="600" fill="{INK}">{TITLE} on two cores</text>',
        f'<text x="{WIDTH - 20}" y="60" font-size="13" text-anchor="end" fill="{GREY}">precision@1</text>',
    ]
    for number, bar in enumerate(bars):
        y = TOP + PITCH * number
        ours = bar.name.startswith("hpcml")
        length = float(bar.seconds) / longest * (WIDTH - LEFT - RIGHT)
        weight = ' font-weight="600"' if ours else ""
        middle = y + BAR / 2 + 5
        lines += [
            f'<text x="{LEFT - 12}" y="{middle:g}" font-size="15" text-anchor="end" fill="{INK}"{weight}>{bar.name}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="3" fill="{OURS if ours else OTHERS}"/>',
            f'<text x="{LEFT + length + 8:.1f}" y="{middle:g}" font-size="15" fill="{INK}"{weight}>{bar.seconds}</text>',
            f'<text x="{WIDTH - 20}" y="{middle:g}" font-size="15" text-anchor="end" fill="{GREY}">{bar.precision}</text>',
        ]
    lines += [f'<text x="20" y="{height - 18}" font-size="11.5" fill="{GREY}">{NOTE}</text>', "</svg>"]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Draw, or compare; returns the exit code."""
    picture = draw(trainers(TABLE.read_text(encoding="utf-8")))
    if "--check" in arguments:
        same = PICTURE.is_file() and PICTURE.read_text(encoding="utf-8") == picture
        print(f"{PICTURE.name} {'shows' if same else 'does not show'} what the table says")
        return 0 if same else 1
    PICTURE.write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
