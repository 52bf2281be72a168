"""The commands that look into models and data: `hpcml explain` and `hpcml duplicates`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from hpcml.cli.session import Command, say_once
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
