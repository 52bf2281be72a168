"""A corpus that every machine has: docstrings of Python and of the packages hpcml needs.

No package is imported: files are found by name and read with `ast`. Labels are the parts of the dotted module name, hundreds,
hierarchical and long-tailed: "scipy", "scipy.sparse", "scipy.sparse.csgraph".
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sysconfig
import warnings
from collections.abc import Iterator
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcml import mpi
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.part import Part
from hpcml.conversion.text import WORDS, Corpus, vectorise
from hpcml.errors import DataError, OptionError
from hpcml.mpi.routing import Routing

PACKAGES = ("numpy", "scipy", "sklearn", "numba", "llvmlite", "h5py", "mpi4py")
SKIPPED = {"test", "tests", "site-packages", "dist-packages", "idlelib", "lib2to3", "distutils", "turtledemo"}
MIN_WORDS = 5
DIGEST_BYTES = 16

_Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | _Named


class ModuleFile(NamedTuple):
    """A module's dotted name, its file and the file's size in bytes."""

    module: str
    path: Path
    size: int


class Docstring(NamedTuple):
    """A docstring, the dotted name of what it documents, and of the module that it stands in."""

    name: str
    module: str
    text: str


def modules_below(folder: Path, prefix: str) -> Iterator[ModuleFile]:
    """The modules in a package's folder and those below; no tests. Raises OSError."""
    for path in folder.iterdir():
        name = path.stem if path.suffix == ".py" else path.name
        dotted = f"{prefix}.{name}" if prefix else name
        if not name.isidentifier() or name in SKIPPED:
            continue
        if path.suffix == ".py" and path.is_file():
            yield ModuleFile(prefix if name == "__init__" else dotted, path, path.stat().st_size)
        elif path.is_dir():
            yield from modules_below(path, dotted)


def find_modules() -> list[ModuleFile]:
    """The modules of the standard library and of installed PACKAGES, by name, each once."""
    found = {source.module: source for source in modules_below(Path(sysconfig.get_path("stdlib")), "")}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            found |= {source.module: source for source in modules_below(Path(folder), package)}
    return [found[module] for module in sorted(found)]


def docstrings_of(module: str, code: bytes) -> Iterator[Docstring]:
    """The docstrings in a module, in the order of the file; none if it cannot be parsed."""
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


def first_of_each(comm: mpi.Comm, texts: list[str]) -> list[bool]:
    """Collective over `comm`. Whether a text is the first of its kind. Only digests travel."""
    codes = b"".join(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:DIGEST_BYTES] for text in texts)
    digests = np.frombuffer(codes, dtype=f"S{DIGEST_BYTES}")
    owners = np.frombuffer(codes, dtype=np.uint64)[:: DIGEST_BYTES // 8] % np.uint64(comm.size)
    routing = Routing(comm, owners.astype(np.int64))
    received = routing.send(digests)
    first = np.zeros(received.size, dtype=np.uint8)
    first[np.unique(received, return_index=True)[1]] = 1
    return routing.answer(first).astype(bool).tolist()


def read_docstrings(task: Conversion) -> Part:
    """Collective. Read modules, shared out by their sizes. Raises DataError."""
    sources = mpi.run_on_root(task.comm, "looking for Python modules", find_modules)
    if not sources:
        raise DataError(f"{sysconfig.get_path('stdlib')}: no Python source; docstrings needs an installed standard library")
    corpus = Corpus(task)
    for field in corpus.fields:
        if field.name not in ("title", "text"):
            raise OptionError("fields", field.name, "docstrings have the fields title and text; choose of these")
    begin, end = task.share_by_weight([source.size for source in sources])
    documents: list[Docstring] = []
    with mpi.agreed(task.comm, "reading Python modules"):
        for source in sources[begin:end]:
            documents += docstrings_of(source.module, source.path.read_bytes())
    firsts = first_of_each(task.comm, [document.text for document in documents])
    with mpi.agreed(task.comm, "reading Python modules"):
        for document in compress(documents, firsts):
            parts = document.module.split(".")
            labels = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
            texts = {"title": document.name.rpartition(".")[2].partition("#")[0], "text": document.text}
            corpus.add(document.name, [[texts[field.name]] for field in corpus.fields], labels, "")
    task.log.detail(f"docstrings of {len(sources):,} modules: read; making rows")
    return vectorise(task, corpus)
