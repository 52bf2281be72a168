"""The commands that look into models and data: `hpcml explain`, `report` and `duplicates`."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from hpcml.cli.session import OUTPUT, Data, Here, JudgedSplit, ModelFile, Output, ReplaceJson, check_files, say_once, write_files
from hpcml.errors import ConfigError
from hpcml.options import Flag, Several

if TYPE_CHECKING:
    from hpcml.data.dataset import DataFile
    from hpcml.evaluation.explain import Explanation, WhyRows
    from hpcml.evaluation.unlearnt import Learnability
    from hpcml.evaluation.wrong import MostWrong
    from hpcml.model.classifier import ClassifierModel
    from hpcml.model.linear import Model


@Parameter(name="*")
@dataclass(frozen=True)
class ExplainOptions:
    """Options of `hpcml explain`."""

    label: Annotated[tuple[str, ...], Several] = ()
    """Look at these labels. Default: the 5 labels of the most training rows (the JSON file has all
    labels); with --row those of the row, those that it is given, and the best 3; with --wrong all
    labels together.
    """
    row: Annotated[tuple[str, ...], Several] = ()
    """Take apart the scores of the row with this id; of data without ids, with this number, from
    0.
    """
    wrong: int | None = None
    """Show so many rows that miss a label, and as many that have one wrongly, farthest beyond its
    threshold.
    """
    unlearnt: Flag = False
    """Show the labels that are not learnt, and labels of nearly the same rows."""
    split: str | None = None
    """Rows for --wrong and --unlearnt: a split of the file, or all. Default: test if the file has
    it.
    """
    top: int | None = None
    """How many features of a label, or of a row, to show. Default: 10."""
    titles: Path | None = None
    """JSON lines with the titles of the rows for --wrong, as those that the data were made of."""

    @property
    def asked(self) -> list[str]:
        """The questions, by their flags, that are asked instead of what labels look at."""
        given = {"--row": self.row, "--wrong": self.wrong is not None, "--unlearnt": self.unlearnt}
        return [flag for flag, is_given in given.items() if is_given]

    def check(self, data: Path | None) -> None:
        """Raise ConfigError for options that do not go together."""
        asked = self.asked
        if len(asked) > 1:
            raise ConfigError(f"{' and '.join(asked)} are different questions; ask one at a time")
        if asked and data is None:
            raise ConfigError(f"{asked[0]} needs the data: hpcml explain MODEL DATA {asked[0]} …")
        if self.split is not None and asked not in (["--wrong"], ["--unlearnt"]):
            raise ConfigError("--split has no effect without --wrong or --unlearnt; leave it out")
        if self.top is not None and asked in (["--wrong"], ["--unlearnt"]):
            raise ConfigError(f"--top has no effect on {asked[0]}; leave it out")
        if self.label and asked == ["--unlearnt"]:
            raise ConfigError("--label has no effect on --unlearnt, which looks at all labels; leave it out")
        if self.titles is not None and asked != ["--wrong"]:
            raise ConfigError("--titles has no effect without --wrong; leave it out")

    def answer(
        self, session: Here, model: Model | ClassifierModel, dataset: DataFile | None, every: bool
    ) -> Explanation | WhyRows | MostWrong | Learnability | None:
        """Of what is asked, or else what labels look at (then on rank 0 only; `every` label)."""
        from hpcml.evaluation.explain import explain, why
        from hpcml.evaluation.seen import split_to_judge
        from hpcml.evaluation.unlearnt import find_unlearnt
        from hpcml.evaluation.wrong import most_wrong

        comm, log, top = session.comm, session.log, 10 if self.top is None else self.top
        if not self.asked:
            return explain(comm, model, dataset, self.label, top, every)
        if self.row:
            return why(comm, model, dataset, self.row, self.label, top)
        split = split_to_judge(comm, dataset, self.split, log)
        if self.wrong is not None:
            return most_wrong(comm, model, dataset, split, self.label, self.wrong, log, self.titles)
        return find_unlearnt(comm, model, dataset, split, log)


def explain(
    model: ModelFile,
    data: Path | None = None,
    /,
    *,
    options: ExplainOptions = ExplainOptions(),
    json: Path | None = None,
    force: ReplaceJson = False,
    session: Here,
) -> None:
    """Show what labels look at, and why a row got its labels.

    What labels look at are the features of a linear model by squared weight, and what the other
    features weigh. With --row: why a row got a label. With --wrong: the rows that the model is most
    wrong about. With --unlearnt: the labels that it ranks no better than chance, and why. These
    three need the data, and the last two take models of any kind.

    Parameters
    ----------
    data:
        A dataset with the model's features, for their names. Default: features are numbered, from
        0.
    json:
        Write the features of the labels, of all if none are named, to this file; or everything that
        --row, --wrong or --unlearnt has found.
    """
    from hpcml.files.atomic import write_json
    from hpcml.model.open import share_model
    from hpcml.run.session import opened_dataset

    if force and json is None:
        raise ConfigError("--force has no effect without --json; leave it out")
    options.check(data)
    opened = share_model(session.comm, model)
    check_files(session, data or model, force, [model, data, options.titles], json)
    with nullcontext() if data is None else opened_dataset(session, data) as dataset:
        found = options.answer(session, opened, dataset, json is not None)
    if found is not None:  # as on rank 0
        say_once(session, str(found))
    write_files(session, str(json), found, (json, lambda path, found: write_json(path, found.as_dict())))


def report(
    *runs: Path,
    output: Output,
    data: Path | None = None,
    split: JudgedSplit = None,
    titles: Path | None = None,
    force: Flag = False,
    session: Here,
) -> None:
    """Make one page (HTML) about a run, or several side by side.

    It has measures, curves, all labels, wrong rows, and needs no network.

    Parameters
    ----------
    runs:
        Run folders, or models. The first one is what the others are compared with.
    output:
        The page to make.
    data:
        A dataset to judge on, with the models' features and labels. Default: the data of each run.
    titles:
        JSON lines with the titles of rows, as those that the data were made of.
    force:
        Replace the page if it exists.
    """
    from hpcml.reporting.report import report as work

    work(session.comm, runs, data, split, output, force, session.log, titles)


@Parameter(name="*")
@dataclass(frozen=True)
class DuplicatesOptions:
    """Options of `hpcml duplicates`."""

    split: str = "all"
    """Rows to look at: a split of the file, or all."""
    similarity: float = 0.8
    """Pairs of rows are alike if this share of the features that one or the other has are features
    of both (Jaccard), 0.1 to 1.
    """
    output: Annotated[Path | None, Parameter(name=OUTPUT)] = None
    """Write the pairs to this CSV file."""
    csv: Path | None = None
    """Write the consistency of every label to this file."""
    json: Path | None = None
    """Write everything but the pairs to this file."""
    top: int = 10
    """How many of the most frequent labels to show."""


def duplicates(
    data: Data,
    /,
    *,
    options: DuplicatesOptions = DuplicatesOptions(),
    force: Annotated[Flag, Parameter(help="Replace the files if they exist.")] = False,
    session: Here,
) -> None:
    """Find rows that are nearly the same, and how far labels agree.

    Rows are the same by the features that they have. So one sees how consistent those were who gave
    the labels, for a document that is there twice has been labelled twice.
    """
    from hpcml.mpi import run_on_root
    from hpcml.near_duplicates.report import check_outputs, format_duplicates, write_csv, write_json
    from hpcml.near_duplicates.search import find_duplicates
    from hpcml.run.session import opened_dataset

    output, csv, json = options.output, options.csv, options.json
    if options.top < 0:
        raise ConfigError(f"--top {options.top}: expected at least 0")
    if force and not (output or csv or json):
        raise ConfigError("--force has no effect without --output, --csv or --json; leave it out")
    with opened_dataset(session, data) as dataset:
        outputs = {"--output": output, "--csv": csv, "--json": json}
        run_on_root(session.comm, f"opening {data}", lambda: check_outputs(outputs, force, data))
        found = find_duplicates(session.comm, dataset, options.split, options.similarity, output, session.log)
    say_once(session, format_duplicates(found, options.top))
    write_files(session, "the consistency of the labels", found, (csv, write_csv), (json, write_json))
