"""What all ranks must call together says so and is marked so: a docstring that begins with "Collective", and `@mpi.collective`."""

import ast
import re
from pathlib import Path

import pytest

import hpcml
from hpcml import mpi

TOP = Path(hpcml.__file__).parent
MARK = {"collective", "mpi.collective"}
# Loaded before MPI may begin (`import hpcml`, `hpcml --help`), so the mark is out of reach; what they call is marked.
WITHOUT_MPI = {"api.py", "api_dataset.py", "api_session.py", "methods/registry.py"}
LOADS_MPI = re.compile(r"^(from|import) hpcml(\.mpi\b| import .*\bmpi\b)", re.MULTILINE)


def functions(tree):
    """(qualified name, node) of every function of a module, nested ones and methods included."""
    below = [("", tree)]
    while below:
        prefix, node = below.pop()
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            name = f"{prefix}.{child.name}".lstrip(".") if named else prefix
            if named and not isinstance(child, ast.ClassDef):
                yield name, child
            below.append((name, child))


def decorators(node):
    """The names of a function's decorators, the innermost last."""
    return [ast.unparse(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list]


def findings(code):
    """What is wrong in a module: sentences, by line."""
    found = []
    for name, node in functions(ast.parse(code)):
        says = (ast.get_docstring(node) or "").startswith("Collective")
        marked = [mark in MARK for mark in decorators(node)]
        if says and not any(marked):
            found.append((node.lineno, f"{name} says that it is collective, but lacks @mpi.collective"))
        elif any(marked) and not says:
            found.append((node.lineno, f'{name} has @mpi.collective, but its docstring does not begin with "Collective"'))
        elif any(marked) and not marked[-1]:
            found.append((node.lineno, f"{name}: @mpi.collective belongs right above the function, below its other decorators"))
    return sorted(found)


def test_every_collective_says_so_and_is_marked():
    problems, n_collectives = [], 0
    for path in sorted(TOP.rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        if path.relative_to(TOP).as_posix() in WITHOUT_MPI:
            assert not LOADS_MPI.search(code), f"{path} can mark them, too"
            continue
        problems += [f"{path.relative_to(TOP.parent)}:{line}: {what}" for line, what in findings(code)]
        n_collectives += code.count('"""Collective')
    assert not problems, "\n".join(problems)
    assert n_collectives > 100  # else this looks in the wrong place


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ('def f():\n    """Collective. All."""', "f says"),
        ('class C:\n    def f(self):\n        """Collective over `comm`. All."""', "C.f says"),
        ('def f():\n    if True:\n        @contextmanager\n        def g():\n            """Collective."""', "f.g says"),
        ('@mpi.collective\ndef f():\n    """All."""', "f has"),
        ("@collective\ndef f():\n    pass", "f has"),
        ('@mpi.collective\n@contextmanager\ndef f():\n    """Collective."""', "f: @mpi.collective belongs"),
    ],
)
def test_what_is_wrong_is_found(code, what):
    ((_, found),) = findings(code)
    assert found.startswith(what)


def test_what_is_right_passes():
    assert findings('@contextmanager\n@mpi.collective\ndef f():\n    """Collective."""\n\n\ndef g():\n    """Local."""') == []


def test_mark_changes_nothing(monkeypatch, capfd):
    """The results, exceptions and what is sent into a generator are the same with and without the log of HPCML_STRICT."""

    @mpi.collective
    def plain(value):
        """Collective. The value, or an error."""
        return 1 / value

    @mpi.collective
    def asks():
        """Collective. What it is told."""
        try:
            told = yield 1
        except ZeroDivisionError:
            told = "error"
        yield told
        return 3

    def through():
        return (yield from asks())

    for strict in ("0", "1"):
        monkeypatch.setenv("HPCML_STRICT", strict)
        assert plain(4) == 0.25
        with pytest.raises(ZeroDivisionError):
            plain(0)
        one, other = through(), asks()
        assert (next(one), one.send("word")) == (1, "word")
        with pytest.raises(StopIteration) as end:
            next(one)
        assert end.value.value == 3
        assert (next(other), other.throw(ZeroDivisionError)) == (1, "error")
        other.close()
        log = capfd.readouterr().err.splitlines()
        names = [line.rpartition(".")[2] for line in log]
        assert names == (["plain", "plain", "plain", "plain", "asks", "asks", "asks", "asks"] if strict == "1" else [])
        assert sum("] enter " in line for line in log) == len(log) // 2
