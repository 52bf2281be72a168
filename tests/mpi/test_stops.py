import errno
import itertools
import os

import pytest
from support.make import by_one_rank, dataset_for_all, random_data
from support.methods import AtLook
from support.training import changed, train

from hpcml import mpi, slices
from hpcml.errors import DataError, Interrupted, Stopped
from hpcml.files.slabs import Slab
from hpcml.log import Log
from hpcml.methods.linear import layout, objective
from hpcml.run.checkpoint import Checkpoints
from hpcml.run.driver import SIGNAL, Driver

pytestmark = pytest.mark.mpi

NEVER = 10**9


class SeenIf:
    def __init__(self, condition):
        self.condition = condition

    @property
    def seen(self):
        return self.condition()


@pytest.fixture
def short_slices(monkeypatch):
    monkeypatch.setattr(slices, "SLICE_VALUES", 400)
    monkeypatch.setattr(objective, "ROWS_BYTES", 8 * 200)


def test_run_stopped_in_its_last_label_is_incomplete(comm, mpi_tmp_path, monkeypatch):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(4, 160, 40, 4, density=0.2))
    options, signals, value = {"label": ("label0",), "max_steps": 5}, AtLook(NEVER), objective.Objective.value
    whole = train("svmperf", None, data, mpi_tmp_path / f"whole{comm.rank}", options).model.read_bytes()

    def left(*_):
        signals.left = 0
        raise Stopped

    monkeypatch.setattr(objective.Objective, "value", left)
    with pytest.raises(Interrupted):
        train("svmperf", None, data, mpi_tmp_path / f"run{comm.rank}", options, signals=signals)
    monkeypatch.setattr(objective.Objective, "value", value)
    assert train("svmperf", None, data, mpi_tmp_path / f"run{comm.rank}", options, resume=True).model.read_bytes() == whole


def test_signal_while_rows_are_read_leaves_nothing(comm, mpi_tmp_path, short_slices):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(4, 160, 40, 6, density=0.2))
    for looks in (1, 7):
        with pytest.raises(Interrupted, match="while reading the rows; nothing is lost"):
            train("dual", comm, data, mpi_tmp_path / "run", {}, signals=AtLook(looks if comm.rank == 0 else NEVER))
    comm.Barrier()
    assert not (mpi_tmp_path / "run").exists()


def test_no_slice_begins_after_a_signal(comm, short_slices):
    for leaver in range(comm.size):
        for leave in (1, 5, 40):
            started = []

            def wants(leaver=leaver, leave=leave, started=started):
                return comm.rank == leaver and len(started) >= leave

            stop = Driver(comm, comm, SeenIf(wants), n_values=NEVER)
            stopped = False
            try:
                for part in stop.slices(range(30 * comm.rank)):
                    started.append(part)
            except Stopped:
                stopped = True
            assert comm.allgather(stopped) == [stopped] * comm.size
            assert stopped == (leave <= 30 * leaver)
            if comm.rank == leaver:
                assert len(started) == min(leave, 30 * leaver)
            while stop.poll() is None:  # what is on its way must arrive
                pass


def test_signal_reaches_other_groups_inside_a_pass(comm):
    started = []

    def wants():
        return comm.rank == 0 and len(started) > 3

    stop = Driver(comm, mpi.self_comm(), SeenIf(wants), n_values=NEVER)
    with pytest.raises(Stopped):
        for part in stop.slices(itertools.count()):
            started.append(part)
    seen = None
    while seen is None or not seen[SIGNAL]:
        seen = stop.poll()
    assert len(started) == 4 or comm.rank > 0


def test_online_pass_stopped_between_rows_that_are_read_together(comm, mpi_tmp_path, monkeypatch):
    X, Y = random_data(4, 160, 40, 3, density=0.2)

    def files():
        lines = []
        for x, y in zip(X, Y, strict=True):
            pairs = zip(x.indices.tolist(), x.data.tolist(), strict=True)
            lines.append(" ".join([",".join(map(str, sorted(y.indices.tolist()))), *(f"{j + 1}:{v!r}" for j, v in pairs)]) + "\n")
        (mpi_tmp_path / "sets.svm").write_text("".join(lines))

    by_one_rank(comm, files)
    options = {"label": ("0", "1", "2"), "voted": True}
    whole = train("pa", comm, mpi_tmp_path / "sets.svm", mpi_tmp_path / "whole", options).model.read_bytes()
    monkeypatch.setattr(slices, "SLICE_VALUES", 400)
    for stops, said in enumerate((r"\(\d\d rows done\)", r"\(\d\d rows done\)")):
        signals = AtLook(2 if comm.rank == comm.size - 1 else NEVER)
        with pytest.raises(Interrupted, match=said):
            train("pa", comm, mpi_tmp_path / "sets.svm", mpi_tmp_path / "run", options, resume=stops > 0, signals=signals)
    model = train("pa", comm, mpi_tmp_path / "sets.svm", mpi_tmp_path / "run", options, resume=True).model
    assert model.read_bytes() == whole


