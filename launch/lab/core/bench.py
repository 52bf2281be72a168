"""The harness of benchmarks: settings from the signature of a function, a scratch folder, JSON lines and tables."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any, Literal, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp

import hpcml
from hpcml.errors import ConfigError, HpcmlError
from launch.lab.core.tables import read_json, table
from launch.lab.core.timing import Usage, hpcml_command, print_json, run_command, run_hpcml

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "launch" / "lab" / "bench"
TRAINED = re.compile(r"(?:trained|learnt?|learned)\b.* in ([\d.e+-]+) s\b")


class Failed(HpcmlError):
    """A benchmark found a defect: exit code 1."""

    exit_code = 1


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{self.prog.rpartition(' ')[2]}: {message}")


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def run_bench(name: str, words: Sequence[str]) -> None:
    """Run `run(folder, **settings)` of a benchmark's module and print each of its lines. Raises ConfigError and Failed.

    The first argument of `run` is a scratch folder. The others are the settings: positional arguments, and options
    (keyword-only), with the types and defaults of the signature. `options` takes all other words; they go to `hpcml`.
    """
    module = import_module(f"launch.lab.bench.{name}")
    parser, rest = parser_of(name, module)
    namespace, unknown = parser.parse_known_args(words)
    if unknown and not rest:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    settings = vars(namespace)
    scratch, as_table = settings.pop("scratch"), settings.pop("table")
    if rest:
        settings[rest] = [word for word in unknown if word != "--"]
    lines = []
    with tempfile.TemporaryDirectory(dir=scratch, prefix=f"lab-{name}-") as folder:
        for line in module.run(Path(folder), **settings):
            print_json(**line)
            lines.append(line)
    if as_table:
        print("\n".join(tables(lines)))


def parser_of(name: str, module: ModuleType) -> tuple[Parser, str]:
    """Return the parser of a benchmark's settings, and the name of the setting that takes all other arguments ("": none)."""
    about, formatter, rest = module.__doc__, argparse.RawDescriptionHelpFormatter, ""
    parser = Parser(prog=f"python -m launch.lab bench {name}", description=about, formatter_class=formatter, allow_abbrev=False)
    hints = get_type_hints(module.run)
    for setting in list(signature(module.run).parameters.values())[1:]:
        kind, default, flag = hints[setting.name], setting.default, f"--{setting.name.replace('_', '-')}"
        if get_origin(kind) is UnionType:
            kind = get_args(kind)[0]
        options: dict[str, Any] = {} if default in (Parameter.empty, None, ()) else {"help": "default: %(default)s"}
        if many := get_origin(kind) is tuple:
            kind, options["nargs"] = get_args(kind)[0], "+"
        if get_origin(kind) is Literal:
            options["choices"], kind = get_args(kind), str
        if setting.name == "options":
            rest = setting.name
        elif setting.kind is Parameter.POSITIONAL_OR_KEYWORD:
            if default is not Parameter.empty:
                options |= {"default": default, "nargs": "*" if many else "?"}
            parser.add_argument(setting.name, type=kind, **options)
        elif kind is bool:
            parser.add_argument(flag, action="store_true")
        else:
            flags = ["-o", flag] if setting.name == "output" else [f"-{setting.name}"] if len(setting.name) == 1 else [flag]
            presence = {"required": True} if default is Parameter.empty else {"default": default}
            parser.add_argument(*flags, type=kind, action=_Several if many else "store", **presence, **options)
    parser.add_argument("--scratch", type=Path, help="parent of the scratch folder")
    parser.add_argument("--table", action="store_true", help="also print a table")
    return parser, rest


class _Several(argparse.Action):
    """Values of an option that may be repeated; the first value replaces the default."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, _flag: str | None = None
    ) -> None:
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, (*(() if before is self.default else before), *values))


def tables(lines: Iterable[Mapping[str, Any]]) -> list[str]:
    """Format JSON lines as tables; lines with the same first key share a table."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault(next(iter(line)), []).append(line)
    results = []
    for group in groups.values():
        columns = list(dict.fromkeys(key for line in group for key in line))
        results += ["", *table([columns, *([_cell(line.get(key)) for key in columns] for line in group)])]
    return results


