"""Imports: packages in layers, no cycles between files, and one package for each foreign library."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import hpcml

TOP = Path(hpcml.__file__).parent
# From the bottom: a package imports only from its own layer and from lower ones.
ORDER = [
    {"errors", "log", "rng", "partition", "slices", "options", "signals", "deferred", "loading", "launcher", "version"},
    {"files", "mpi", "kernels"},
    {"data", "losses", "measures", "leave_one_out"},
    {"model"},
    {"run"},
    {"estimators"},  # shared by the estimators of all methods
    {"methods"},
    {"conversion", "evaluation", "prediction", "tuning", "crossval", "reduce", "near_duplicates", "planning", "reporting"},
    {"serving", "check"},
    {"commands"},
    {"cli"},
    {"__main__", "dataset", ""},  # "" is the package itself
]
USES_ONE_METHOD = {"reduce"}  # selection by the weights of one method
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
PATH = re.compile(r"hpcml(\.\w+)+(:\w+)?")


@dataclass(frozen=True)
class Import:
    name: str
    at_run_time: bool  # not only for type checkers, and not in a string
    line: int


def module_of(path):
    return ".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix("__init__").rstrip(".")


FILES = {module_of(path): path for path in sorted(TOP.rglob("*.py"))}


def resolve(name):
    if name.split(".")[0] != "hpcml":
        return None
    parts = name.replace(":", ".").split(".")[1:]
    while parts and ".".join(parts) not in FILES:
        parts.pop()
    return ".".join(parts)


def list_imports(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    type_checking = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            type_checking |= {id(inner) for each in node.body for inner in ast.walk(each)}
    constants = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constants[node.targets[0].id] = format_string(node.value, constants)
    for node in ast.walk(tree):
        names, at_run_time = [], id(node) not in type_checking
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant | ast.JoinedStr) and PATH.fullmatch(text := format_string(node, constants)):
            names, at_run_time = [text], False
        for name in names:
            yield Import(name, at_run_time, node.lineno)


def format_string(node, constants):
    if isinstance(node, ast.JoinedStr):
        return "".join(format_string(part, constants) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return constants.get(ast.unparse(node.value), "?")
    if ast.unparse(node).startswith("__name__.rpartition"):
        return "hpcml.methods"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "?"


IMPORTS = {module: list(list_imports(path)) for module, path in FILES.items()}


def own_imports(module, at_run_time=False):
    for each in IMPORTS[module]:
        name = resolve(each.name)
        if name is not None and (each.at_run_time or not at_run_time):
            yield name, each


def room_of(module):
    return module.split(".")[0]


def test_nothing_imports_from_a_higher_layer():
    upward = [
        f"{FILES[module]}:{each.line}: {each.name}"
        for module in FILES
        for name, each in own_imports(module)
        if LEVELS[room_of(name)] > LEVELS[room_of(module)]
    ]
    assert not upward, "\n".join(upward)


def find_cycles(graph):
    while leaves := {node for node, needed in graph.items() if not needed}:
        graph = {node: needed - leaves for node, needed in graph.items() if node not in leaves}
    return sorted(graph)


def test_no_cycle_between_files():
    graph = {module: {name for name, _ in own_imports(module, at_run_time=True) if name not in ("", module)} for module in FILES}
    assert find_cycles(graph) == []


def test_no_cycle_between_packages():
    graph = {room_of(module): set() for module in FILES}
    for module in FILES:
        graph[room_of(module)] |= {room_of(name) for name, _ in own_imports(module)} - {"", room_of(module)}
    assert find_cycles(graph) == []


@pytest.mark.parametrize(("library", "package"), [("mpi4py", "mpi"), ("numba", "kernels"), ("llvmlite", "kernels")])
def test_library_is_used_in_one_package(library, package):
    users = {module for module in FILES for each in IMPORTS[module] if each.name.split(".")[0] == library}
    assert {room_of(module) for module in users} == {package}
    if library == "llvmlite":  # kernels.cache reads its version
        assert all(module.startswith("kernels.lanes.") for module in users - {"kernels.cache"}), users


def method_room(module):
    parts = module.split(".")
    return parts[1] if parts[0] == "methods" and len(parts) > 2 else None


def test_methods_do_not_import_one_another():
    for module in FILES:
        here = method_room(module)
        if here is not None:
            others = {method_room(name) for name, _ in own_imports(module)} - {None, here, "linear"}
            assert not others, f"{module} imports methods/{', '.join(others)}"
            assert "methods.registry" not in {name for name, _ in own_imports(module)}, module


def test_only_the_registry_imports_methods():
    rooms = {method_room(module) for module in FILES} - {None}
    named = {method_room(name) for name, _ in own_imports("methods.registry")} - {None}
    assert named | {"linear"} == rooms
    for module in FILES:
        if room_of(module) == "methods" or {room_of(module), module} & USES_ONE_METHOD:
            continue
        named = {name for name, _ in own_imports(module) if method_room(name) not in (None, "linear")}
        if module == "":  # the public classes
            named = {name for name in named if not name.endswith("estimator")}
        assert not named, f"{FILES[module]} names {sorted(named)}"
