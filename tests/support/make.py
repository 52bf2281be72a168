"""Small dataset and model files for tests."""

import json
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp

from hpcml import mpi
from hpcml.data.row_keys import ID, content_keys, feature_keys, string_keys
from hpcml.files.hdf5 import describe_matrix, matrix_slabs, stamp, vocabulary_digest, write_label_titles, write_strings
from hpcml.files.slabs import new_file, require_group
from hpcml.model import skops_file
from hpcml.model.classifier import MarginData, Origin, fitted_attributes, is_own, write_classifier
from hpcml.model.learner import fit, parse_learner
from hpcml.model.linear import STATUS, model_slabs
from hpcml.model.raw_input import RawInput


def names(letter, n):
    return [f"{letter}{i}" for i in range(n)]


def random_data(seed, n_rows, n_features, n_labels, density=0.2):
    """Return random X (csr float32) and Y (csr, label sets); a few rows have no feature or no label."""
    rng = np.random.default_rng(seed)
    X = sp.random(n_rows, n_features, density, "csr", random_state=rng, data_rvs=lambda n: rng.standard_normal(n)).astype(
        np.float32
    )
    Y = sp.random(n_rows, n_labels, density, "csr", random_state=rng)
    return X, Y


def document_lines(seed, n_documents, n_words, n_labels):
    rng = np.random.default_rng(seed)
    own = rng.integers(n_words, size=(n_labels, 8))
    lines = []
    for number in range(n_documents):
        labels = rng.choice(n_labels, size=rng.integers(1, 4), replace=False)
        words = np.concatenate([rng.integers(n_words, size=20), *(rng.choice(own[label], 5) for label in labels)])
        text = " ".join(f"word{word:04}" for word in words)
        document = {"id": f"d{number}", "title": f"Report {number}", "text": text, "labels": [f"label{each}" for each in labels]}
        lines.append(json.dumps(document) + "\n")
    return "".join(lines)


def svmlight_lines(X, labels):
    pairs = (zip(row.indices.tolist(), row.data.tolist(), strict=True) for row in (X[[number]] for number in range(X.shape[0])))
    return [" ".join([label, *(f"{j + 1}:{x!r}" for j, x in row)]) + "\n" for label, row in zip(labels, pairs, strict=True)]


def duplicates():
    X, Y = random_data(2, 15, 6, 3, density=0.5)
    return sp.vstack([X, X, X]), sp.vstack([Y, Y, Y])


def conflicts():
    X, Y = random_data(3, 20, 6, 3, density=0.5)
    return sp.vstack([X, X]), sp.vstack([Y, sp.csr_matrix(Y.toarray() == 0)])


def dataset(
    path, X, Y, feature_names=None, label_names=None, row_ids=None, splits=None, ones=False, label_titles=None, groups=None
):
    """Write X and Y (dense or sparse) as a dataset and return the path.

    `ones`: all values are 1 and are not written. `groups` are the keys of the rows' groups.
    """
    matrices = {"X": (sp.csr_matrix(X), ones), "Y": (sp.csr_matrix(Y), True)}
    slabs = {}
    for name, (matrix, all_ones) in matrices.items():
        matrix.sort_indices()
        slabs |= matrix_slabs(name, matrix.shape[0], matrix.nnz, matrix.shape[1], None if all_ones else "<f4")
    label_names = names("label", Y.shape[1]) if label_names is None else label_names

    def describe(file: h5py.File) -> None:
        for name, (matrix, all_ones) in matrices.items():
            describe_matrix(file, name, *matrix.shape, matrix.nnz, all_ones)
        stamp(file, "dataset")
        file.attrs["vocabulary"] = vocabulary_digest(feature_names, X.shape[1])
        for name, strings in (("feature_names", feature_names), ("label_names", label_names), ("row_ids", row_ids)):
            if strings is not None:
                write_strings(file, name, strings)
        write_label_titles(file, label_titles)
        raw_input(feature_names).write(file)
        for name, rows in (splits or {}).items():
            require_group(file, "splits")[name] = np.asarray(rows, dtype=np.int64)
        rows = matrices["X"][0]
        keys = content_keys(np.diff(rows.indptr), rows.indices, rows.data, feature_keys(feature_names))
        file["row_keys"] = keys if row_ids is None else string_keys(ID, row_ids)
        if groups is not None:
            file["row_groups"] = np.asarray(groups, dtype=np.uint64)

    with new_file(mpi.self_comm(), path) as out:
        out.layout(slabs, describe)
        for name, (matrix, all_ones) in matrices.items():
            out.write(f"{name}/indptr", 0, matrix.indptr)
            out.write(f"{name}/indices", 0, matrix.indices)
            if not all_ones:
                out.write(f"{name}/data", 0, matrix.data)
    return Path(path)


