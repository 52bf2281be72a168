"""AnnData files of all versions: layers, raw, obsm and compression, against anndata or known values."""

import importlib.util
import sys

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from support.converted import check_refusal, converted, label_sets, matrix, strings
from support.formats import as_h5ad_of_07, matrices

from hpcml.conversion import h5ad

FORMS = {"csr": sp.csr_matrix, "csc": sp.csc_matrix, "dense": lambda X: X.toarray()}


def make(path, **options):
    converted("h5ad", path, path.with_suffix(".h5"), **options)
    return path.with_suffix(".h5")


def splits(path):
    with h5py.File(path) as file:
        return {name: rows[:].tolist() for name, rows in file["splits"].items()}


COLUMNS = {  # categories and codes; -1 is missing
    "kind": (["T cell", "B cell"], [0, 1, -1, 0, 1, -1]),
    "part": (["test", "train"], [1, 0, 1, -1, 1, 0]),
    "sick": ([False, True], [0, 1, 1, 0, 1, 0]),
    "old": (["0", "1"], [0, 1, 1, 0, -1, 0]),
    "batch": ([3, 5], [1, 0, 1, 0, 1, 0]),
    "donor": (["d1", "d2"], [0, 0, 0, 1, 1, 1]),
    "plate": (None, [7, 7, 8, 8, 9, 9]),
}


@pytest.mark.parametrize("with_references", [True, False])
def test_categories_of_anndata_07(tmp_path, with_references):
    X = matrices(3)[0][:6]
    path = as_h5ad_of_07(tmp_path / "old.h5ad", X, COLUMNS)
    if not with_references:
        with h5py.File(path, "r+") as file:
            for name in file["obs/__categories"]:
                del file["obs"][name].attrs["categories"]
    found = make(path, labels=("kind", "batch", "plate"), split_column="part")
    assert label_sets(found) == [
        ["5", "7", "T cell"],
        ["3", "7", "B cell"],
        ["5", "8"],
        ["3", "8", "T cell"],
        ["5", "9", "B cell"],
        ["3", "9"],
    ]
    assert splits(found) == {"test": [1, 5], "train": [0, 2, 4]}
    assert strings(found, "row_ids") == [f"cell {row}" for row in range(6)]
    assert strings(found, "feature_names") == [f"gene {number}" for number in range(X.shape[1])]
    assert np.array_equal(matrix(found), X.toarray())
    found = make(path, indicators=("sick", "old"), id="kind", group="donor")
    assert label_sets(found) == [[], ["old", "sick"], ["old", "sick"], [], [], []]  # row 5 is unlabelled
    assert strings(found, "row_ids") == ["T cell", "B cell", "3", "T cell", "B cell", "6"]
    with h5py.File(found) as file:
        assert file["unlabelled"][:].tolist() == [4]
        groups = file["row_groups"][:].tolist()
        assert groups[:3] == groups[:1] * 3 and groups[3:] == groups[3:4] * 3 and groups[0] != groups[3]
    with h5py.File(path, "r+") as file:
        file["obs/kind"][2] = 2
    check_refusal(lambda: make(path, labels=("kind",)), str(path))


def test_attributes_as_programs_in_r_write_them(tmp_path):
    X = matrices(3)[0][:6]
    path = as_h5ad_of_07(tmp_path / "r.h5ad", X, COLUMNS)
    with h5py.File(path, "r+") as file:
        file["X"].attrs["encoding-type"] = np.bytes_("csc_matrix")
        file["obs"].attrs["_index"] = np.array(["_index"], dtype=h5py.string_dtype())
        file["var"].attrs["_index"] = np.array([b"_index"])
    found = make(path, labels=("kind",))
    assert np.array_equal(matrix(found), X.toarray()) and strings(found, "row_ids") == [f"cell {row}" for row in range(6)]


def test_tables_of_records_of_anndata_06(tmp_path):
    X = matrices(3)[0][:6]
    with h5py.File(tmp_path / "older.h5ad", "w") as file:
        for name in ("data", "indices", "indptr"):
            file[f"X/{name}"] = getattr(X, name)
        file["X"].attrs.update({"h5sparse_format": "csr", "h5sparse_shape": X.shape})
        obs = np.zeros(6, dtype=[("index", "S4"), ("kind", "i1"), ("site", h5py.string_dtype()), ("n", "f8")])
        obs["index"], obs["kind"], obs["site"], obs["n"] = list("abcdef"), [0, 1, -1, 0, 1, 0], ["é", "u"] * 3, 2
        file["obs"] = obs
        file["var"] = np.array([(f"g{number}".encode(), 1) for number in range(X.shape[1])], dtype=[("index", "S4"), ("n", "i8")])
        file.create_dataset("uns/kind_categories", data=["T cell", "B cell"], dtype=h5py.string_dtype())
    found = make(tmp_path / "older.h5ad", labels=("kind", "site", "n"))
    assert label_sets(found) == [
        ["2", *each] for each in (["T cell", "é"], ["B cell", "u"], ["é"], ["T cell", "u"], ["B cell", "é"], ["T cell", "u"])
    ]
    assert strings(found, "row_ids") == list("abcdef")
    assert strings(found, "feature_names") == [f"g{number}" for number in range(X.shape[1])]
    assert np.array_equal(matrix(found), X.toarray())


