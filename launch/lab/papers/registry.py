"""Papers by name: texts are in PAPER.toml, code in the module PAPER or in the module that an exhibit names."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

from hpcml.errors import ConfigError
from launch.lab.core.exhibit import CLAIMS, Exhibit, Paper

NAMES = ("probe", "online", "extreme", "bayes", "psbml")


def paper_named(name: str) -> Paper:
    """Return a paper. Raises ConfigError."""
    if name not in NAMES:
        raise ConfigError(f"unknown paper {name!r}; the papers are {', '.join(NAMES)}")
    about = tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))
    exhibits = tuple(_exhibit(each, each.pop("code", name)) for each in about["exhibits"])
    return Paper(name, about["title"], about["source"], about["claims"], exhibits, tuple(about["learnt"]))


def _exhibit(about: dict[str, Any], code: str) -> Exhibit:
    """Return an exhibit: `table_3` of the module computes table-3; its claims are those of `claim("table-3", …)` and `TABLE_3`."""
    module, name = import_module(f"launch.lab.papers.{code}"), about["name"].replace("-", "_")
    claims = (*CLAIMS.get((module.__name__, about["name"]), ()), *getattr(module, name.upper(), ()))
    about |= {"page": about.get("page", 0), "lacks": about.get("lacks", "").format_map(vars(module))}
    about |= {key: tuple(about[key]) for key in ("corpora", "main") if key in about}
    return Exhibit(**about, make=getattr(module, name, None), claims=claims)


def all_papers() -> list[Paper]:
    return [paper_named(name) for name in NAMES]


def listing() -> str:
    lines = []
    for paper in all_papers():
        lines += ["", f"{paper.name}: {paper.source}"]
        for exhibit in paper.exhibits:
            why = "" if exhibit.make else f" (cannot be computed: {exhibit.lacks})"
            lines.append(f"  {exhibit.name:16} {exhibit.title}{why}")
    return "\n".join([*lines[1:], "", "Compute one: python -m launch.lab paper PAPER EXHIBIT -o FOLDER [DATA.h5 …] [--quick]"])
