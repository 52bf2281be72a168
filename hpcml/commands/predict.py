"""`hpcml predict MODEL DATA -o OUTPUT`, and `hpcml.predict(model, data, output)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from hpcml.commands.operation import OUTPUT, AnyModel, Operation, PathLike, Session, function
from hpcml.errors import ConfigError, OptionError
from hpcml.options import Flag, Only, Range

DATASET, TEXT = "a dataset", "svmlight text"

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Predict(Operation[Path]):
    """Score or label rows with a model.

    Scores, labels or probabilities go to .h5, .csv, .svm or .json (BioASQ); those of lines of
    svmlight text, as they come, to .csv or .svm.

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
    """The file to make; its ending chooses the format. For text also - for standard output."""
    _: KW_ONLY
    split: Annotated[str, Only(DATASET)] = "all"
    """Rows to score: a split of the file, or all."""
    labels: Flag = False
    """Write the labels instead of the scores: those with a score above the model's thresholds, or
    else above 0.
    """
    threshold: float | None = None
    """Threshold for all labels. Default: those of the model."""
    probabilities: Flag = False
    """Write probabilities instead of the scores: those of hpcml calibrate, or else of log-odds
    (--loss logistic).
    """
    top: Annotated[int | None, Range(1)] = None
    """Write only this many labels of each row, with their scores: the best ones; of equal scores
    those that the model lists first.
    """
    zero_based: Annotated[Flag, Only(TEXT)] = False
    """The indices of the text start at 0."""
    max_line_mb: Annotated[int | None, Only(TEXT)] = None
    """The longest line of the text that is read, in MiB. Default: 16."""
    format: Literal["csv", "svm", "bioasq"] | None = None
    """Format of standard output; default: csv. bioasq: the labels of a dataset's rows, to .json, in the
    format of BioASQ.
    """
    force: Flag = False
    """Replace the output if it exists."""

    def execute(self, session: Session) -> Path:
        """The output. Collective over the session."""
        from hpcml.data.svmlight import is_text
        from hpcml.files.lines import line_limit
        from hpcml.model.open import share_model
        from hpcml.mpi import run_on_root
        from hpcml.prediction.predict import predict, predict_stream
        from hpcml.prediction.texts import BIOASQ
        from hpcml.run.session import opened_dataset

        comm, log, output = session.comm, session.log, Path(self.output)
        max_line, bioasq = line_limit(self.max_line_mb), self.format == "bioasq"
        if bioasq and output.suffix.lower() != BIOASQ:
            raise ConfigError(f"{output}: BioASQ's format is JSON; the name must end in {BIOASQ}")
        labels = self.labels or (bioasq and self.top is None and not self.probabilities)
        if labels and self.probabilities:
            raise ConfigError(
                "--labels writes the labels of rows and --probabilities a number for every label; give only one of them"
            )
        what: Literal["labels", "probabilities", "scores"] = (
            "labels" if labels else "probabilities" if self.probabilities else "scores"
        )
        text = run_on_root(comm, f"opening {self.data}", partial(is_text, Path(self.data)))
        self.check_options(TEXT if text else DATASET)
        if self.threshold is not None and what != "labels":
            raise OptionError("threshold", self.threshold, "has no effect without", "labels")
        if text and bioasq:
            raise OptionError("format", self.format, "svmlight text has no ids of its rows; make a dataset (hpcml convert)")
        if not text and self.format in ("csv", "svm"):
            raise OptionError("format", self.format, f"applies only to {TEXT}; remove it")
        model = share_model(comm, self.model) if isinstance(self.model, (str, Path)) else self.model
        model = model if self.threshold is None else model.with_threshold(self.threshold)
        if text:
            options = (self.top, self.zero_based, self.format, max_line)
            predict_stream(comm, model, self.data, output, what, self.force, log, *options)
        else:
            with opened_dataset(session, self.data) as dataset:
                predict(comm, model, dataset, self.split, output, what, self.force, log, self.top)
        return output


predict = function(Predict)
