"""The papers, by name."""

from __future__ import annotations

import json
from importlib.resources import files

from hpcml.errors import ConfigError
from hpcml.papers import bayes, extreme, online, probe, psbml
from hpcml.papers.exhibit import Exhibit, Numbers, Paper

PAPERS = {paper.name: paper for paper in (probe.PAPER, online.PAPER, extreme.PAPER, bayes.PAPER, psbml.PAPER)}


def exhibit_named(paper: str, name: str) -> tuple[Paper, Exhibit]:
    """A paper and one of its exhibits. Raises ConfigError."""
    if paper not in PAPERS:
        raise ConfigError(f"there is no paper {paper!r}; the papers are {', '.join(PAPERS)}")
    known = {exhibit.name: exhibit for exhibit in PAPERS[paper].exhibits}
    if name not in known:
        raise ConfigError(f"{paper} has no {name!r}; it has {', '.join(known)}")
    return PAPERS[paper], known[name]


def published(paper: str, exhibit: str) -> Numbers:
    """The numbers that are printed in the paper; none where there are only curves."""
    text = files("hpcml.papers").joinpath("published", f"{paper}.json").read_text(encoding="utf-8")
    found: Numbers = json.loads(text).get(exhibit, {})
    return found


def listing() -> str:
    """All tables and figures, a line each."""
    lines = []
    for paper in PAPERS.values():
        lines += ["", f"{paper.name}: {paper.source}"]
        for exhibit in paper.exhibits:
            why = "" if exhibit.make else f" (cannot be made: {exhibit.lacks})"
            lines.append(f"  {exhibit.name:16} {exhibit.title}{why}")
    return "\n".join([*lines[1:], "", "Make one: hpcml paper PAPER NAME -o FOLDER [DATA.h5 …] [--quick]"])
