"""The command that chooses features: `hpcml select`."""

from __future__ import annotations

from pathlib import Path

from hpcml.cli.session import Here, Output, say_once
from hpcml.options import Flag
from hpcml.reduce.options import SelectOptions


def select(
    file: Path,
    /,
    *,
    output: Output,
    options: SelectOptions = SelectOptions(),  # noqa: B008 - frozen
    force: Flag = False,
    session: Here,
) -> None:
    """Keep some features of a dataset (by information gain, chi-square or EFS) or of a model of bw
    or mbw (by EFS).

    EFS, extremal feature selection, keeps the features whose positive and negative weights differ
    most, and some that differ least.

    Parameters
    ----------
    file:
        A dataset made with `hpcml convert`, or the model.h5 of a run of bw or mbw.
    output:
        The dataset or model to make; a list of its features goes beside it.
    force:
        Replace the output and the list if they exist.
    """
    from hpcml.reduce.select import select as work

    say_once(session, work(session.comm, file, output, options, force, session.log))
