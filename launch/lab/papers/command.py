"""Make one exhibit of a paper: `hpcml paper PAPER EXHIBIT`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hpcml import mpi
from hpcml.errors import ConfigError
from hpcml.files.atomic import write_json
from hpcml.kernels.processor import computed_by
from hpcml.papers.outcome import Outcome, judged, text, write
from hpcml.papers.registry import exhibit_named, published
from hpcml.papers.study import STEPS, Command, PaperStudy
from hpcml.run.session import Session, Target

MARK = "paper.json"  # in a study's folder: what it is a study of


def make(session: Session, names: tuple[str, str], target: Target, given: Sequence[Path], quick: bool, command: Command) -> str:
    """Collective over the session. Make an exhibit's numbers in a folder, write what was found.

    names: of the paper and of the exhibit. `command` runs `hpcml WORDS…`. Returns what is printed.
    Raises ConfigError for what makes no sense, Interrupted after a signal, and what the commands
    raise.
    """
    paper, exhibit = exhibit_named(*names)
    if exhibit.make is None:
        raise ConfigError(f"{paper.name} {exhibit.name} cannot be made: {exhibit.lacks}")
    if quick and given:
        raise ConfigError("--quick takes small made rows; leave it out, or the data")
    if given and not exhibit.kind:
        raise ConfigError(f"{paper.name} {exhibit.name} takes no data")
    folder = target.output
    mark = {"paper": paper.name, "exhibit": exhibit.name, "quick": quick, "data": [str(path.resolve()) for path in given]}
    mpi.run_on_root(session.comm, f"opening {folder}", partial(_open, target, mark))
    study = PaperStudy(session, exhibit, folder, command, quick=quick, given=given, anew=target.force)
    finding = exhibit.make(study)
    words = ("hpcml", "paper", *names, *(path.name for path in given), *["--quick"] * quick)
    outcome = Outcome(
        paper=paper.name,
        exhibit=exhibit.name,
        command=" ".join(words),
        data=study.used,
        quick=quick,
        ranks=session.comm.size,
        seconds=round(sum(study.steps.values()), 1),
        numbers=finding.numbers,
        published=published(paper.name, exhibit.name),
        claims=judged(exhibit.claims, finding, quick),
        notes=list(finding.notes),
        made_on=computed_by(),
    )
    study.root(write, folder, outcome)
    return text(outcome, paper, exhibit)


def _open(target: Target, mark: dict[str, object]) -> None:
    """Begin a study's folder, or go on in it. Local; raises ConfigError."""
    folder, file = target.output, target.output / MARK
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; --output must name a folder")
    if folder.is_dir() and any(folder.iterdir()):
        before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        if before is None:
            raise ConfigError(f"{folder} is not empty and holds no study; name a new folder")
        if not (target.resume or target.force):
            raise ConfigError(f"{folder} has a study already; continue it with --resume, or begin anew with --force")
        if target.resume and before != mark:
            raise ConfigError(f"{folder} is a study of {before['paper']} {before['exhibit']}, on other data or in another form")
        if target.force:
            (folder / STEPS).unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(file, mark)
