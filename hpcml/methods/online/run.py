"""A pass from its first row to its last: its error, checkpoints, signals, time limit."""

from __future__ import annotations

import time
import zlib
from collections.abc import Generator, Iterator, Sequence

import numpy as np

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.shard import Shard
from hpcml.errors import DataError
from hpcml.files.slabs import Slab
from hpcml.files.table import write_table
from hpcml.log import plural
from hpcml.methods.online.kernels import FALSE_NEGATIVES, FALSE_POSITIVES
from hpcml.methods.online.options import MbwOptions, OnlineOptions
from hpcml.methods.online.order import N_NUMBERS, ORDER, RowOrder
from hpcml.methods.online.saved import state_slabs
from hpcml.methods.online.source import DatasetSource, RowStream, labels_of
from hpcml.methods.online.state import LearnerState
from hpcml.run.checkpoint import Checkpoints, CheckpointWriter, reading_checkpoint
from hpcml.run.driver import Driver, Job
from hpcml.run.folder import RunFolder
from hpcml.run.profile import Profile
from hpcml.signals import StopSignals

HISTORY_POINTS = 66  # after 1, 2, 4 … 2⁶³ rows, at the end, and at the end of an initial model
# What history.csv says of a label after 1, 2, 4, 8 … rows and at the end; errors are shares of rows, progressive: each prediction
# was made before its row was learnt from. The recent error is that of the rows since the line before.
HISTORY = ("label", "rows", "positives", "false_positives", "false_negatives", "updates", "error", "recent_error")


