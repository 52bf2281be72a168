"""The commands around single-pass learning: `hpcml train mbw` and the others, `cv`, `select`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from hpcml.cli.session import Output, Session, say_once
from hpcml.methods.online.learners import METHODS
from hpcml.methods.online.options import OnlineOptions
from hpcml.options import Flag
from hpcml.reduce.options import SelectOptions


def _command(method: str, what: str) -> Callable[..., None]:
    """The command that trains one method."""

    def train(
        data: Path,
        *,
        output: Output,
        options: OnlineOptions = OnlineOptions(),  # noqa: B008 - frozen
        config: Path | None = None,
        force: Flag = False,
        resume: Flag = False,
    ) -> None:
        from hpcml.methods.online.train import train_online as work

        Session.log.report(str(work(method, Session.comm, data, output, options, force, resume, Session.log, Session.signals)))

    train.__doc__ = f"""One model per label by {what}, in a single pass over the rows, in their order.

    Parameters
    ----------
    data:
        A dataset made with `hpcml convert`; or svmlight text: a file NAME.svm (plain, .gz, .bz2, .xz), or - for standard input.
    output:
        The run folder; must not exist without --resume or --force.
    config:
        A TOML file with any of these options; flags win over it.
    force:
        Start anew in an existing run folder.
    resume:
        Continue an interrupted run, on any number of ranks (a stream must be given from its beginning again).
    """
    return train


def cv(
    *names: str,
    folds: int = 5,
    label: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    split: str = "all",
    seed: int = 0,
    baseline: str | None = None,
    in_order: Flag = False,
    bias: Annotated[bool, Parameter(negative="--no-bias")] = True,
    output: Output | None = None,
    force: Flag = False,
) -> None:
    """Cross-validate methods on data: F1 of each, standard errors, paired t-tests, median F1 and average rank.

    Parameters
    ----------
    names:
        Methods and data, in any order. Methods: pw, bw, mbw, perceptron, pa, romma, their voted forms v-NAME, svm, nb, probe, a
        base learner of psbml, or the path of a scikit-learn classifier. Data: FILE, each of whose labels is told from all others,
        or FILE:LABEL.
    folds:
        Into how many parts the rows are dealt; each is judged once by models of the others.
    label:
        Only this label of the files that are named without one (may be repeated).
    split:
        Rows that take part: a split of the files, or all.
    seed:
        Another seed gives other folds, and another order of the training rows.
    baseline:
        The method that the others are compared with. Default: the first.
    in_order:
        Train on rows in the order of the file.
    bias:
        With --no-bias perceptron, pa, romma, their voted forms, svm and probe have no intercept.
    output:
        Write the table to this file as CSV, with F1 of each fold.
    force:
        Replace the output if it exists.
    """
    from hpcml.crossval.command import cv as work

    options = {"folds": folds, "label": label, "split": split, "seed": seed, "baseline": baseline}
    options |= {"in_order": in_order, "bias": bias}
    say_once(str(work(Session.comm, names, output, force, Session.log, **options)))


def select(
    file: Path,
    /,
    *,
    output: Output,
    options: SelectOptions = SelectOptions(),  # noqa: B008 - frozen
    force: Flag = False,
) -> None:
    """Keep some features of a dataset (by information gain, chi-square or EFS) or of a model of bw or mbw (by EFS).

    EFS, extremal feature selection, keeps the features whose positive and negative weights differ most, and some that differ least.

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

    say_once(work(Session.comm, file, output, options, force, Session.log))


def add_commands(app: App, train_app: App) -> list[Callable[..., None]]:
    """Add the commands of this file to `hpcml` and `hpcml train`; the functions that train."""
    commands = {name: _command(name, method.about) for name, method in METHODS.items()}
    for name, command in commands.items():
        train_app.command(command, name=name)
    app.command(cv)
    app.command(select)
    return list(commands.values())
