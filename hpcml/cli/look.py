"""The commands that look into models and data: `hpcml explain`, `hpcml report` and `hpcml duplicates`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hpcml.cli.session import Command, Output, say_once
from hpcml.errors import ConfigError
from hpcml.options import Flag, Several


def explain(
    model: Path,
    data: Path | None = None,
    /,
    *,
    label: Annotated[tuple[str, ...], Several] = (),
    top: int = 10,
    json: Path | None = None,
    force: Flag = False,
) -> None:
    """Show what labels look at: the features of a linear model by squared weight, and what the other features weigh.

    Parameters
    ----------
    model:
        A model.h5 of a run folder.
    data:
        A dataset with the model's features, for their names. Default: features are numbered, from 0.
    label:
        Look at these labels. Default: the 5 labels of the most training rows; the JSON file has all labels.
    top:
        How many features of a label to show.
    json:
        Write the features of the labels, of all if none are named, to this file.
    force:
        Replace the JSON file if it exists.
    """
    from contextlib import nullcontext

    from hpcml.data.dataset import Dataset
    from hpcml.evaluation.explain import explain as work
    from hpcml.evaluation.explain import format_explanation, write_json
    from hpcml.files.atomic import check_output
    from hpcml.model.open import share_model
    from hpcml.mpi import agreed

    if force and json is None:
        raise ConfigError("--force has no effect without --json; leave it out")
    comm = Command.session.comm
    opened = share_model(comm, model)
    with agreed(comm, f"opening {data or model}"):
        if comm.rank == 0 and json is not None:
            check_output(json, force, [model, data])
        dataset = None if data is None else Dataset(data)
    with nullcontext() if dataset is None else dataset:
        found = work(comm, opened, dataset, label, top, json is not None)
    if found is not None:
        if data is not None and found.names is None:
            Command.session.log(f"note: {data} has no names of features: they are numbered, from 0")
        say_once(format_explanation(found))
    with agreed(comm, f"writing {json}"):
        if found is not None and json is not None:
            write_json(json, found)


def report(
    *runs: Path,
    output: Output,
    data: Path | None = None,
    split: str | None = None,
    force: Flag = False,
) -> None:
    """Make one page (HTML, no network needed) about a run, or several side by side: measures, curves, all labels, wrong rows.

    Parameters
    ----------
    runs:
        Run folders, or models. The first one is what the others are compared with.
    output:
        The page to make.
    data:
        A dataset to judge on, with the models' features and labels. Default: the data of each run.
    split:
        Rows to judge on: a split of the file, or all. Default: test if the file has it.
    force:
        Replace the page if it exists.
    """
    from hpcml.report.report import report as work

    work(Command.session.comm, runs, data, split, output, force, Command.session.log)


def duplicates(
    data: Path,
    /,
    *,
    split: str = "all",
    similarity: float = 0.8,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    csv: Path | None = None,
    json: Path | None = None,
    top: int = 10,
    force: Flag = False,
) -> None:
    """Find rows that are nearly the same, by the features that they have, and how far their labels agree.

    So one sees how consistent those were who gave the labels, for a document that is there twice has been labelled twice.

    Parameters
    ----------
    data:
        A dataset made with `hpcml convert`.
    split:
        Rows to look at: a split of the file, or all.
    similarity:
        Pairs of rows are alike if this share of the features that one or the other has are features of both (Jaccard), 0.1 to 1.
    output:
        Write the pairs to this CSV file.
    csv:
        Write the consistency of every label to this file.
    json:
        Write everything but the pairs to this file.
    top:
        How many of the most frequent labels to show.
    force:
        Replace the files if they exist.
    """
    from hpcml.data.dataset import Dataset
    from hpcml.mpi import agreed
    from hpcml.near_duplicates.report import check_outputs, format_duplicates, write_csv, write_json
    from hpcml.near_duplicates.search import find_duplicates

    if top < 0:
        raise ConfigError(f"--top {top}: expected at least 0")
    comm, outputs = Command.session.comm, {"--output": output, "--csv": csv, "--json": json}
    if force and not any(outputs.values()):
        raise ConfigError("--force has no effect without --output, --csv or --json; leave it out")
    with agreed(comm, f"opening {data}"):
        dataset = Dataset(data)
        if comm.rank == 0:
            check_outputs(outputs, force, data)
    with dataset:
        found = find_duplicates(comm, dataset, split, similarity, output, Command.session.log)
    say_once(format_duplicates(found, top))
    with agreed(comm, "writing the consistency of the labels"):
        if comm.rank == 0:
            for path, write in ((csv, write_csv), (json, write_json)):
                if path is not None:
                    write(path, found)
