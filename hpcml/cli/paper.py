"""The command `hpcml paper`: the tables and figures of the five papers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from hpcml.cli.session import GIVEN, OUTPUT, Here, check_files, say_once, write_files
from hpcml.errors import ConfigError
from hpcml.options import Flag

Commands = Annotated[Any, GIVEN]  # Callable[[Sequence[str]], None]: runs another command of hpcml, given as `Here` is


def paper(
    name: str | None = None,
    exhibit: str | None = None,
    /,
    *data: Path,
    output: Annotated[Path | None, Parameter(name=OUTPUT)] = None,
    quick: Flag = False,
    page: Path | None = None,
    resume: Flag = False,
    force: Flag = False,
    session: Here,
    commands: Commands,
) -> None:
    """Make a table or figure of the papers, and judge its claims.

    Without arguments all of them are listed.

    Parameters
    ----------
    name:
        A paper: probe, online, extreme, bayes or psbml.
    exhibit:
        One of its tables or figures, as table-3.
    data:
        Datasets made with `hpcml convert`, in place of the paper's. Default: those of the paper in
        the folder that HPCML_DATA names, or rows made on this machine.
    output:
        The folder for everything that is made; of --page the page.
    quick:
        On small made rows, in seconds: only to see that it works.
    page:
        Make a page (Markdown) of the outcomes, PAPER-EXHIBIT.json, in this folder.
    resume:
        Continue an interrupted study.
    force:
        Begin anew, or replace the page.
    """
    if page is not None:
        _page(session, page, output, force, {"a paper": name is not None, "--quick": quick, "--resume": resume})
        return
    if name is None:
        from hpcml.papers.registry import listing

        given = {"--output": output is not None, "--quick": quick, "--resume": resume, "--force": force}
        for flag in (flag for flag, is_given in given.items() if is_given):
            raise ConfigError(f"{flag} has no effect without a paper; name a paper and one of its tables or figures")
        say_once(session, listing())
        return
    if exhibit is None or output is None:
        missing = "a table or figure" if exhibit is None else "a folder: -o FOLDER"
        raise ConfigError(f"name {missing}; `hpcml paper` lists what there is")
    if resume and force:
        raise ConfigError("--resume and --force contradict each other")
    from hpcml.papers.command import make
    from hpcml.run.session import Target

    run: Callable[[Sequence[str]], None] = commands
    say_once(session, make(session, (name, exhibit), Target(output, force, resume), data, quick, run))


paper.resumable = True  # type: ignore[attr-defined]


def _page(session: Here, folder: Path, output: Path | None, force: bool, others: dict[str, bool]) -> None:
    """Write the page. Collective; raises ConfigError and DataError."""
    for what in (what for what, is_given in others.items() if is_given):
        raise ConfigError(f"{what} has no effect with --page; leave it out")
    if output is None:
        raise ConfigError("name the page to make: -o PAGE")
    from hpcml.papers.page import write

    check_files(session, output, force, [], output)
    write_files(session, "the page", folder, (output, lambda path, found: write(found, path)))
