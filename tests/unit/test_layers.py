"""Who may import what."""

import ast
from pathlib import Path

import pytest

import hpcml

TOP = Path(hpcml.__file__).parent
FILES = sorted(TOP.rglob("*.py"))
ROOMS = ("convex", "online", "extreme", "bayes", "psbml")


def imported(path):
    """The dotted names of the modules that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(("package", "room"), [("mpi4py", "mpi"), ("numba", "kernels")])
def test_one_room_only(package, room):
    users = {path.relative_to(TOP).parts[0] for path in FILES if any(name.split(".")[0] == package for name in imported(path))}
    assert users == {room}


def test_rooms_of_papers_do_not_import_one_another():
    for path in FILES:
        here = path.relative_to(TOP).parts[0]
        if here in ROOMS:
            others = {name.split(".")[1] for name in imported(path) if name.startswith("hpcml.")} & set(ROOMS)
            assert others <= {here}, path
