"""`hpcml predict MODEL DATA -o OUTPUT`, and `hpcml.predict(model, data, output)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from hpcml.commands.operation import OUTPUT, AnyModel, Operation, PathLike, Session, function
from hpcml.options import Flag, Name, NotWith, Only, Range

DATASET, TEXT, LINES, TABLE = "a dataset", "svmlight text", "lines of text", "a table (csv, tsv, parquet)"


@dataclass(frozen=True)
class Predict(Operation[Path]):
    """Label texts, rows of a table, or a dataset with a model.

    The output is a table with the columns id, label, title (if labels have titles) and probability (or score, if the
    model has no probabilities). It has a line for each label above the model's thresholds, row by row, best first.
    Its ending chooses the format: .csv, .tsv, .jsonl, .parquet, .h5, or .json (BioASQ's).

    Examples
    --------
    >>> hpcml.predict("run", "new.jsonl", "labels.csv")
    """

    model: AnyModel
    """A run folder, or its model.h5."""
    data: PathLike
    """Texts or numbers as in training, by the ending .jsonl, .csv, .tsv or .parquet; or a dataset with the model's features; or
    svmlight text, whose indices are the places of the features, from 1. All but Parquet may be compressed (gz, bz2, xz, zst,
    zip). - is standard input.
    """
    output: Annotated[PathLike, OUTPUT]
    """The file to make; its ending chooses the format. - is standard output."""
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
    source: Literal["jsonl", "csv", "tsv", "parquet", "svmlight"] | None = None
    """Format of the input, if it is no dataset. Default: by its ending, else svmlight; of standard input jsonl if the model was
    trained on texts, else svmlight.
    """
    id: Annotated[str | None, Name, Only(TABLE)] = None
    """Column that names the rows. Default: the one that named the training rows, or else id, if the table has it."""
    delimiter: Annotated[str | None, Only(TABLE)] = None
    """Character between the columns of csv, such as ";". Default: a comma."""
    zero_based: Annotated[Flag, Only(TEXT)] = False
    """The indices of svmlight text start at 0."""
    max_line_mb: Annotated[int | None, Only(LINES)] = None
    """The longest line of text that is read, in MiB. Default: 16."""
    format: Literal["csv", "tsv", "jsonl", "bioasq"] | None = None
    """Format of standard output. Default: csv. bioasq: that of a file .json, of a dataset's rows."""
    force: Flag = False
    """Replace the output if it exists."""

    def execute(self, session: Session) -> Path:
        """The output. Collective over the session."""
        from hpcml.files.lines import line_limit
        from hpcml.model.open import share_model
        from hpcml.mpi import run_on_root
        from hpcml.prediction.predict import predict, write_scores
        from hpcml.prediction.raw_rows import RowMaker
        from hpcml.prediction.records import RecordStream, SvmlightRows, kind_of_data, predict_stream
        from hpcml.run.session import opened_dataset

        comm, log, output, data = session.comm, session.log, Path(self.output), Path(self.data)
        model = share_model(comm, self.model)
        model = model if self.threshold is None else model.with_threshold(self.threshold)
        kind = run_on_root(comm, f"opening {data}", partial(kind_of_data, data, self.source, model))
        kinds = {"": (DATASET,), "svmlight": (TEXT, LINES), "jsonl": (LINES,), "parquet": (TABLE,)}
        self.check_options(*kinds.get(kind, (TABLE, LINES)))
        if kind:
            limit = line_limit(self.max_line_mb)

            def open_rows(block_bytes: int) -> RecordStream | SvmlightRows:
                if kind == "svmlight":
                    return SvmlightRows(comm, data, model, self.zero_based, limit, block_bytes)
                return RecordStream(comm, data, kind, RowMaker(model), self.id, self.delimiter, limit, block_bytes)

            inputs = [model.path, *([] if str(data) == "-" else [data])]
            predict_stream(comm, model, open_rows, inputs, output, self.force, log, self.top, self.format)
            return output
        with opened_dataset(session, data) as dataset:
            if self.all_scores:
                write_scores(comm, model, dataset, self.split, output, self.force, log)
            else:
                predict(comm, model, dataset, self.split, output, self.force, log, self.top, self.format)
        return output


predict = function(Predict)
