"""hpcml: very many linear and boosted classifiers on very large sparse data, with MPI; the same bits on any number of ranks."""

from importlib import import_module
from typing import Any

__version__ = "0.7.0"

# The public Python API: imported when first used, so that `import hpcml` starts neither MPI nor numba.
_API = {
    "AdaboostOptions": "hpcml.config",
    "ClassifierModel": "hpcml.classifier",
    "ConvertOptions": "hpcml.config",
    "CrossValidation": "hpcml.crossval",
    "Dataset": "hpcml.data.schema",
    "KernelNaiveBayes": "hpcml.psbml.naive_bayes",
    "Model": "hpcml.model",
    "OnlineClassifier": "hpcml.online_estimator",
    "OnlineOptions": "hpcml.config",
    "ProbeClassifier": "hpcml.estimator",
    "PsbmlOptions": "hpcml.config",
    "TrainOptions": "hpcml.config",
    "convert": "hpcml.data.convert",
    "cross_validate": "hpcml.crossval",
    "evaluate": "hpcml.evaluate.evaluate",
    "open_model": "hpcml.models",
    "predict": "hpcml.predict",
    "train_adaboost": "hpcml.psbml.adaboost",
    "train_online": "hpcml.online.train",
    "train_probe": "hpcml.convex.train",
    "train_psbml": "hpcml.psbml.train",
}
__all__ = ["__version__", *sorted(_API)]


def __getattr__(name: str) -> Any:
    if name in _API:
        return getattr(import_module(_API[name]), name)
    raise AttributeError(f"module 'hpcml' has no attribute {name!r}")
