"""The figures of a model on documents, by the definitions: from the documents and the numbers in the files alone."""

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
    """So many documents, whose labels (and those of `more`, by their share) bring a word with them most of the time."""
    rng, shares = np.random.default_rng(seed), LABELS | (more or {})
    found = []
    for number in range(n):
        labels = [name for name, share in shares.items() if rng.random() < share]
        words = [f"w{word}" for word in rng.integers(0, 60, 14)]
        words += [f"of{name[:3].lower()}" for name in labels if rng.random() < 0.75]
        one = {"id": f"{seed}-{number}", "title": "On water", "text": " ".join(words), "labels": labels}
        found.append(one | ({"split": splits[number % len(splits)]} if splits else {}))
    return found


def write(path, docs):
    """The documents as JSON lines. Returns the path."""
    Path(path).write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    return Path(path)


def _matrix(group):
    """A CSR matrix as it stands in a file."""
    shape = tuple(int(n) for n in group.attrs["shape"])
    return sp.csr_matrix((group["data"][:].astype(np.float64), group["indices"][:], group["indptr"][:]), shape=shape)


def strings(file, name):
    """UTF-8 strings of a file."""
    return [each.decode() for each in file[name][:]]


class Twin:
    """What a model says of the documents of a split of a dataset.

    `names` (L) are the model's labels, `scores` (n × L) what it thinks of each, `odds` (n × L) the same so that labels can be
    compared with each other: log-odds where the model has probabilities, else the scores. `true` (n) are the documents' own label
    sets, `given` (n) those above the thresholds. In place of documents with ids, `docs` may be the label sets of the file's rows.
    """

    def __init__(self, model, data, docs, split):
        with h5py.File(data) as file:
            rows = np.arange(file["X"].attrs["shape"][0]) if split == "all" else file[f"splits/{split}"][:]
            X, by_id = _matrix(file["X"])[rows], isinstance(docs[0], dict)
            self.ids = [strings(file, "row_ids")[row] for row in rows] if by_id else rows.tolist()
        with h5py.File(Path(model, "model.h5") if Path(model).is_dir() else model) as file:
            self._read(file, X)
        sets = {doc["id"]: set(doc["labels"]) for doc in docs} if by_id else docs
        self.true = [sets[name] for name in self.ids]
        self.given = [{self.names[label] for label in np.nonzero(row)[0]} for row in self.scores > self.threshold]

    def _read(self, file, X):
        self.names = strings(file, "label_names")
        W = _matrix(file["W"]).toarray() if isinstance(file["W"], h5py.Group) else file["W"][:].astype(np.float64)
        factors, columns = file["factors"][:].astype(np.float64), file["columns"][:]
        weights = W[:, columns] * factors
        self.scores = np.asarray(X @ weights.T) + file["bias"][:]
        if "normalised" in file.attrs:
            self.scores /= 1.0 + np.asarray(X @ (factors != 0)).reshape(-1, 1)
        labels = file["labels"]
        self.threshold = labels["threshold"][:] if "threshold" in labels else np.zeros(len(self.names))
        self.odds = self.scores
        self.has_probabilities = "sigmoid_slope" in labels or file.attrs.get("loss") == "logistic"
        if "sigmoid_slope" in labels:
            self.odds = self.scores * labels["sigmoid_slope"][:] + labels["sigmoid_offset"][:]

    @property
    def probabilities(self):
        return 1.0 / (1.0 + np.exp(-self.odds))

    def best(self, k):
        """The numbers of the k best labels of each row, best first; of equal ones the lower numbers."""
        return np.argsort(-self.odds, axis=1, kind="stable")[:, :k]

    def top(self, k):
        """Which of the best are true (n × k)."""
        return np.array([[self.names[label] in true for label in row] for row, true in zip(self.best(k), self.true, strict=True)])

    def precision_at(self):
        return {k: float(self.top(k).mean()) for k in AT}

    def ndcg_at(self):
        found = {}
        for k in AT:
            ratios = []
            for hits, true in zip(self.top(k), self.true, strict=True):
                if true:
                    ideal = sum(1 / math.log2(place + 2) for place in range(min(k, len(true))))
                    ratios.append(sum(1 / math.log2(place + 2) for place in np.nonzero(hits)[0]) / ideal)
            found[k] = float(np.mean(ratios))
        return found

    def micro(self):
        """Precision, recall and F1 of all given pairs of a row and a label; a label that the model does not know is missed."""
        found = flat(self.true, self.given)
        return {"precision": found["MiP"], "recall": found["MiR"], "f1": found["MiF"]}

    def micro_average_precision(self):
        """Of all pairs in one ranking; pairs of labels that the model does not know are never found."""
        positive = np.array([[name in true for name in self.names] for true in self.true]).ravel()
        return _average_precision(self.odds.ravel(), positive, sum(map(len, self.true)))

    def macro_average_precision(self, names=None):
        """The mean over the model's labels that some row has."""
        values = []
        for label, name in enumerate(self.names):
            positive = np.array([name in true for true in self.true])
            if positive.any() and (names is None or name in names):
                values.append(_average_precision(self.scores[:, label], positive, positive.sum()))
        return float(np.mean(values))

    def macro_f1(self):
        """The mean over the model's labels that some row has."""
        values = []
        for name in self.names:
            has, got = (np.array([name in labels for labels in sets]) for sets in (self.true, self.given))
            if has.any():
                values.append(2 * (has & got).sum() / (has.sum() + got.sum()))
        return float(np.mean(values))

    def instance_f1(self, given=None):
        """The mean over rows with a true or a given label."""
        return flat(self.true, self.given if given is None else given)["EBF"]

    def best_micro_f1(self):
        """The largest that any one bound for all labels reaches."""
        positive = np.array([[name in true for name in self.names] for true in self.true]).ravel()
        order = np.argsort(-self.odds.ravel(), kind="stable")
        hits, n_true = np.cumsum(positive[order]), sum(map(len, self.true))
        last = np.append(np.diff(self.odds.ravel()[order]) != 0, True)  # of each group of ties
        return float((2 * hits / (np.arange(1, hits.size + 1) + n_true))[last].max())


def _average_precision(scores, positive, n_positive):
    """The sum of the precision at each positive, without ties between positives and others, over the number of positives."""
    order = np.argsort(-scores, kind="stable")
    hits = positive[order]
    return float((np.cumsum(hits) / np.arange(1, hits.size + 1))[hits].sum() / n_positive)
