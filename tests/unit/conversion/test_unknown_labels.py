"""Labels missing from the --like file: every source stores them by name, separately from the labels."""

import json

import h5py
import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from support.converted import converted, label_sets
from support.edits import attributes, edit, entry, remove, replace

import hpcml
from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.data.info import info
from hpcml.data.labels import all_label_names, load_shard_with_unknown
from hpcml.errors import DataError

SELF = mpi.self_comm()
SETS = [["b", "x"], ["a"], ["y", "b", "x"], [], ["y"]]
KNOWN = [["a"], ["b"], ["a", "b"], ["b"], []]


def rows_of(path):
    with h5py.File(path) as file:
        assert all(file[name].attrs["encoding-type"] == "csr_matrix" for name in ("Y", "unknown_labels") if name in file)
    return label_sets(path), label_sets(path, "unknown_labels", "unknown_label_names")


def command(source, write, **options):
    def make(folder, stem, sets, **more):
        converted(source, write(folder, stem, sets), folder / f"{stem}.h5", **options, **more)
        return folder / f"{stem}.h5"

    return make


def jsonl(folder, stem, sets):
    path = folder / f"{stem}.jsonl"
    path.write_text("".join(json.dumps({"text": "one word", "labels": labels}) + "\n" for labels in sets))
    return [path]


def table(folder, stem, sets):
    path = folder / f"{stem}.csv"
    path.write_text("number,topics\n" + "".join(f"{7 - k},{';'.join(labels)}\n" for k, labels in enumerate(sets)))
    return [path]


def matrix(folder, stem, sets):
    names = sorted({label for labels in sets for label in labels} | {"nobody"})
    Y = np.array([[name in labels for name in names] for labels in sets], dtype=np.float32)
    np.savez(folder / f"{stem}.npz", X=np.ones((len(sets), 2)), Y=Y, label_names=np.array(names))
    return [folder / f"{stem}.npz"]


def from_sparse(folder, stem, sets, **more):
    hpcml.Dataset.from_sparse(sp.csr_matrix(np.ones((len(sets), 2))), sets, folder / f"{stem}.h5", **more).file.close()
    return folder / f"{stem}.h5"


def from_frame(folder, stem, sets, **more):
    frame = pandas.DataFrame({"number": range(7, 7 - len(sets), -1), "topics": sets})
    hpcml.Dataset.from_frame(frame, folder / f"{stem}.h5", labels=["topics"], **more).file.close()
    return folder / f"{stem}.h5"


SOURCES = {
    "jsonl": command("jsonl", jsonl),
    "csv": command("csv", table, labels=("topics",), label_separator=";"),
    "npz": command("npz", matrix),
    "from_sparse": from_sparse,
    "from_frame": from_frame,
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_stores_unknown_labels(tmp_path, source):
    make = SOURCES[source]
    like = make(tmp_path, "like", KNOWN)
    assert rows_of(like) == (KNOWN, None)
    found, unknown = rows_of(make(tmp_path, "kept", SETS, like=like))
    assert found == [["b"], ["a"], ["b"], [], []]
    assert unknown == [["x"], [], ["x", "y"], [], ["y"]]
    found, unknown = rows_of(make(tmp_path, "new", SETS, like=like, new_labels=True, renamed=("a=z",)))
    with DataFile(tmp_path / "new.h5") as dataset:
        names = [name for name in dataset.label_names() if name != "nobody"]
    assert names == ["z", "b", "x", "y"]
    assert (found, unknown) == ([["b", "x"], ["z"], ["b", "x", "y"], [], ["y"]], None)


def test_rows_with_known_and_unknown_labels(tmp_path):
    rng = np.random.default_rng(0)
    sets = [[name for name in "abcdefgh" if rng.random() < 0.4] for _ in range(50)]
    like = from_sparse(tmp_path, "like", [list("aceg")] * 2)
    with DataFile(from_sparse(tmp_path, "rows", sets, like=like, splits={"odd": range(1, 50, 2)})) as dataset:
        names, shard = all_label_names(dataset), load_shard_with_unknown(SELF, dataset, "odd")
        assert names == list("acegbdfh")
        for row, labels in zip(shard.rows, sets[1::2], strict=True):
            some = shard.y_indices[shard.y_indptr[row] : shard.y_indptr[row + 1]]
            assert (np.diff(some) > 0).all()
            assert sorted(names[label] for label in some) == labels


DAMAGE = {
    "unknown_label_names": replace("unknown_label_names", lambda _: ["x"]),
    "unknown_label_names is missing": remove("unknown_label_names"),
    "damaged dataset": remove("unknown_labels"),
    "unknown_labels/indptr": replace("unknown_labels/indptr", lambda _: np.zeros(3, dtype=np.int64)),
    "row 0": entry("unknown_labels/indices", 0, 7),
    "row 1": entry("unknown_labels/indptr", 2, 0),
    "name of a known label": entry("unknown_label_names", 0, "a"),
    "unknown_labels": attributes({"shape": np.array([9, 2])}, "unknown_labels"),
}


@pytest.mark.parametrize("words", DAMAGE)
def test_damage_is_refused(tmp_path, words):
    path = from_sparse(tmp_path, "rows", SETS, like=from_sparse(tmp_path, "like", KNOWN))
    assert info(SELF, path, [1]).n_unknown == 2
    edit(path, DAMAGE[words])
    with pytest.raises(DataError, match=words):
        info(SELF, path, [1])