def _cell(value: Any) -> str:
    unknown = value is None or value != value
    return "-" if unknown else f"{value:.6g}" if isinstance(value, float) else str(value)


def rounded(digits: int = 5, **values: Any) -> dict[str, Any]:
    """Round numbers to `digits` significant digits."""
    return {name: float(f"{value:.{digits}g}") if isinstance(value, float) else value for name, value in values.items()}


class Trained(NamedTuple):
    model: Path
    seconds: float  # of training alone, as the command reports them
    usage: Usage  # of the whole command
    messages: str


def train(method: str, data: Path, run: Path, *options: object, ranks: int = 1) -> Trained:
    log = run.with_name(f"{run.name}.log")
    log.unlink(missing_ok=True)
    usage = run_hpcml("train", method, data, "-o", run, "--force", *options, ranks=ranks, log=log)
    messages = log.read_text(encoding="utf-8", errors="replace") + usage.output
    results = TRAINED.findall(messages)
    if not results:
        raise ConfigError(f"`hpcml train {method}` printed no training time")
    return Trained(run / "model.h5", float(results[-1]), usage, messages)


def run_sampled(*words: object, ranks: int = 1, timeout: float | None = None) -> tuple[Usage, list[dict[str, float]]]:
    """Run a command of hpcml as `core/ranks.py` does; return its usage, with its messages, and the figures of every rank."""
    env = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1") | {"PYTHONPATH": str(ROOT)}
    if ranks > len(os.sched_getaffinity(0)):
        env["MPIR_CVAR_ENABLE_HEAVY_YIELD"] = "1"  # as launch/env.sh has it
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name) / "log"
        command = hpcml_command(words, ranks)
        command[command.index("hpcml") : command.index("hpcml") + 1] = ["launch.lab.core.ranks", name, repr(time.time())]
        used = run_command(command, timeout=timeout, log=log, env=env)
        by_rank = [read_json(path) for path in folder.glob("*.json")]
        return used._replace(output=log.read_text(encoding="utf-8", errors="replace") + used.output), by_rank


class Rows(NamedTuple):
    X: sp.csr_matrix
    Y: sp.csr_matrix
    X_test: sp.csr_matrix
    Y_test: sp.csr_matrix
    names: list[str]  # of the labels

    def columns(self, names: Sequence[str]) -> np.ndarray:
        index = {name: number for number, name in enumerate(self.names)}
        return np.array([index[name] for name in names], dtype=int)


def read_rows(data: Path, train_split: str = "", test_split: str = "", test_data: Path | None = None) -> Rows:
    """Return the rows of two splits (default: train and test; all rows where a split is missing)."""
    with ExitStack() as stack:
        dataset = stack.enter_context(hpcml.Dataset(data))
        test = dataset if test_data in (None, data) else stack.enter_context(hpcml.Dataset(test_data))
        splits = [
            name or (usual if usual in each.split_names() else "all")
            for each, name, usual in ((dataset, train_split, "train"), (test, test_split, "test"))
        ]
        names, names_of_test = dataset.label_names(), test.label_names()
        if names != names_of_test:
            raise ConfigError(f"{test_data} has other labels than {data}")
        X, Y = dataset.matrix(splits[0]), dataset.labels(splits[0])
        return Rows(X, Y, test.matrix(splits[1]), test.labels(splits[1]), names)


def rewrite(data: Path, path: Path, Y: sp.csr_matrix | None = None, splits: Mapping[str, np.ndarray] | None = None) -> None:
    """Write a dataset with other labels or splits; feature names are dropped."""
    with hpcml.Dataset(data) as dataset:
        Y = dataset.labels() if Y is None else Y
        splits = splits or {name: np.array(dataset.split(name)) for name in dataset.split_names()} or None
        results = hpcml.Dataset.from_sparse(dataset.matrix(), Y, path, label_names=dataset.label_names(), splits=splits, force=True)
    results.__exit__(None, None, None)
