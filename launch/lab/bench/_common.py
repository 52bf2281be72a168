"""Shared code of the benchmarks: the parser, training as a subprocess, rows and labels in memory."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
import scipy.sparse as sp

import hpcml
from hpcml.errors import ConfigError
from launch.lab.core.timing import Usage, run_hpcml

ROOT = Path(__file__).resolve().parents[3]
TRAINED = re.compile(r"(?:trained|learnt?|learned)\b.* in ([\d.e+-]+) s\b")


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Raise ConfigError."""
        raise ConfigError(f"{self.prog.rpartition(' ')[2]}: {message}")


def parser_of(name: str, about: str | None) -> Parser:
    """Return the parser of a benchmark; `about` is its module's docstring."""
    formatter = argparse.RawDescriptionHelpFormatter
    return Parser(prog=f"python -m launch.lab bench {name}", description=about, formatter_class=formatter, allow_abbrev=False)


class Trained(NamedTuple):
    """A finished training."""

    model: Path
    seconds: float  # of training alone, as the command reports them
    usage: Usage  # of the whole command


def train(method: str, data: Path, run: Path, *options: object, ranks: int = 1) -> Trained:
    """Train by `hpcml train`, replacing what is in the folder `run`."""
    log = run.with_name(f"{run.name}.log")
    log.unlink(missing_ok=True)
    usage = run_hpcml("train", method, data, "-o", run, "--force", *options, ranks=ranks, log=log)
    found = TRAINED.findall(log.read_text(encoding="utf-8", errors="replace") + usage.output)
    if not found:
        raise ConfigError(f"`hpcml train {method}` reported no seconds of training")
    return Trained(run / "model.h5", float(found[-1]), usage)


class Rows(NamedTuple):
    """Training rows and test rows of a dataset."""

    X: sp.csr_matrix
    Y: sp.csr_matrix
    X_test: sp.csr_matrix
    Y_test: sp.csr_matrix
    names: list[str]  # of the labels

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """Return the numbers of some labels."""
        place = {name: number for number, name in enumerate(self.names)}
        return np.array([place[name] for name in names], dtype=int)


def read_rows(data: Path, train_split: str = "", test_split: str = "", test_data: Path | None = None) -> Rows:
    """Return the rows of two splits (default: train and test; all rows where there is no such split)."""
    with ExitStack() as stack:
        dataset = stack.enter_context(hpcml.Dataset(data))
        test = dataset if test_data in (None, data) else stack.enter_context(hpcml.Dataset(test_data))
        splits = [
            name or (usual if usual in each.split_names() else "all")
            for each, name, usual in ((dataset, train_split, "train"), (test, test_split, "test"))
        ]
        X, Y = dataset.matrix(splits[0]), dataset.labels(splits[0])
        return Rows(X, Y, test.matrix(splits[1]), test.labels(splits[1]), dataset.label_names())
