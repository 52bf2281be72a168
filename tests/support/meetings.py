"""Measures of a model on documents by their definitions, from the documents and the numbers in the files alone."""

import json
import math
from pathlib import Path

import h5py
import numpy as np
import scipy.sparse as sp

from support.oracles_bioasq import flat

LABELS = {"Sea": 0.5, "Farms": 0.3, "Trade": 0.2, "Ships": 0.12, "Rivers": 0.16, "Law; old": 0.1}
AT = (1, 3, 5)


def documents(seed, n, more=None, splits=("train", "train", "train", "valid", "test", "test")):
    rng, shares, docs = np.random.default_rng(seed), LABELS | (more or {}), []
    for number in range(n):
        labels = [name for name, share in shares.items() if rng.random() < share]
        words = [f"w{word}" for word in rng.integers(0, 60, 14)]
        words += [f"of{name[:3].lower()}" for name in labels if rng.random() < 0.75]
        doc = {"id": f"{seed}-{number}", "title": "On water", "text": " ".join(words), "labels": labels}
        docs.append(doc | ({"split": splits[number % len(splits)]} if splits else {}))
    return docs


def write(path, docs):
    Path(path).write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    return Path(path)


def _matrix(group):
    shape = tuple(int(n) for n in group.attrs["shape"])
    return sp.csr_matrix((group["data"][:].astype(np.float64), group["indices"][:], group["indptr"][:]), shape=shape)


def _strings(file, name):
    return [each.decode() for each in file[name][:]]


class Twin:
    """The scores of a model for the documents of a split of a dataset, and their measures.

    `names` (L) are the model's labels, `scores` (n × L) its scores, `odds` (n × L) log-odds if it has probabilities, else the
    scores, `true` (n) the documents' label sets, `given` (n) the labels whose scores exceed the thresholds. `docs` are documents
    with ids, or the label sets of the file's rows.
    """

    def __init__(self, model, data, docs, split):
        with h5py.File(data) as file:
            rows = np.arange(file["X"].attrs["shape"][0]) if split == "all" else file[f"splits/{split}"][:]
            X, by_id = _matrix(file["X"])[rows], isinstance(docs[0], dict)
            self.ids = [_strings(file, "row_ids")[row] for row in rows] if by_id else rows.tolist()
        with h5py.File(Path(model, "model.h5") if Path(model).is_dir() else model) as file:
            self._read(file, X)
        sets = {doc["id"]: set(doc["labels"]) for doc in docs} if by_id else docs
        self.true = [sets[name] for name in self.ids]
        self.given = [{self.names[label] for label in np.nonzero(row)[0]} for row in self.scores > self.threshold]

    def _read(self, file, X):
        self.names = _strings(file, "label_names")
        W = _matrix(file["W"]).toarray() if isinstance(file["W"], h5py.Group) else file["W"][:].astype(np.float64)
        factors, columns = file["factors"][:].astype(np.float64), file["columns"][:]
        weights = W[:, columns] * factors
        self.scores = np.asarray(X @ weights.T) + file["bias"][:]
        if "normalised" in file.attrs:
            self.scores /= 1.0 + np.asarray(X @ (factors != 0)).reshape(-1, 1)
        labels = file["labels"]
        self.threshold = labels["threshold"][:] if "threshold" in labels else np.zeros(len(self.names))
        self.odds = self.scores
        if "sigmoid_slope" in labels:
            self.odds = self.scores * labels["sigmoid_slope"][:] + labels["sigmoid_offset"][:]

    @property
    def probabilities(self):
        return 1.0 / (1.0 + np.exp(-self.odds))

    def best(self, k):
        """Return the indices of the k best labels of each row, best first; ties in order of the index."""
        return np.argsort(-self.odds, axis=1, kind="stable")[:, :k]

    def is_true(self, k):
        """Return whether each of the k best labels is true (n × k)."""
        return np.array([[self.names[label] in true for label in row] for row, true in zip(self.best(k), self.true, strict=True)])

    def precision_at(self):
        return {k: float(self.is_true(k).mean()) for k in AT}

    def ndcg_at(self):
        measures = {}
        for k in AT:
            ratios = []
            for hits, true in zip(self.is_true(k), self.true, strict=True):
                if true:
                    ideal = sum(1 / math.log2(index + 2) for index in range(min(k, len(true))))
                    ratios.append(sum(1 / math.log2(index + 2) for index in np.nonzero(hits)[0]) / ideal)
            measures[k] = float(np.mean(ratios))
        return measures

    def micro(self):
        measures = flat(self.true, self.given)
        return {"precision": measures["MiP"], "recall": measures["MiR"], "f1": measures["MiF"]}

    def micro_average_precision(self):
        """Return the average precision of all pairs in one ranking; labels that the model does not have count as missed."""
        positive = np.array([[name in true for name in self.names] for true in self.true]).ravel()
        return _average_precision(self.odds.ravel(), positive, sum(map(len, self.true)))

    def macro_average_precision(self):
        positives = [np.array([name in true for true in self.true]) for name in self.names]
        pairs = [(label, positive) for label, positive in enumerate(positives) if positive.any()]
        return float(np.mean([_average_precision(self.scores[:, label], positive, positive.sum()) for label, positive in pairs]))

    def instance_f1(self, predicted=None):
        return flat(self.true, self.given if predicted is None else predicted)["EBF"]

    def best_micro_f1(self):
        positive = np.array([[name in true for name in self.names] for true in self.true]).ravel()
        order = np.argsort(-self.odds.ravel(), kind="stable")
        hits, n_true = np.cumsum(positive[order]), sum(map(len, self.true))
        last = np.append(np.diff(self.odds.ravel()[order]) != 0, True)  # of each group of ties
        return float((2 * hits / (np.arange(1, hits.size + 1) + n_true))[last].max())


def _average_precision(scores, positive, n_positive):
    order = np.argsort(-scores, kind="stable")
    hits = positive[order]
    return float((np.cumsum(hits) / np.arange(1, hits.size + 1))[hits].sum() / n_positive)
