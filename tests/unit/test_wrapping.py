"""Docstrings and pages wrap at 100 columns."""

import ast
from pathlib import Path

TOP = Path(__file__).parents[2]
COLUMNS = 100


def too_long(lines, first=1):
    return [number for number, line in enumerate(lines, first) if len(line) > COLUMNS]


def test_docstrings_wrap():
    found = []
    for path in sorted((TOP / "hpcml").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                places = too_long(lines[node.lineno - 1 : node.end_lineno], node.lineno)
                found += [f"{path.relative_to(TOP)}:{place}" for place in places]
    assert not found, found


def test_pages_wrap():
    """But tables, code, comments and headings."""
    found = []
    for path in [*sorted((TOP / "docs").rglob("*.md")), *sorted(TOP.glob("*.md"))]:
        lines, fenced = path.read_text(encoding="utf-8").splitlines(), False
        for number, line in enumerate(lines, 1):
            fenced ^= line.lstrip().startswith("```")
            if len(line) > COLUMNS and not fenced and not line.startswith(("|", "<", "#", "[", "!", "    ")):
                found.append(f"{path.relative_to(TOP)}:{number}")
    assert not found, found
