"""`hpcml predict MODEL DATA -o OUTPUT`, and `hpcml.predict(model, data, output)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from hpcml.commands.operation import OUTPUT, AnyModel, Operation, PathLike, Session, function
from hpcml.options import Flag, NotWith, Only, Range

DATASET, TEXT = "a dataset", "svmlight text"


@dataclass(frozen=True)
class Predict(Operation[Path]):
    """Score or label rows with a model.

    The output is a table with the columns id, label, title (if labels have titles) and probability (or score, if the
    model has no probabilities). It has a line for each label above the model's thresholds, row by row, best first.
    Its ending chooses the format: .csv, .tsv, .jsonl, .parquet, .h5, or .json (BioASQ's).

    Examples
    --------
    >>> hpcml.predict("run", "docs.h5", "best.csv", split="test", top=5)
    """

    model: AnyModel
    """A run folder, or its model.h5."""
    data: PathLike
    """A dataset with the model's features (convert it with --like the training file); or svmlight
    text (plain, gz, bz2, xz, zst, zip), - for standard input. A text does not name its features: its indices
    are taken for the places of the model's features, from 1.
    """
    output: Annotated[PathLike, OUTPUT]
    """The file to make; its ending chooses the format. For svmlight text also - for standard output."""
    _: KW_ONLY
    split: Annotated[str, Only(DATASET)] = "all"
    """Rows to score: a split of the file, or all."""
    threshold: Annotated[float | None, NotWith("top", "all_scores")] = None
    """Score above which a row gets a label, for all labels. Default: the thresholds of the model, or else 0."""
    top: Annotated[int | None, Range(1), NotWith("all_scores")] = None
    """Number of labels to write for each row, the best ones, whatever the thresholds; of equal ones those that the model
    lists first.
    """
    all_scores: Annotated[Flag, Only(DATASET)] = False
    """Write the scores of all rows and labels to .h5, as a matrix, with thresholds and sigmoids of the labels."""
    zero_based: Annotated[Flag, Only(TEXT)] = False
    """The indices of the text start at 0."""
    max_line_mb: Annotated[int | None, Only(TEXT)] = None
    """The longest line of the text that is read, in MiB. Default: 16."""
    format: Literal["csv", "tsv", "jsonl", "bioasq"] | None = None
    """Format of standard output. Default: csv. bioasq: that of a file .json, of a dataset's rows."""
    force: Flag = False
    """Replace the output if it exists."""

    def execute(self, session: Session) -> Path:
        """The output. Collective over the session."""
        from hpcml.data.svmlight import is_text
        from hpcml.files.lines import line_limit
        from hpcml.model.open import share_model
        from hpcml.mpi import run_on_root
        from hpcml.prediction.predict import predict, predict_stream, write_scores
        from hpcml.run.session import opened_dataset

        comm, log, output = session.comm, session.log, Path(self.output)
        max_line = line_limit(self.max_line_mb)
        text = run_on_root(comm, f"opening {self.data}", partial(is_text, Path(self.data)))
        self.check_options(TEXT if text else DATASET)
        model = share_model(comm, self.model)
        model = model if self.threshold is None else model.with_threshold(self.threshold)
        if text:
            predict_stream(comm, model, self.data, output, self.force, log, self.top, self.zero_based, self.format, max_line)
            return output
        with opened_dataset(session, self.data) as dataset:
            if self.all_scores:
                write_scores(comm, model, dataset, self.split, output, self.force, log)
            else:
                predict(comm, model, dataset, self.split, output, self.force, log, self.top, self.format)
        return output


predict = function(Predict)