@pytest.fixture
def cells(tmp_path):
    rng = np.random.default_rng(1)
    X, _ = matrices(3)
    n_rows = X.shape[0]
    obs = pd.DataFrame({"kind": pd.Categorical(["T", "B", "C"] * 13)[:n_rows]}, index=[f"cell {row}" for row in range(n_rows)])
    data = anndata.AnnData(X, obs=obs, var=pd.DataFrame(index=[f"gene {number}" for number in range(X.shape[1])]))
    for number, (form, of) in enumerate(FORMS.items(), 2):
        data.layers[form] = of(X * number)
        data.obsm[form] = of(sp.random(n_rows, 4, 0.5, random_state=number, dtype=np.float32))
    pca = pd.DataFrame(rng.standard_normal((n_rows, 2)), columns=["first", "second"], index=obs.index)
    data.obsm["frame"] = pca.assign(count=rng.integers(0, 9, n_rows), on=rng.random(n_rows) < 0.5)
    data.raw = anndata.AnnData(sp.csc_matrix(sp.random(n_rows, 15, 0.5, random_state=9, dtype=np.float32)), obs=obs)
    data.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


def dense(of):
    return np.float32(of.toarray() if sp.issparse(of) else of)


@pytest.mark.parametrize("form", FORMS)
def test_layers_raw_and_obsm(cells, form):
    data = anndata.read_h5ad(cells)
    found = make(cells, labels=("kind",), layer=form)
    assert np.array_equal(matrix(found), dense(data.layers[form])) and strings(found, "feature_names") == data.var_names.tolist()
    assert label_sets(found) == [[kind] for kind in data.obs.kind]
    found = make(cells, labels=("kind",), obsm=form)
    assert np.array_equal(matrix(found), dense(data.obsm[form]))
    assert strings(found, "feature_names") == [f"{form}:{column}" for column in range(4)]
    raw = data.raw.to_adata()
    raw = anndata.AnnData(FORMS[form](sp.csr_matrix(raw.X)), obs=raw.obs, var=raw.var.set_index("r" + raw.var_names))
    data.raw = raw
    data.write_h5ad(cells)
    found = make(cells, labels=("kind",), raw=True)
    assert np.array_equal(matrix(found), dense(raw.X)) and strings(found, "feature_names") == [f"r{number}" for number in range(15)]


def test_a_data_frame_of_obsm(cells):
    data = anndata.read_h5ad(cells)
    found = make(cells, labels=("kind",), obsm="frame")
    assert strings(found, "feature_names") == ["first", "second", "count", "on"]
    assert np.array_equal(matrix(found), data.obsm["frame"].to_numpy(np.float32))
    data.obsm["frame"] = data.obsm["frame"].assign(count=pd.array([1, None] * 18 + [2], dtype="Int64"))
    data.write_h5ad(cells)
    check_refusal(lambda: make(cells, labels=("kind",), obsm="frame"), "cells.h5ad: row 2", "'count'")
    assert matrix(make(cells, labels=("kind",), obsm="frame", missing_as_zero=True))[:, 2].tolist() == [1, 0] * 18 + [2]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layer": "count"}, ["layers/count", "csr"]),
        ({"obsm": "Frame"}, ["obsm/Frame", "'frame'"]),
        ({"raw": True, "obsm": "csr"}, ["--raw"]),
    ],
)
def test_unknown_matrix_is_refused(cells, options, words):
    check_refusal(lambda: make(cells, labels=("kind",), **options), *words)


def test_missing_or_damaged_matrix_is_refused(cells):
    with h5py.File(cells, "r+") as file:
        del file["X"], file["raw"]
        file["layers/csc/indices"][4] = 37
    check_refusal(lambda: make(cells, labels=("kind",), raw=True), "cells.h5ad", "raw")
    check_refusal(lambda: make(cells, labels=("kind",)), "cells.h5ad: no X")
    check_refusal(lambda: make(cells, labels=("kind",), layer="csc"), "layers/csc: entry 5: row 37")


@pytest.mark.parametrize("name", ["X/data", "obs/kind/codes"])
def test_missing_filter_is_named(cells, name, monkeypatch):
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)  # its import fails
    with h5py.File(cells, "r+") as file:
        data = file[name]
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk(data.shape)
        properties.set_filter(32021, h5py.h5z.FLAG_OPTIONAL)  # a number that no filter has
        space, kind = h5py.h5s.create_simple(data.shape), data.id.get_type()
        del file[name]
        h5py.h5d.create(file.id, name.encode(), kind, space, properties).write_direct_chunk((0,), b"packed")
    check_refusal(lambda: make(cells, labels=("kind",)), name, "32021", "hpcml[h5ad]")


@pytest.mark.skipif(importlib.util.find_spec("hdf5plugin") is None, reason="hdf5plugin is missing (pip install 'hpcml[h5ad]')")
@pytest.mark.parametrize("name", ["Zstd", "Blosc"])
def test_compressed_files(cells, name):
    import hdf5plugin

    ours = {kind: number for number, kind in h5ad.FILTERS.items()}
    assert (
        ours.items() <= {"bitshuffle" if kind == "bshuf" else kind: number for kind, number in hdf5plugin.FILTERS.items()}.items()
    )
    data = anndata.read_h5ad(cells)
    with h5py.File(cells, "r+") as file:
        for part in ("X/data", "X/indices", "X/indptr", "obs/kind/codes"):
            values = file[part][:]
            del file[part]
            file.create_dataset(part, data=values, **getattr(hdf5plugin, name)())
    found = make(cells, labels=("kind",))
    assert np.array_equal(matrix(found), data.X.toarray()) and label_sets(found) == [[kind] for kind in data.obs.kind]
