import h5py
import numpy as np
import pytest
from support import make

from hpcml import mpi
from hpcml.errors import DataError
from hpcml.run.results import Results

SELF = mpi.self_comm()
NAMES = ("bias", "labels/steps")
N_LABELS, N_COLUMNS = 5, 9


@pytest.fixture
def W():
    W = np.random.default_rng(0).standard_normal((N_LABELS, N_COLUMNS)).astype(np.float32)
    W[1, ::2] = -0.0
    W[2], W[3, 2:] = 0, 0
    W[4, 3] = np.inf
    return W


def results_in(folder, drop=0.0, resume=True):
    results = Results(SELF, folder, N_LABELS, "<f4", drop)
    results.start(resume)
    return results


def add(results, W, *labels):
    for label in labels:
        results.add(label, np.array([label + 0.5, 7 * label]), None, W[label].astype(np.float64), b"%d,1\n" % label * label)
    results.flush()


def check(folder, results, W, drop=0.0):
    for sparse in (False, True):
        check_form(folder, results, W, drop, sparse)


def check_form(folder, results, W, drop, sparse):
    out = make.results_model(SELF, folder / f"{sparse}.h5", results, NAMES, N_COLUMNS, sparse)
    texts = [b"header\n", *(b"%d,1\n" % label * label for label in range(N_LABELS))]
    assert out.with_suffix(".csv").read_bytes() == b"".join(texts)
    with h5py.File(out) as file:
        assert file["bias"][:].tolist() == [label + 0.5 for label in range(N_LABELS)]
        assert file["labels/steps"][:].tolist() == [7 * label for label in range(N_LABELS)]
        left = (W.view(np.uint32) != 0) & (np.abs(W) >= np.float32(drop))  # −0 is kept
        if not sparse:
            assert file["W"][:].tobytes() == np.where(left, W, np.float32(0)).tobytes()
            return
        assert file["W/indptr"][:].tolist() == [0, *np.cumsum(left.sum(axis=1))]
        assert file["W/indices"][:].tolist() == np.nonzero(left)[1].tolist()
        assert file["W/data"][:].tobytes() == W[left].tobytes()


@pytest.mark.parametrize("written", [1, 20, 1000])
def test_pieces_of_any_size(tmp_path, W, monkeypatch, written):
    monkeypatch.setattr("hpcml.model.linear.WRITTEN", written)
    monkeypatch.setattr("hpcml.run.results.TEXT", written)
    results = results_in(tmp_path)
    add(results, W, *range(N_LABELS))
    check(tmp_path, results, W)


@pytest.mark.parametrize("drop", [0.0, 0.3])
def test_labels_in_any_order_and_after_a_kill(tmp_path, W, drop):
    first = results_in(tmp_path, drop)
    add(first, W, 3, 0, 2)
    first.close()
    file = tmp_path / "results-000000.bin"
    whole = file.read_bytes()
    for torn in (whole[:-1], whole + b"half a record", whole + bytes(1000)):
        file.write_bytes(torn)
        again = results_in(tmp_path, drop)
        assert np.flatnonzero(again.done).tolist() == ([0, 3] if torn == whole[:-1] else [0, 2, 3])
    assert file.read_bytes() == whole
    file.rename(tmp_path / "results-000007.bin")
    again = results_in(tmp_path, drop)
    add(again, W, 4, 1)
    again.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results-000000.bin", "results-000007.bin"]
    again = results_in(tmp_path, drop)
    assert again.done.all()
    check(tmp_path, again, W, drop)


def test_more_files_than_a_process_may_open(tmp_path, W, monkeypatch):
    monkeypatch.setattr("hpcml.run.results.MAX_OPEN", 1)
    for label in range(N_LABELS):
        results = results_in(tmp_path)
        add(results, W, label)
        results.close()
        (tmp_path / "results-000000.bin").rename(tmp_path / f"results-{label % 2 + 1:06d}{label // 2}.bin")
    for k in (1, 2):  # two files, whose labels take turns
        parts = sorted(tmp_path.glob(f"results-{k:06d}?.bin"))
        (tmp_path / f"results-{k:06d}.bin").write_bytes(b"".join(part.read_bytes() for part in parts))
    results = results_in(tmp_path)
    assert results.index[:, 0].tolist() == [1, 2, 1, 2, 1]
    check(tmp_path, results, W)


@pytest.mark.parametrize("place", [0, 47, -1])
def test_skips_damaged_records(tmp_path, W, place):
    results = results_in(tmp_path)
    add(results, W, 1, 0)
    results.close()
    file = tmp_path / "results-000000.bin"
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    again = results_in(tmp_path)
    assert np.flatnonzero(again.done).tolist() == ([1] if place == -1 else [])
    add(again, W, *np.flatnonzero(~again.done).tolist())
    check(tmp_path, again, W)


def test_detects_damage_during_the_run(tmp_path, W):
    results = results_in(tmp_path)
    add(results, W, *range(N_LABELS))
    content = bytearray((tmp_path / "results-000000.bin").read_bytes())
    content[100] ^= 1
    (tmp_path / "results-000000.bin").write_bytes(content)
    with pytest.raises(DataError, match=r"results-000000\.bin: damaged since it was written; continue with --resume"):
        make.results_model(SELF, tmp_path / "model.h5", results, NAMES, N_COLUMNS, True)
    assert not (tmp_path / "model.h5").exists()


def test_new_run_removes_old_records(tmp_path, W):
    add(results_in(tmp_path), W, 0)
    (tmp_path / "results-1.txt").write_text("mine")
    assert not results_in(tmp_path, resume=False).done.any()
    assert [path.name for path in tmp_path.iterdir()] == ["results-1.txt"]