def compact_columns(seed, n_features, n_columns):
    """Return columns and factors of features: some absent, some in a column of their own, several in each of the last columns."""
    rng = np.random.default_rng(seed)
    columns, factors = rng.integers(n_columns // 2, n_columns, n_features), rng.standard_normal(n_features).astype(np.float32)
    own = rng.permutation(n_features)[: n_columns // 2]
    columns[own], factors[own] = np.arange(own.size), 1
    absent = rng.permutation(np.setdiff1d(np.arange(n_features), own))[: n_features // 4]
    columns[absent], factors[absent] = 0, 0
    return columns, factors


def raw_input(feature_names):
    packed = None if feature_names is None else np.frombuffer("\0".join(feature_names).encode(), np.uint8)
    return RawInput({"source": "csv"}, packed)


def model(
    path,
    W,
    bias=None,
    label_names=None,
    feature_names=None,
    columns=None,
    factors=None,
    precision="<f8",
    sparse=False,
    label_titles=None,
):
    """Write W (n_labels × n_columns) as a linear model and return the path; by default every feature is a column."""
    n_labels, n_columns = W.shape
    columns = np.arange(n_columns) if columns is None else np.asarray(columns)
    label_names = names("label", n_labels) if label_names is None else label_names
    csr = sp.csr_matrix(W.astype(precision)) if sparse else None

    def describe(file: h5py.File) -> None:
        stamp(file, "model")
        if sparse:
            describe_matrix(file, "W", *csr.shape, csr.nnz, ones=False)
        file.attrs["vocabulary"] = vocabulary_digest(feature_names, columns.size)
        file.attrs["method"] = "probe"
        write_strings(file, "label_names", label_names)
        write_label_titles(file, label_titles)
        raw_input(feature_names).write(file)

    with new_file(mpi.self_comm(), path) as out:
        out.layout(model_slabs(n_labels, columns.size, n_columns, precision, n_weights=csr.nnz if sparse else None), describe)
        for name in ("indptr", "indices", "data") if sparse else ():
            out.write(f"W/{name}", 0, getattr(csr, name))
        if not sparse:
            out.write("W", 0, W)
        out.write("columns", 0, columns)
        out.write("factors", 0, np.ones(columns.size) if factors is None else factors)
        out.write("bias", 0, np.zeros(n_labels) if bias is None else bias)
        for name in ("f_min", "steps", "n_positive", "visited"):
            out.write(f"labels/{name}", 0, np.zeros(n_labels))
        out.write("labels/status", 0, np.full(n_labels, STATUS.index("converged")))
    return Path(path)


def results_model(comm, path, results, names, n_columns, sparse):
    """Collective. Write W and the columns `names` and the texts of the labels of `results`. Return the path."""
    results.share_index()
    n_weights = int(results.index[:, 2].sum()) if sparse else None
    sizes = len(results.index), n_columns, n_columns, results.weight_type.str
    with new_file(comm, path) as out, new_file(comm, Path(path).with_suffix(".csv"), overwrite=True) as history:
        slabs = model_slabs(*sizes, n_weights=n_weights)
        history.attach({})
        out.layout({name: slab for name, slab in slabs.items() if name.partition("/")[0] == "W" or name in names})
        results.write_labels(out, names, history, b"header\n")
    return Path(path)


def classifier(path, base, X, y, label_names=("class 1",), feature_names=None, dense=False, margin_rows=(0, 2), seed=0):
    """Fit the learner `base` (as on the command line) to X and y, write the classifier and return the path."""
    learner = parse_learner(base.split())
    data = (label_names, X.shape[1], vocabulary_digest(feature_names, X.shape[1]), dense)
    origin = Origin("probe", learner, "all", *data, {"validation_error": 0.25}, None, raw_input(feature_names))
    margin = MarginData(np.array(margin_rows), np.ones(len(margin_rows)), 3)
    write_classifier(path, fit(learner, X.toarray() if dense else X, np.asarray(y), seed), origin, margin)
    return Path(path)


def classifier_bytes(classifier):
    if not is_own(classifier):
        return skops_file.dump(classifier)
    values = {
        name: (np.asarray(value).dtype.str, np.asarray(value).tobytes()) for name, value in fitted_attributes(classifier).items()
    }
    return repr((classifier.kind, values)).encode()


def class_data(seed, n_rows, n_features, n_classes, density=0.4):
    """Return random X (csr float32), classes y that depend on it, and Y: a label for class 1 of two, else a label per class."""
    X, _ = random_data(seed, n_rows, n_features, 1, density)
    values = X.toarray()[:, : max(2, n_classes)] + np.random.default_rng(seed).normal(0, 0.3, (n_rows, max(2, n_classes)))
    y = values[:, :n_classes].argmax(axis=1)
    Y = y[:, None] == np.arange(n_classes) if n_classes > 2 else y[:, None] == 1
    return X, y, sp.csr_matrix(Y.astype(float))


def dataset_for_all(comm, path, *args, **more):
    return by_one_rank(comm, lambda: dataset(path, *args, **more))


def by_one_rank(comm, work):
    return comm.bcast(work() if comm.rank == 0 else None)
