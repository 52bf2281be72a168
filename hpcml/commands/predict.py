"""`hpcml predict MODEL DATA -o OUTPUT`, and `hpcml.predict(model, data, output)`."""

from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from hpcml.commands.operation import OUTPUT, AnyModel, Operation, PathLike, Session
from hpcml.options import Flag, Name, NotWith, Only, Range

DATASET, TEXT, LINES, TABLE = "a dataset", "svmlight text", "lines of text", "a table (csv, tsv, parquet)"


@dataclass(frozen=True)
class Predict(Operation[Path]):
    """Predict the labels of texts, tables or datasets.

    The output is a table with the columns id, label, title (if labels have titles) and probability (or score, if the model has no
    probabilities). It has one line for each label above its threshold, row by row, best label first. The extension of the output
    sets the format: .csv, .tsv, .jsonl, .parquet, .h5, or .json (BioASQ).

    Examples
    --------
    >>> path = hpcml.predict("run", "docs.csv", "labels.csv")
    >>> path.read_text().splitlines()[0]
    'id,label,probability'
    """

    model: AnyModel
    """Run folder, or model file (model.h5)."""
    data: PathLike
    """Input in the format of the training data (.jsonl, .csv, .tsv or .parquet), a dataset with the features of the model, or
    svmlight text, whose indices are the positions of the features, from 1. All but Parquet may be compressed (gz, bz2, xz, zst,
    zip). - is standard input.
    """
    output: Annotated[PathLike, OUTPUT]
    """File to write; its extension sets the format. - is standard output."""
    _: KW_ONLY
    split: Annotated[str, Only(DATASET)] = "all"
    """Rows to score: a split of the dataset, or all."""
    threshold: Annotated[float | None, NotWith("top", "all_scores")] = None
    """Score above which a row gets a label. Default: the thresholds of the model, or 0 if it has none."""
    top: Annotated[int | None, Range(1), NotWith("all_scores")] = None
    """Number of labels to write for each row, highest scores first. Default: all labels above their thresholds."""
    all_scores: Annotated[Flag, Only(DATASET)] = False
    """Write the scores of all rows and labels to an .h5 file, as a matrix, with thresholds and sigmoids of the labels."""
    source: Literal["jsonl", "csv", "tsv", "parquet", "svmlight"] | None = None
    """Format of the input, unless it is a dataset. Default: by the extension, else jsonl for a model of texts on standard
    input, else svmlight.
    """
    id: Annotated[str | None, Name, Only(TABLE)] = None
    """Column with the ids of the rows. Default: the id column of the training data, else id if the table has it."""
    delimiter: Annotated[str | None, Only(TABLE)] = None
    """Character between the columns of csv, such as ";". Default: a comma."""
    zero_based: Annotated[Flag, Only(TEXT)] = False
    """Indices of svmlight text start at 0."""
    max_line_mb: Annotated[int | None, Only(LINES)] = None
    """Maximum length of a line of text, in MiB. Default: 16."""
    format: Annotated[Literal["csv", "tsv", "jsonl", "bioasq"] | None, NotWith("all_scores")] = None
    """Format of standard output; bioasq is the format of .json, for rows of a dataset. Default: csv."""
    force: Flag = False
    """Replace the output if it exists."""

    def execute(self, session: Session) -> "Path":
        """The path of the output. Collective over the session."""
        from hpcml.files.lines import line_limit
        from hpcml.model.open import share_model
        from hpcml.mpi import run_on_root
        from hpcml.prediction.predict import predict, write_scores
        from hpcml.prediction.raw_rows import RowMaker
        from hpcml.prediction.records import RecordStream, SvmlightRows, kind_of_data, predict_stream
        from hpcml.run.session import open_shared_dataset

        comm, log, output, data = session.comm, session.log, self.output, self.data
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
        with open_shared_dataset(session, data) as dataset:
            if self.all_scores:
                write_scores(comm, model, dataset, self.split, output, self.force, log)
            else:
                predict(comm, model, dataset, self.split, output, self.force, log, self.top, self.format)
        return output
