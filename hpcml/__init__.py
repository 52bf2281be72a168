"""hpcml: very many linear and boosted classifiers on very large sparse data, with MPI; the same bits on any number of ranks."""

from importlib import import_module
from typing import Any

__version__ = "0.7.0"

# The public Python API: imported when first used, so that `import hpcml` starts neither MPI nor numba.
_API = {
    "AdaboostOptions": "hpcml.methods.psbml.options",
    "ClassifierModel": "hpcml.model.classifier",
    "ConvertOptions": "hpcml.conversion.options",
    "CrossValidation": "hpcml.crossval",
    "Dataset": "hpcml.data.dataset",
    "KernelNaiveBayes": "hpcml.model.kernel_bayes",
    "Model": "hpcml.model.linear",
    "OnlineClassifier": "hpcml.methods.online.estimator",
    "OnlineOptions": "hpcml.methods.online.options",
    "ProbeClassifier": "hpcml.methods.probe.estimator",
    "PsbmlOptions": "hpcml.methods.psbml.options",
    "TrainOptions": "hpcml.methods.linear.options",
    "convert": "hpcml.conversion.convert",
    "cross_validate": "hpcml.crossval",
    "evaluate": "hpcml.evaluation.evaluate",
    "open_model": "hpcml.model.open",
    "predict": "hpcml.prediction.predict",
    "train_adaboost": "hpcml.methods.psbml.adaboost",
    "train_online": "hpcml.methods.online.train",
    "train_probe": "hpcml.methods.linear.train",
    "train_psbml": "hpcml.methods.psbml.train",
}
__all__ = ["__version__", *sorted(_API)]


def __getattr__(name: str) -> Any:
    if name in _API:
        return getattr(import_module(_API[name]), name)
    raise AttributeError(f"module 'hpcml' has no attribute {name!r}")
