"""The commands that look into models and data: `hpcml explain`, `hpcml report` and
`hpcml duplicates`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from hpcml.cli.session import Here, Output, say_once
from hpcml.errors import ConfigError
from hpcml.options import Flag, Several

if TYPE_CHECKING:
    from hpcml.data.dataset import DataFile
    from hpcml.evaluation.contributions import WhyRows
    from hpcml.evaluation.unlearnt import Learnability
    from hpcml.evaluation.wrong import MostWrong
    from hpcml.model.classifier import ClassifierModel
    from hpcml.model.linear import Model


def explain(
    model: Path,
    data: Path | None = None,
    /,
    *,
    label: Annotated[tuple[str, ...], Several] = (),
    row: Annotated[tuple[str, ...], Several] = (),
    wrong: int | None = None,
    unlearnt: Flag = False,
    split: str | None = None,
    top: int | None = None,
    titles: Path | None = None,
    json: Path | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Show what labels look at: the features of a linear model by squared weight, and what the
    other features weigh.

    With --row: why a row got a label. With --wrong: the rows that the model is most wrong about.
    With --unlearnt: the labels that it ranks no better than chance, and why. These three need the
    data, and the last two take models of any kind.

    Parameters
    ----------
    model:
        A run folder, or its model.h5.
    data:
        A dataset with the model's features, for their names. Default: features are numbered, from
        0.
    label:
        Look at these labels. Default: the 5 labels of the most training rows (the JSON file has all
        labels); with --row those of the row, those that it is given, and the best 3; with --wrong
        all labels together.
    row:
        Take apart the scores of the row with this id; of data without ids, with this number, from
        0.
    wrong:
        Show so many rows that miss a label, and as many that have one wrongly, farthest beyond its
        threshold.
    unlearnt:
        Show the labels that are not learnt, and labels of nearly the same rows.
    split:
        Rows for --wrong and --unlearnt: a split of the file, or all. Default: test if the file has
        it.
    top:
        How many features of a label, or of a row, to show. Default: 10.
    titles:
        JSON lines with the titles of the rows for --wrong, as those that the data were made of.
    json:
        Write the features of the labels, of all if none are named, to this file; or everything that
        --row, --wrong or --unlearnt has found.
    force:
        Replace the JSON file if it exists.
    """
    from contextlib import nullcontext

    from hpcml.data.dataset import DataFile
    from hpcml.evaluation.explain import explain as work
    from hpcml.evaluation.explain import format_explanation, write_json
    from hpcml.files.atomic import check_output
    from hpcml.model.open import share_model
    from hpcml.mpi import agreed

    if force and json is None:
        raise ConfigError("--force has no effect without --json; leave it out")
    asked = [flag for flag, given in (("--row", row), ("--wrong", wrong is not None), ("--unlearnt", unlearnt)) if given]
    _check_asked(asked, data, label, split, top)
    if titles is not None and asked != ["--wrong"]:
        raise ConfigError("--titles has no effect without --wrong; leave it out")
    comm = session.comm
    opened = share_model(comm, model)
    with agreed(comm, f"opening {data or model}"):
        if comm.rank == 0 and json is not None:
            check_output(json, force, [model, data, titles])
        dataset = None if data is None else DataFile(data)
    with nullcontext() if dataset is None else dataset:
        if asked:
            _say_asked(session, asked[0], opened, dataset, label, row, wrong, split, 10 if top is None else top, json, titles)
            return
        found = work(comm, opened, dataset, label, 10 if top is None else top, json is not None)
    if found is not None:
        if data is not None and found.names is None:
            session.log(f"note: {data} has no names of features: they are numbered, from 0")
        say_once(session, format_explanation(found))
    with agreed(comm, f"writing {json}"):
        if found is not None and json is not None:
            write_json(json, found)


