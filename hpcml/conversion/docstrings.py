"""Docstrings of Python and of packages that hpcml needs: a corpus available on every machine.

Packages are not imported: their files are parsed with `ast`. Labels are the parts of the dotted module name: hundreds of
hierarchical, long-tailed labels such as "scipy", "scipy.sparse", "scipy.sparse.csgraph".
"""

import ast
import importlib.util
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.part import Part
from hpcml.conversion.text import WORDS, Corpus, vectorise
from hpcml.data.row_keys import TEXT, flag_repeats, string_keys
from hpcml.errors import DataError, OptionError

PACKAGES = ("numpy", "scipy", "sklearn", "numba", "llvmlite", "h5py", "mpi4py")
SKIPPED = {"test", "tests", "site-packages", "dist-packages", "idlelib", "lib2to3", "distutils", "turtledemo"}
MIN_WORDS = 5

_Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | _Named


class ModuleFile(NamedTuple):
    module: str
    path: Path
    size: int


class Docstring(NamedTuple):
    name: str
    module: str
    text: str


def list_modules(folder: Path, prefix: str) -> Iterator[ModuleFile]:
    for path in folder.iterdir():
        name = path.stem if path.suffix == ".py" else path.name
        dotted = f"{prefix}.{name}" if prefix else name
        if not name.isidentifier() or name in SKIPPED:
            continue
        if path.suffix == ".py" and path.is_file():
            yield ModuleFile(prefix if name == "__init__" else dotted, path, path.stat().st_size)
        elif path.is_dir():
            yield from list_modules(path, dotted)


def find_modules() -> list[ModuleFile]:
    modules = {source.module: source for source in list_modules(Path(sysconfig.get_path("stdlib")), "")}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            modules |= {source.module: source for source in list_modules(Path(folder), package)}
    return [modules[module] for module in sorted(modules)]


def parse_docstrings(module: str, code: bytes) -> Iterator[Docstring]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return
    seen: dict[str, int] = {}

    def visit(node: ast.AST, name: str) -> Iterator[Docstring]:
        if isinstance(node, Documented):
            text = ast.get_docstring(node)
            if text and len(WORDS.findall(text)) >= MIN_WORDS:
                seen[name] = seen.get(name, 0) + 1
                yield Docstring(name if seen[name] == 1 else f"{name}#{seen[name]}", module, text)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt | ast.ExceptHandler):
                yield from visit(child, f"{name}.{child.name}" if isinstance(child, _Named) else name)

    yield from visit(tree, module)


def read_docstrings(task: Conversion) -> Part:
    sources = mpi.run_on_root(task.comm, "looking for Python modules", find_modules)
    if not sources:
        raise DataError(f"{sysconfig.get_path('stdlib')}: no Python source; docstrings needs the source of the standard library")
    corpus = Corpus(task)
    for field in corpus.fields:
        if field.name not in ("title", "text"):
            raise OptionError("fields", field.name, "expected title or text")
    begin, end = task.share_by_weight([source.size for source in sources])
    documents: list[Docstring] = []
    with mpi.agreed(task.comm, "reading Python modules"):
        for source in sources[begin:end]:
            documents += parse_docstrings(source.module, source.path.read_bytes())
    copies = flag_repeats(task.comm, string_keys(TEXT, [document.text for document in documents]))
    with mpi.agreed(task.comm, "reading Python modules"):
        for document in (document for document, is_copy in zip(documents, copies, strict=True) if not is_copy):
            parts = document.module.split(".")
            labels = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
            texts = {"title": document.name.rpartition(".")[2].partition("#")[0], "text": document.text}
            corpus.add(document.name, [[texts[field.name]] for field in corpus.fields], labels, "")
    return vectorise(task, corpus)
