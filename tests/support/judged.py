"""`evaluate` and `predict` in few words: of models, or their paths, on the rows of a dataset's path."""

from pathlib import Path

from hpcml import mpi
from hpcml.data.dataset import DataFile
from hpcml.evaluation import evaluate
from hpcml.log import Log
from hpcml.model.open import open_model
from hpcml.prediction.predict import predict


def _opened(model):
    return open_model(model) if isinstance(model, str | Path) else model


def judged(model, data, split="all", labels=None, watches=()):
    """The measures."""
    with DataFile(data) as dataset:
        return evaluate(mpi.self_comm(), _opened(model), dataset, split, Log(1), labels, watches)


def predicted(model, data, output, what="scores", split="all", force=False, top=None, log=None):
    """Write what is predicted. Returns the path."""
    with DataFile(data) as dataset:
        predict(mpi.self_comm(), _opened(model), dataset, split, output, what, force, log or Log(1), top)
    return output