class Pass(Job):
    """The pass of this rank's labels. Making one is local."""

    doing, title, unit = "learning", "rows", "row"

    def __init__(
        self, comm: mpi.Comm, source: RowStream, folder: RunFolder, state: LearnerState, mine: np.ndarray, options: OnlineOptions
    ) -> None:
        """`mine` are the places in `source.names` of the labels of `state`."""
        self.comm, self.source, self.folder, self.state, self.mine, self.options = comm, source, folder, state, mine, options
        self.start = state.n_rows  # rows of the initial model
        self.total = None if source.n_rows is None else source.n_rows + self.start
        self.order = RowOrder(state.lane_of, state.n_lanes)
        self.checkpoints = Checkpoints(comm, folder.checkpoints, folder.log)
        names = "\n".join([source.fingerprint, source.vocabulary or "", *source.names])
        self.origin = np.array([*source.sizes, zlib.crc32(names.encode("utf-8", "surrogatepass"))], dtype=np.int64)
        self.history = np.full((state.n_lanes, HISTORY_POINTS, 5), -1, dtype=np.int64)  # rows and the counters
        self.n_points = 0
        self.resumed = self.has_checkpoint = False
        self.profile = Profile()

    def learn(self, resume: bool, signals: StopSignals) -> None:
        """Collective. Learn from all rows. Raises DataError; Interrupted after a signal or the time limit."""
        self.driver = Driver(self.comm, self.comm, signals, self.options.time_limit, self.options.checkpoint_every)
        self.resumed = resume
        first = self._restore() if resume else 0
        rows = "rows as they come" if self.source.n_rows is None else plural(self.source.n_rows, "row")
        live = f", at most {self.options.live_features:,} at a time" if self.options.live_features else ""
        width = f" × {plural(self.source.n_features, 'feature')}" if self.source.n_features else ""
        self.folder.log(f"learning {plural(len(self.source.names), 'label')} from {rows}{width}{live}")
        if self.start and self.state.n_rows == self.start:
            self._note_point()  # so that recent errors are of these rows
        self.driver.run(self._turns(first), self, self.folder.log)

    def _turns(self, first: int) -> Generator[list[None], None, None]:
        """Collective. Learn from the rows from number `first` on, a piece a turn."""
        pieces, compiled = self.source.pieces(first), False
        while True:
            with self.profile("read"):
                piece = next(pieces, None)
            if piece is None:
                break
            if not compiled:
                begin, compiled = time.monotonic(), True
                with mpi.node_first(self.comm):
                    self.state.learn(piece[0], piece[1][:0])
                    self.order.add(piece[0], piece[1][:0])
                mpi.agreed_any(self.comm, False)
                self.driver.began += time.monotonic() - begin
            with self.profile("learn"):
                self._take(*piece)
            yield []
        self._note_point()

    @property
    def n_done(self) -> float:
        """The rows of the pass, which rank 0 counts for all."""
        return self.state.n_rows if self.comm.rank == 0 else 0

    def note(self, turns: int) -> str:
        """The progressive error so far, of this rank's labels."""
        wrong = self.state.counters[[FALSE_POSITIVES, FALSE_NEGATIVES]].sum()
        return f"progressive error {100 * wrong / max(1, self.state.n_rows * self.state.n_lanes):.3f} %" if self.mine.size else ""

    def save(self) -> None:
        """Collective. Write a checkpoint. Raises DataError."""
        state, n_labels, order = self.state, len(self.source.names), self.order.pack()
        numbers, rows = state.kept()
        whole = {"features": numbers, "origin": self.origin, "elapsed": np.array([self.driver.seconds])}
        whole["pass"] = np.array([state.n_rows, self.n_points, state.n_features, *self.source.digest], dtype=np.int64)
        slabs = {name: Slab((1, row.size), row.dtype.str) for name, row in whole.items()}
        slabs |= state_slabs(state, n_labels, numbers.size)
        slabs |= {"history": Slab((n_labels, HISTORY_POINTS * 5), "<i8"), ORDER: Slab((n_labels, N_NUMBERS), "<i8")}

        def fill(writer: CheckpointWriter) -> None:
            for name, row in whole.items() if self.comm.rank == 0 else ():
                writer.write_row(name, 0, row)
            for lane, place in enumerate(self.mine.tolist()):
                writer.write_row("history", place, self.history[lane])
                writer.write_row(ORDER, place, order[lane])
                for name, values in state.arrays_of(lane, np.append(0, rows)).items():
                    writer.write_row(name, place, values)

        self.checkpoints.save(slabs, fill)
        self.has_checkpoint = True

    def _restore(self) -> int:
        """Collective. Go on from the newest checkpoint: how many rows of the source it has had.

        Raises DataError if every checkpoint is damaged or they are of other data.
        """
        path, source = self.checkpoints.newest(), self.source
        if path is None:
            self.folder.log("no checkpoint was written yet; starting from the beginning")
            return 0
        with mpi.agreed(self.comm, f"reading {path}"), reading_checkpoint(path) as file:
            n_rows, self.n_points, n_features, *digest = file["pass"][0].tolist()
            same = file["origin"].shape == (1, self.origin.size) and (file["origin"][0] == self.origin).all()
            if source.n_rows is not None:
                same = same and tuple(digest) == source.digest
            if not same:
                raise DataError(f"{source.name}: this run was started on other data; resume with the same file")
            source.expected = tuple(digest)
            self.state.restore(self.mine, n_rows, n_features, file["features"][0], lambda name, place: file[name][place])
            self.driver.before = float(file["elapsed"][0, 0])
            if self.mine.size:
                mine = slice(self.mine[0], self.mine[-1] + 1)
                self.history = file["history"][mine].reshape(-1, HISTORY_POINTS, 5).astype(np.int64)
                self.order.restore(file[ORDER][mine])
        self.has_checkpoint = True
        self.folder.log(f"resuming from {path.name}: {plural(n_rows, 'row')} done")
        return n_rows - self.start

    def discard(self) -> None:
        """Remove a run that has no checkpoint to go on from. Local."""
        if self.comm.rank == 0 and not self.resumed:
            self.folder.discard()

    def _take(self, shard: Shard, rows: np.ndarray) -> None:
        """Collective with live features. Learn from a piece, noting counters at 1, 2, 4 … rows."""
        done = 0
        while done < rows.size:
            point = 1 << int(self.state.n_rows).bit_length()  # the next power of two
            some = rows[done : done + point - self.state.n_rows]
            try:
                self.state.learn(shard, some, lambda mine: mpi.allreduce_maxima(self.comm, mine))
            except DataError as error:  # of a row, so all ranks have it
                raise DataError(f"{self.source.name}: {error}") from None
            self.order.add(shard, some)
            done += some.size
            if self.state.n_rows == point:
                self._note_point()

    def _note_point(self) -> None:
        """A line of the history for each label."""
        if self.n_points and (self.history[:, self.n_points - 1, 0] == self.state.n_rows).all() and self.state.n_lanes:
            return
        self.history[:, self.n_points, 0] = self.state.n_rows
        self.history[:, self.n_points, 1:] = self.state.counters.T
        self.n_points += 1

    def write_history(self) -> None:
        """Collective. Write history.csv, label by label. Raises DataError."""
        points = np.concatenate(mpi.allgather_arrays(self.comm, self.history[:, : self.n_points].reshape(-1)))

        def lines(points_of_labels: list[list[list[int]]]) -> Iterator[Sequence[object]]:
            yield HISTORY
            for name, of_label in zip(self.source.names, points_of_labels, strict=True):
                rows_before, wrong_before = 0, 0
                for rows, positives, false_positives, false_negatives, updates in of_label:
                    wrong = false_positives + false_negatives
                    recent = (wrong - wrong_before) / max(1, rows - rows_before)
                    yield name, rows, positives, false_positives, false_negatives, updates, wrong / max(1, rows), recent
                    rows_before, wrong_before = rows, wrong

        table = lines(points.reshape(len(self.source.names), -1, 5).tolist())  # made as it is written
        mpi.run_on_root(self.comm, f"writing {self.folder.history}", lambda: write_table(self.folder.history, table))


def importance_of(
    comm: mpi.Comm, dataset: DataFile, split: str, labels: np.ndarray, shuffle: bool, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Collective over `comm`. (largest |u − v| over `labels`, whether a row has it) by feature.

    The labels are divided over the ranks. Raises ConfigError (unknown split), DataError.
    """
    options = MbwOptions(split=split, shuffle=shuffle, seed=seed, min_positives=0)
    source = DatasetSource(comm, dataset, options)
    mine = labels[labels_of(labels, comm.rank, comm.size)]
    with mpi.agreed(comm, "making room for the weights"):
        state = LearnerState(options, "mbw", source.n_labels, source.n_features, mine)
    for number, (shard, rows) in enumerate(source.pieces(0)):
        if number == 0:
            with mpi.node_first(comm):
                state.learn(shard, rows[:0])
        state.learn(shard, rows)
    return mpi.allreduce_maxima(comm, state.importance()), state.seen