def _check_asked(asked: list[str], data: Path | None, label: tuple[str, ...], split: str | None, top: int | None) -> None:
    """Raise ConfigError for options that do not go together."""
    if len(asked) > 1:
        raise ConfigError(f"{' and '.join(asked)} are different questions; ask one at a time")
    if asked and data is None:
        raise ConfigError(f"{asked[0]} needs the data: hpcml explain MODEL DATA {asked[0]} …")
    if split is not None and not {"--wrong", "--unlearnt"} & set(asked):
        raise ConfigError("--split has no effect without --wrong or --unlearnt; leave it out")
    if top is not None and {"--wrong", "--unlearnt"} & set(asked):
        raise ConfigError(f"--top has no effect on {asked[0]}; leave it out")
    if label and "--unlearnt" in asked:
        raise ConfigError("--label has no effect on --unlearnt, which looks at all labels; leave it out")


def _say_asked(
    session: Here,
    asked: str,
    model: Model | ClassifierModel,
    dataset: DataFile,
    label: tuple[str, ...],
    row: tuple[str, ...],
    wrong: int | None,
    split: str | None,
    top: int,
    json: Path | None,
    titles: Path | None,
) -> None:
    """Answer one of the questions about rows, or about labels that are not learnt."""
    from json import dumps

    from hpcml.evaluation.contributions import why
    from hpcml.evaluation.seen import split_to_judge
    from hpcml.evaluation.unlearnt import find_unlearnt
    from hpcml.evaluation.wrong import most_wrong
    from hpcml.files.atomic import write_whole
    from hpcml.mpi import agreed

    comm, log = session.comm, session.log
    found: WhyRows | MostWrong | Learnability
    if asked == "--row":
        found = why(comm, model, dataset, row, label, top)
    elif asked == "--wrong":
        found = most_wrong(comm, model, dataset, split_to_judge(dataset, split, log), label, wrong or 0, log, titles)
    else:
        found = find_unlearnt(comm, model, dataset, split_to_judge(dataset, split, log), log)
    say_once(session, str(found))
    with agreed(comm, f"writing {json}"):
        if comm.rank == 0 and json is not None:
            text = dumps(found.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
            write_whole(json, text.encode(errors="backslashreplace"))


def report(
    *runs: Path,
    output: Output,
    data: Path | None = None,
    split: str | None = None,
    titles: Path | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Make one page (HTML, no network needed) about a run, or several side by side: measures,
    curves, all labels, wrong rows.

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
    titles:
        JSON lines with the titles of rows, as those that the data were made of.
    force:
        Replace the page if it exists.
    """
    from hpcml.reporting.report import report as work

    work(session.comm, runs, data, split, output, force, session.log, titles)


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
    session: Here,
) -> None:
    """Find rows that are nearly the same, by the features that they have, and how far their labels
    agree.

    So one sees how consistent those were who gave the labels, for a document that is there twice
    has been labelled twice.

    Parameters
    ----------
    data:
        A dataset made with `hpcml convert`.
    split:
        Rows to look at: a split of the file, or all.
    similarity:
        Pairs of rows are alike if this share of the features that one or the other has are features
        of both (Jaccard), 0.1 to 1.
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
    from hpcml.data.dataset import DataFile
    from hpcml.mpi import agreed
    from hpcml.near_duplicates.report import check_outputs, format_duplicates, write_csv, write_json
    from hpcml.near_duplicates.search import find_duplicates

    if top < 0:
        raise ConfigError(f"--top {top}: expected at least 0")
    comm, outputs = session.comm, {"--output": output, "--csv": csv, "--json": json}
    if force and not any(outputs.values()):
        raise ConfigError("--force has no effect without --output, --csv or --json; leave it out")
    with agreed(comm, f"opening {data}"):
        dataset = DataFile(data)
        if comm.rank == 0:
            check_outputs(outputs, force, data)
    with dataset:
        found = find_duplicates(comm, dataset, split, similarity, output, session.log)
    say_once(session, format_duplicates(found, top))
    with agreed(comm, "writing the consistency of the labels"):
        if comm.rank == 0:
            for path, write in ((csv, write_csv), (json, write_json)):
                if path is not None:
                    write(path, found)
