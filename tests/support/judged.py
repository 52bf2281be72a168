"""`evaluate` and `predict` in few words: of models, or their paths, on the rows of a dataset's path."""

from pathlib import Path

import h5py

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.evaluation import evaluate
from hpcml.log import Log
from hpcml.model.open import open_model
from hpcml.prediction.predict import predict, write_scores


class HintLog(Log):
    """Keeps the hints of rank 0."""

    def __init__(self, rank=0):
        super().__init__(rank)
        self.notes = []

    def __call__(self, text, has_lines=False):
        self.notes += [text] if self.rank == 0 and text.startswith("note: ") else []


def _opened(model):
    return open_model(model) if isinstance(model, str | Path) else model


def judged(model, data, split="all", labels=None, observers=()):
    """The measures."""
    with DataFile(data) as dataset:
        return evaluate(mpi.self_comm(), _opened(model), dataset, split, Log(1), labels, observers)


def predicted(model, data, output, what="labels", split="all", force=False, top=None, log=None):
    """Write the labels of rows, or the `scores` of all labels. Returns the path."""
    with DataFile(data) as dataset:
        if what == "scores":
            write_scores(mpi.self_comm(), _opened(model), dataset, split, output, force, log or Log(1))
        else:
            predict(mpi.self_comm(), _opened(model), dataset, split, output, force, log or Log(1), top)
    return output


def lines_of(path):
    """The ids, the numbers of labels and the values of a table of predictions in HDF5."""
    with h5py.File(path) as file:
        ids = file["id"].asstr()[:] if file["id"].dtype == object else file["id"][:]
        return ids.tolist(), file["label"][:], file["probability" if "probability" in file else "score"][:]


def labels_of_rows(path, ids):
    """The names of the labels of rows of these ids, best first, from a table of predictions in HDF5."""
    with h5py.File(path) as file:
        names = file["label_names"].asstr()[:].tolist()
    found = {name: [] for name in ids}
    for name, label, _ in zip(*lines_of(path), strict=True):
        found[name].append(names[label])
    return list(found.values())
