"""The papers, by name."""

from __future__ import annotations

from importlib import import_module

from hpcml.errors import ConfigError
from launch.lab.core.exhibit import Paper

NAMES = ("probe", "online", "extreme", "bayes", "psbml")


def paper_named(name: str) -> Paper:
    """Return a paper. Raises ConfigError."""
    if name not in NAMES:
        raise ConfigError(f"unknown paper {name!r}; the papers are {', '.join(NAMES)}")
    found: Paper = import_module(f"launch.lab.papers.{name}").PAPER
    return found


def all_papers() -> list[Paper]:
    """Return all papers, in the order of the page."""
    return [paper_named(name) for name in NAMES]


def listing() -> str:
    """Return the list of all tables and figures, a line each."""
    lines = []
    for paper in all_papers():
        lines += ["", f"{paper.name}: {paper.source}"]
        for exhibit in paper.exhibits:
            why = "" if exhibit.make else f" (cannot be made: {exhibit.lacks})"
            lines.append(f"  {exhibit.name:16} {exhibit.title}{why}")
    return "\n".join([*lines[1:], "", "Make one: python -m launch.lab paper PAPER EXHIBIT -o FOLDER [DATA.h5 …] [--quick]"])
