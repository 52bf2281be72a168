"""hpcml: very many linear and boosted classifiers on very large sparse data, with MPI; the same bits on any number of ranks."""

from importlib import import_module
from typing import Any

__version__ = "0.11.0"

# The public Python API: imported when first used, so that `import hpcml` starts neither MPI nor numba.
_API = {
    **dict.fromkeys(("convert", "cross_validate", "cross_validate_top", "duplicates", "evaluate", "explain"), "hpcml.api"),
    **dict.fromkeys(("calibrate", "open_model", "predict", "report", "retrain", "threshold", "train", "tune"), "hpcml.api"),
    "BoostedBayesClassifier": "hpcml.methods.bayes.estimator",
    "ClassifierModel": "hpcml.model.classifier",
    "ConvertOptions": "hpcml.conversion.options",
    **dict.fromkeys(("CrossValidation", "TopPrecision"), "hpcml.crossval"),
    "Dataset": "hpcml.api_dataset",
    "DualClassifier": "hpcml.methods.dual.estimator",
    "ElasticNetClassifier": "hpcml.methods.extreme.estimator",
    "KernelNaiveBayes": "hpcml.model.kernel_bayes",
    "Model": "hpcml.model.linear",
    "NaiveBayesClassifier": "hpcml.methods.bayes.estimator",
    "OnlineClassifier": "hpcml.methods.online.estimator",
    "ProbeClassifier": "hpcml.methods.probe.estimator",
    "PsbmlClassifier": "hpcml.methods.psbml.estimator",
    "StagedBayesClassifier": "hpcml.methods.bayes.estimator",
    "StagedSvmClassifier": "hpcml.methods.bayes.estimator",
}
__all__ = ["__version__", *sorted(_API)]


def __getattr__(name: str) -> Any:
    if name in _API:
        return getattr(import_module(_API[name]), name)
    raise AttributeError(f"module 'hpcml' has no attribute {name!r}")