def test_full_disk_of_one_rank_ends_a_checkpoint_on_all_ranks(comm, mpi_tmp_path):
    def fill(_writer):
        if comm.rank == comm.size - 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(DataError, match="No space left on device while writing a checkpoint"):
        Checkpoints(comm, mpi_tmp_path, Log(0)).save({"steps": Slab((1, 2), "<f8")}, fill)
    comm.Barrier()
    assert not list(mpi_tmp_path.iterdir())


@pytest.mark.usefixtures("in_step")
def test_probe_maps_rows_that_exceed_memory(comm, mpi_tmp_path, monkeypatch):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(4, 300, 40, 4, density=0.2))
    monkeypatch.setattr(slices, "SLICE_VALUES", 400)
    roomy = train("probe", comm, data, mpi_tmp_path / "roomy", {"max_steps": 20})
    asked = []
    monkeypatch.setattr("hpcml.methods.linear.objective.ask_for", lambda *arrays: asked.append(arrays))
    monkeypatch.setattr("hpcml.data.shared_rows.room_per_rank", lambda comm: 0.0)
    mapped = train("probe", comm, data, mpi_tmp_path / "mapped", {"max_steps": 20})
    assert mapped.model.read_bytes() == roomy.model.read_bytes()
    assert asked


@pytest.mark.usefixtures("in_step")
@pytest.mark.parametrize("loss", ["squared-hinge", pytest.param("logistic", marks=pytest.mark.more("methods"))])
def test_streams_rows_that_exceed_memory(comm, mpi_tmp_path, monkeypatch, capfd, loss):
    data = dataset_for_all(comm, mpi_tmp_path / "data.h5", *random_data(4, 300, 40, 4, density=0.2))
    options = {"labels_per_pass": 2, "ranks_per_group": 1, "show_gaps": True, "loss": loss}
    roomy = train("dual", comm, data, mpi_tmp_path / "roomy", options)
    monkeypatch.setattr("hpcml.data.shared_rows.room_per_rank", lambda comm: 0.0)  # rows are mapped on one rank, too
    monkeypatch.setattr(layout, "SMALLEST_CHUNK", 256)
    mapped = train("dual", comm, data, mpi_tmp_path / "mapped", options)
    assert mapped.model.read_bytes() == roomy.model.read_bytes()
    monkeypatch.setattr(layout, "node_memory", lambda: 0)
    capfd.readouterr()
    short = train("dual", comm, data, mpi_tmp_path / "short", options)
    assert ("warning: not enough memory for the rows" in capfd.readouterr().err) == (comm.rank == 0)
    assert short.model.read_bytes() != roomy.model.read_bytes()
    assert short.max_gap < 0.1
    with monkeypatch.context() as little:  # memory for a part of the working set, then for a chunk of the usual size
        little.setattr("hpcml.methods.linear.layout.kept_values", lambda *_: 300)
        assert train("dual", comm, data, mpi_tmp_path / "kept", options).model.read_bytes() == short.model.read_bytes()
        little.setattr("hpcml.methods.linear.layout.chunk_values", lambda *_: 0)
        assert train("dual", comm, data, mpi_tmp_path / "chunk", options).model.read_bytes() == roomy.model.read_bytes()
    for stops in range(2):
        with pytest.raises(Interrupted):
            train("dual", comm, data, mpi_tmp_path / "run", changed(options, time_limit=1e-9), resume=stops > 0)
    monkeypatch.setattr(layout, "node_memory", lambda: 1 << 60)
    model = train("dual", comm, data, mpi_tmp_path / "run", options, resume=True).model
    assert model.read_bytes() == short.model.read_bytes()
