"""The commands that describe and change datasets: `hpcml info`, `split`, `select`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from hpcml.cli.session import Data, Here, Output, say_once
from hpcml.options import Flag, Several
from hpcml.reduce.options import SelectOptions


def info(file: Path, /, *, ranks: Annotated[tuple[int, ...], Several] = (1, 2, 4), check: bool = True, session: Here) -> None:
    """Show what a dataset holds, or what a model is.

    Of a dataset also what a shard weighs on so many ranks; every row is checked.

    Parameters
    ----------
    file:
        A dataset made with `hpcml convert`, or a model: the model.h5 of a run, or its folder.
    ranks:
        Numbers of ranks to weigh shards for.
    check:
        Read and check the whole file.
    """
    from hpcml.data.info import format_info
    from hpcml.data.info import info as work
    from hpcml.model.info import format_model
    from hpcml.model.open import kind_of, share_model
    from hpcml.mpi import run_on_root

    kind = run_on_root(session.comm, f"opening {file}", partial(kind_of, file))
    if kind in ("model", "classifier"):
        say_once(session, format_model(share_model(session.comm, file)))
    else:
        say_once(session, format_info(work(session.comm, file, list(ranks), check)))


def split(
    file: Data,
    /,
    *,
    output: Output | None = None,
    test_share: float = 0.3,
    valid_share: float | None = None,
    stratified: Flag = False,
    seed: int = 0,
    force: Flag = False,
    session: Here,
) -> None:
    """Divide the rows of a dataset into train, test and valid.

    In valid, if it is wanted, `hpcml threshold` and `calibrate` look.

    Parameters
    ----------
    output:
        Where to write the dataset with the splits. Default: replace the file.
    test_share:
        The share of the rows that become test rows.
    valid_share:
        The share of the rows that become rows of the split valid. Default: there is none. The test
        rows are the same with it.
    stratified:
        Keep the share within every label (by each row's rarest label).
    seed:
        Another seed gives another division.
    force:
        Replace splits, or an output, that exist.
    """
    from hpcml.conversion.split import split as work

    work(session.comm, file, output, test_share, stratified, seed, force, session.log, valid_share)


def select(
    file: Path,
    /,
    *,
    output: Output,
    options: SelectOptions = SelectOptions(),  # noqa: B008 - frozen
    force: Flag = False,
    session: Here,
) -> None:
    """Keep some features of a dataset, or of a model of bw or mbw.

    Of a dataset by information gain, chi-square or EFS, of a model by EFS.
    EFS, extremal feature selection, keeps the features whose positive and negative weights differ
    most, and some that differ least.

    Parameters
    ----------
    file:
        A dataset made with `hpcml convert`, or a run folder of bw or mbw, or its model.h5.
    output:
        The dataset or model to make; a list of its features goes beside it.
    force:
        Replace the output and the list if they exist.
    """
    from hpcml.reduce.select import select as work

    say_once(session, work(session.comm, file, output, options, force, session.log))
