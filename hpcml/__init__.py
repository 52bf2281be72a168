"""hpcml: very many classifiers on large sparse data, with MPI; the same bits on any rank count."""

from importlib import import_module

__version__ = "0.12.0"

# The public Python API: imported when first used, so that `import hpcml` starts neither MPI nor numba.
_NAMES = {
    "hpcml.commands.calibrate": "calibrate",
    "hpcml.commands.convert": "convert",
    "hpcml.commands.cv": "cross_validate",
    "hpcml.commands.duplicates": "duplicates",
    "hpcml.commands.evaluate": "evaluate",
    "hpcml.commands.explain": "explain",
    "hpcml.commands.predict": "predict",
    "hpcml.commands.report": "report",
    "hpcml.commands.retrain": "retrain",
    "hpcml.commands.threshold": "threshold",
    "hpcml.commands.train": "train",
    "hpcml.commands.tune": "tune",
    "hpcml.crossval.table": "CrossValidation",
    "hpcml.dataset": "Dataset",
    "hpcml.evaluation.matrices": "evaluate_scores",
    "hpcml.methods.bayes.estimator": "BernoulliNBClassifier BoostedBayesClassifier StagedBayesClassifier StagedSvmClassifier",
    "hpcml.methods.dual.estimator": "DualClassifier",
    "hpcml.methods.elastic_net.estimator": "ElasticNetClassifier",
    "hpcml.methods.online.estimator": "OnlineClassifier",
    "hpcml.methods.probe.estimator": "ProbeClassifier",
    "hpcml.methods.psbml.estimator": "PsbmlClassifier",
    "hpcml.model.classifier": "ClassifierModel",
    "hpcml.model.naive_bayes": "KernelNB",
    "hpcml.model.linear": "Model",
    "hpcml.model.open": "open_model",
}
_API = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *sorted(_API)]


def __getattr__(name: str) -> object:
    if name in _API:
        return getattr(import_module(_API[name]), name)
    raise AttributeError(f"module 'hpcml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_API})
