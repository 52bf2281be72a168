"""Who may import what: rooms in layers, no circles between files, and each foreign library at home in one room."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

import hpcml

TOP = Path(hpcml.__file__).parent
# From the ground up: a room imports only from its own layer and from lower ones.
ORDER = [
    {"errors", "log", "rng", "partition", "slices", "options", "signals", "deferred", "loading", "launcher", "version"},
    {"files", "mpi", "kernels"},
    {"data", "losses", "measures"},
    {"model"},
    {"engine", "run"},
    {"estimators"},  # what the estimators of all methods share; it knows no method
    {"methods"},
    {"conversion", "evaluation", "prediction", "tuning", "crossval", "reduce", "near_duplicates", "planning", "reporting"},
    {"serving", "check"},
    {"commands"},
    {"cli"},
    {"__main__", "dataset", ""},  # "" is the package itself
]
OF_ONE_METHOD = {"reduce"}  # selection by the weights of a single method
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
PATH = re.compile(r"hpcml(\.\w+)+(:\w+)?")


@dataclass(frozen=True)
class Import:
    """That a file names a module of ours, or the first part of another's."""

    name: str
    running: bool  # not only for type checkers, nor only as a text that is resolved when it is needed
    line: int
    text: bool = False


def module_of(path):
    """The dotted name of a file, without `hpcml.`."""
    return ".".join(path.relative_to(TOP).with_suffix("").parts).removesuffix("__init__").rstrip(".")


FILES = {module_of(path): path for path in sorted(TOP.rglob("*.py"))}


def resolved(name):
    """The module that a dotted name of ours is, or is in; None for another's."""
    if name.split(".")[0] != "hpcml":
        return None
    parts = name.replace(":", ".").split(".")[1:]
    while parts and ".".join(parts) not in FILES:
        parts.pop()
    return ".".join(parts)


def imports_of(path):
    """Every Import of a file, wherever it is in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    checked = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            checked |= {id(inner) for each in node.body for inner in ast.walk(each)}
    for node in ast.walk(tree):
        names, running = [], id(node) not in checked
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and PATH.fullmatch(node.value):
            names, running = [node.value], False
        elif isinstance(node, ast.JoinedStr):  # f"{_PROBE}.train:train", with the constant's value
            text = "".join(_text(part, tree) for part in node.values)
            names, running = [text] if PATH.fullmatch(text) else [], False
        for name in names:
            yield Import(name, running, node.lineno, isinstance(node, ast.Constant | ast.JoinedStr))


def _text(part, tree):
    """A part of an f-string, as far as it is known: the values of constants of the file."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    wanted = ast.unparse(part.value)
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = zip(target.elts, node.value.elts, strict=True)
                for name, value in pairs:
                    if ast.unparse(name) == wanted and isinstance(value, ast.Constant):
                        return str(value.value)
    return "?"


IMPORTS = {module: list(imports_of(path)) for module, path in FILES.items()}


def ours(module, running_only=False):
    """The modules of ours that a module names: (name, Import)."""
    for one in IMPORTS[module]:
        found = resolved(one.name)
        if found == "" and one.text:
            continue  # what earlier versions had
        if found is not None and (one.running or not running_only):
            yield found, one


def room_of(module):
    return module.split(".")[0]


def test_every_room_has_a_place():
    assert {room_of(module) for module in FILES} <= LEVELS.keys()


def test_nothing_imports_upward():
    """Nor names what is above, for type checkers or as a text; what the package gives to users it names from above."""
    found = []
    for module in FILES:
        for name, one in ours(module):
            if LEVELS[room_of(name)] > LEVELS[room_of(module)]:
                found.append(f"{FILES[module]}:{one.line}: {one.name}")
    assert not found, "\n".join(found)


def in_circles(graph):
    """The nodes of a graph that are in a circle, or lead to one."""
    while leaves := {node for node, needed in graph.items() if not needed}:
        graph = {node: needed - leaves for node, needed in graph.items() if node not in leaves}
    return sorted(graph)


def test_no_circle_between_files():
    graph = {module: {name for name, _ in ours(module, running_only=True) if name not in ("", module)} for module in FILES}
    assert in_circles(graph) == []


def test_no_circle_between_rooms():
    graph = {room_of(module): set() for module in FILES}
    for module in FILES:
        graph[room_of(module)] |= {room_of(name) for name, _ in ours(module)} - {"", room_of(module)}
    assert in_circles(graph) == []


def test_circles_are_found():
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set(), "e": {"d"}}) == ["a", "b", "c"]


@pytest.mark.parametrize(("package", "room"), [("mpi4py", "mpi"), ("numba", "kernels")])
def test_one_room_only(package, room):
    users = {module for module in FILES for one in IMPORTS[module] if one.name.split(".")[0] == package}
    assert {room_of(module) for module in users} == {room}


def test_instructions_are_written_in_one_room():
    users = {module for module in FILES for one in IMPORTS[module] if one.name.split(".")[0] == "llvmlite"} - {
        "kernels.cache"
    }  # which asks for its version
    assert users and all(module.startswith("kernels.lanes.") for module in users), users


def method_room(module):
    """The room of a method that a module is in; None for others."""
    parts = module.split(".")
    return parts[1] if parts[0] == "methods" and len(parts) > 2 else None


def test_methods_do_not_import_one_another():
    """They share linear/, which knows none of them."""
    for module in FILES:
        here = method_room(module)
        if here is not None:
            others = {method_room(name) for name, _ in ours(module)} - {None, here, "linear"}
            assert not others, f"{module} imports methods/{', '.join(others)}"
            assert "methods.registry" not in {name for name, _ in ours(module)}, module


def test_only_the_registry_names_methods():
    rooms = {method_room(module) for module in FILES} - {None}
    named = {method_room(name) for name, _ in ours("methods.registry")} - {None}
    assert named | {"linear"} == rooms  # which trains the methods that have nothing else that does
    for module in FILES:
        if room_of(module) == "methods" or {room_of(module), module} & OF_ONE_METHOD:
            continue
        named = {name for name, _ in ours(module) if method_room(name) not in (None, "linear")}
        if module == "":  # what the package gives to users
            named = {name for name in named if not name.endswith("estimator")}
        assert not named, f"{FILES[module]} names {sorted(named)}"


@pytest.mark.parametrize(
    "path", [path for path in FILES.values() if path.name == "__init__.py" and path.parent != TOP], ids=module_of
)
def test_a_room_says_where_to_begin(path):
    about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if module_of(path) == "kernels.lanes":  # which shows how a kernel is made
        return
    sentence = re.split(r"\.\s", about[about.index("Begin with") :] + " ")[0]
    names = [
        name if name.startswith("hpcml.") else f"hpcml.{module_of(path)}.{name}" for name in re.findall(r"`([\w.]+)`", sentence)
    ]
    assert names
    assert [name for name in names if name.removeprefix("hpcml.") not in FILES] == []


def test_a_class_name_is_taken_once():
    names = [
        node.name
        for path in FILES.values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert {name for name in names if names.count(name) > 1} == set()
