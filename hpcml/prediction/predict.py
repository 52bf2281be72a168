"""Scoring rows with a model, to HDF5, CSV or svmlight: streaming, the same bytes on any ranks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard, load_shard, without_features
from hpcml.errors import ConfigError
from hpcml.evaluation.hints import hint_at_few_labels
from hpcml.evaluation.probabilities import probabilities
from hpcml.evaluation.scoring import WEIGHT_BYTES, BlockWeights, scorer_of
from hpcml.evaluation.top import InvertedTop, top_of
from hpcml.files.atomic import temporary_path
from hpcml.files.hdf5 import NAME_CHUNK, describe_matrix, matrix_slabs, stamp, write_label_titles, write_strings
from hpcml.files.slabs import Slab, SlabFile, new_file
from hpcml.files.spool import Spool, slices
from hpcml.files.table import escaped_name
from hpcml.log import Log, Progress, plural
from hpcml.model.linear import Trained
from hpcml.prediction import texts
from hpcml.prediction.texts import ScoredRows, What

CHUNK_BYTES = 1 << 27  # the scores (or flags) of a chunk of rows for all labels
MAX_ROWS = 1 << 16
COPY_BYTES = 1 << 24
FORMATS = (".h5", *texts.TEXT_FORMATS)  # of scores and labels; and BioASQ's, of labels only


class Prediction:
    """Predictions for rows, chunk by chunk: scores, which `shown` makes probabilities, or flags."""

    def __init__(
        self, comm: mpi.Comm, model: Trained, what: What, shard: Shard, top: int | None = None, dataset: DataFile | None = None
    ) -> None:
        """`shard`: this rank's rows, maybe none; `top`: labels per row; `dataset` has the rows' ids. Collective over `comm`."""
        self.comm, self.model, self.what, self.shard, self.dataset = comm, model, what, shard, dataset
        self.has_ids = dataset is not None and "row_ids" in dataset.file
        self.n_given = 0  # labels that this rank's rows have got, where labels are asked for
        self.empty = None if dataset is None else without_features(dataset, shard)  # flags of this rank's rows, which get no labels
        self._sigmoids = model.check_probabilities() if what == "probabilities" else None  # make probabilities of the scores
        self.scorer = scorer_of(model, shard, np.arange(model.n_labels))
        self.scorer.warm_up(comm)
        self.keeps_weights = self.room_for_weights(model)  # expanded once, and not for every chunk
        self._weights = BlockWeights(self.keeps_weights)
        self._top: Any = None if top is None else top_of(comm, self.scorer, top, self.keeps_weights)  # finds the best labels

    @property
    def n_best(self) -> int | None:
        """How many labels of a row are written, where only the best ones are; else None."""
        return None if self._top is None else self._top.size

    @cached_property
    def escaped_names(self) -> list[str]:
        """The names of the labels as they are joined by `;`."""
        return [escaped_name(name) for name in self.model.label_names]

    def ids(self, rows: np.ndarray) -> list[str]:
        """Return the ids of ascending rows of the dataset."""
        first, last = (int(rows[0]), int(rows[-1])) if rows.size else (0, -1)
        found = self.dataset.strings("row_ids", first, last + 1) or []
        return [found[row - first] for row in rows.tolist()]

    @staticmethod
    def room_for_weights(model: Trained) -> bool:
        """Whether there is room for the weights of all labels, expanded."""
        combination = getattr(model, "combination", None)
        parts = 1 if combination is None else combination.n_parts
        return 8 * parts * model.n_labels * model.n_features <= WEIGHT_BYTES

    @property
    def is_cheap(self) -> bool:
        """Whether scoring a few rows at a time costs no more than many at once."""
        return self.keeps_weights or isinstance(self._top, InvertedTop)

    def hint(self, log: Log, n_rows: int) -> None:
        """Collective. Say if these rows got far fewer labels than training rows have."""
        if self.what == "labels":
            _, (n_given,) = mpi.exclusive_sum(self.comm, [self.n_given])
            hint_at_few_labels(log, int(n_given), n_rows, self.model, self.dataset)

    def shown(self, scores: np.ndarray, labels: np.ndarray | None = None) -> np.ndarray:
        """The scores (n × L, or n × k of such labels), or their probabilities, as written."""
        return scores if self._sigmoids is None else probabilities(scores, *self._sigmoids, labels)

    def scored(self, shard: Shard) -> Iterator[ScoredRows]:
        """Score a shard's rows for all labels, or find the best. Local. Raises NonFiniteError."""
        scorer: Any = scorer_of(self.model, shard, self.scorer.labels)
        flags, thresholds = self.what == "labels", self.model.thresholds
        width = (1 if flags else 8) * self.model.n_labels if self.n_best is None else 12 * self.n_best
        step = max(1, min(MAX_ROWS, CHUNK_BYTES // max(1, width)))
        for begin in range(0, shard.n_local, step):
            some = shard.rows[begin : begin + step]
            first, rows = shard.first_local + begin, shard.first_row + some
            empty = None if self.empty is None else self.empty[begin : begin + step]
            if self._top is not None:
                best = self._top.best(scorer, some)
                yield ScoredRows(first, rows, best.scores, best.labels, empty)
                continue
            values: np.ndarray = np.empty((some.size, self.model.n_labels), dtype=np.bool_ if flags else np.float64)
            for block, scores in self._weights.scores(scorer, some):
                values[:, block] = scores > thresholds[block] if flags else scores
            if flags:
                if empty is not None:
                    values[empty] = False
                self.n_given += int(np.count_nonzero(values))
            yield ScoredRows(first, rows, values, None, empty)

    def chunks(self, log: Log) -> Iterator[ScoredRows]:
        """Score the shard, rows of the dataset, with progress. Local. Raises NonFiniteError if a score is not a number."""
        done = 0
        with closing(Progress(log, "scoring rows (rank 0)", self.shard.n_local)) as progress:
            for chunk in self.scored(self.shard):
                self.dataset.check_unchanged()
                yield chunk
                done += chunk.rows.size
                progress.update(done)


def predict(
    comm: mpi.Comm,
    model: Trained,
    dataset: DataFile,
    split: str,
    output: Path,
    what: What,
    force: bool,
    log: Log,
    top: int | None = None,
) -> None:
    """Collective over `comm`. Write scores, probabilities or labels of a split's rows to `output`.

    With `top`, only the scores of so many labels of each row, the best ones (of equal scores those
    with the lower numbers). Raises ConfigError for an ending of `output` that is not known, for an
    existing output without `force` and for an unknown split; DataError if model and data do not fit
    or a file cannot be read or written.
    """
    output = Path(output)
    ending = output.suffix.lower()
    known = (*FORMATS, texts.BIOASQ)
    if ending not in known:
        raise ConfigError(f"{output}: unknown kind of file {ending!r}; the name must end in one of {', '.join(known)}")
    texts.check_what(what, top, ending)
    if what == "probabilities":
        model.check_probabilities()
    with mpi.agreed(comm, f"reading {dataset.path}"):
        model.check_vocabulary(dataset)
    opened: Any = new_file if ending == ".h5" else temporary_path
    with opened(comm, output, force, [model.path, dataset.path]) as out:
        prediction = Prediction(comm, model, what, load_shard(comm, dataset, split, unlabelled=True), top, dataset)
        if ending == ".h5":
            _write_h5(prediction, split, log, out)
        else:
            _write_text(prediction, ending, log, out, output)
    n_rows = prediction.shard.n_global
    log(f"{output}: {texts.what_is_written(what, top, model)} of {plural(n_rows, 'row')} for {plural(model.n_labels, 'label')}")
    _, (n_empty,) = mpi.exclusive_sum(comm, [int(np.count_nonzero(prediction.empty))])
    if n_empty:
        without = f"{plural(int(n_empty), 'row')} without any known feature"
        log(f"note: {without}: {'their scores say nothing' if what != 'labels' and top is None else 'they get no labels'}")
    prediction.hint(log, n_rows)


def _write_h5(prediction: Prediction, split: str, log: Log, out: SlabFile) -> None:
    """Write `rows` (n) and, of these, `scores` or `probabilities` (n × L), `top/` these and `labels`, or `Y` (n × L, CSR).

    The labels of all rows wait outside of memory until their number is known. Collective.
    """
    comm, shard, what, k, n_labels = (
        prediction.comm,
        prediction.shard,
        prediction.what,
        prediction.n_best,
        prediction.model.n_labels,
    )
    n_rows, first, nnz = shard.n_global, 0, 0
    counts = np.zeros(shard.n_local if what == "labels" else 0, dtype=np.int64)
    given = Spool(out.path.parent, matrix_slabs("Y", 0, 0, n_labels, None)["Y/indices"].dtype)
    slabs: dict[str, Slab] = {what: Slab((n_rows, n_labels), "<f8")}
    if what == "labels":
        with mpi.agreed(comm, f"writing {out.target}"):
            for chunk in prediction.chunks(log):
                counts[chunk.first - shard.first_local :][: chunk.rows.size] = chunk.values.sum(axis=1)
                given.append(np.nonzero(chunk.values)[1])
        (first,), (nnz,) = mpi.exclusive_sum(comm, [given.size])
        slabs = matrix_slabs("Y", n_rows, int(nnz), n_labels, None)
    elif k is not None:
        slabs = {"top/labels": Slab((n_rows, k), "<i4"), f"top/{what}": Slab((n_rows, k), "<f8")}

    def describe(file: h5py.File) -> None:
        if what == "labels":
            describe_matrix(file, "Y", n_rows, n_labels, int(nnz), ones=True)
        stamp(file, "scores")
        file.attrs["split"] = split
        write_strings(file, "label_names", prediction.model.label_names)
        write_label_titles(file, prediction.model.label_titles)
        if prediction.has_ids:
            rows = prediction.dataset.split(split)
            ids = file.create_dataset("row_ids", shape=rows.shape, dtype=h5py.string_dtype())
            for begin in range(0, rows.size, NAME_CHUNK):
                some = rows[begin : begin + NAME_CHUNK]
                ids[begin : begin + some.size] = np.array(prediction.ids(some), dtype=object)

    out.layout({**slabs, "rows": Slab((n_rows,), "<i8")}, describe)
    with mpi.agreed(comm, f"writing {out.target}"):
        out.write("rows", shard.first_local, shard.first_row + shard.rows)
        if what == "labels":
            if comm.rank == 0:
                out.write("Y/indptr", 0, np.zeros(1))
            out.write("Y/indptr", shard.first_local + 1, first + np.cumsum(counts))
            for some in slices(given.size):
                out.write("Y/indices", int(first) + some.start, given[some])
            return
        for chunk in prediction.chunks(log):
            shown, best = prediction.shown(chunk.values, chunk.best), chunk.best
            if best is not None and chunk.empty is not None:
                best, shown = np.where(chunk.empty[:, None], -1, best), np.where(chunk.empty[:, None], np.nan, shown)
            for name, values in zip(slabs, [shown] if best is None else [best, shown], strict=True):
                out.write(name, chunk.first, values)


def _write_text(prediction: Prediction, ending: str, log: Log, temporary: Path, output: Path) -> None:
    """Write this rank's rows as text; all ranks but 0 into parts, which are copied behind. Collective."""
    comm, lines = prediction.comm, texts.TEXT_FORMATS.get(ending, texts.bioasq_lines)
    part = temporary if comm.rank == 0 else temporary.with_name(f"{temporary.name}-{comm.rank}")
    try:
        with mpi.agreed(comm, f"writing {output}"), part.open("wb") as file:
            if comm.rank == 0:
                file.write(lines(prediction, None).encode())
            for piece in (piece for chunk in prediction.chunks(log) for piece in chunk.pieces()):
                file.write(lines(prediction, piece).encode())
            if comm.rank == comm.size - 1 and ending == texts.BIOASQ:
                file.write(texts.BIOASQ_END.encode())
            size = file.tell()
        (offset,), _ = mpi.exclusive_sum(comm, [size])
        with mpi.agreed(comm, f"writing {output}"):
            if comm.rank != 0:
                with part.open("rb") as source, temporary.open("rb+") as target:
                    target.seek(int(offset))
                    shutil.copyfileobj(source, target, COPY_BYTES)
    finally:
        if comm.rank != 0:
            part.unlink(missing_ok=True)
