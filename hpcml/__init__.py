"""hpcml: very many classifiers on large sparse data, with MPI; the same bits on any rank count."""

from importlib import import_module
from typing import TYPE_CHECKING

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
    "hpcml.prediction.loaded": "LoadedModel ScoredLabel load",
    "hpcml.prediction.saved": "save",
}
_API = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *sorted(_API)]

if TYPE_CHECKING:  # the same, for programs that check types
    from hpcml.commands.calibrate import calibrate as calibrate
    from hpcml.commands.convert import convert as convert
    from hpcml.commands.cv import cross_validate as cross_validate
    from hpcml.commands.duplicates import duplicates as duplicates
    from hpcml.commands.evaluate import evaluate as evaluate
    from hpcml.commands.explain import explain as explain
    from hpcml.commands.predict import predict as predict
    from hpcml.commands.report import report as report
    from hpcml.commands.retrain import retrain as retrain
    from hpcml.commands.threshold import threshold as threshold
    from hpcml.commands.train import train as train
    from hpcml.commands.tune import tune as tune
    from hpcml.crossval.table import CrossValidation as CrossValidation
    from hpcml.dataset import Dataset as Dataset
    from hpcml.evaluation.matrices import evaluate_scores as evaluate_scores
    from hpcml.methods.bayes.estimator import BernoulliNBClassifier as BernoulliNBClassifier
    from hpcml.methods.bayes.estimator import BoostedBayesClassifier as BoostedBayesClassifier
    from hpcml.methods.bayes.estimator import StagedBayesClassifier as StagedBayesClassifier
    from hpcml.methods.bayes.estimator import StagedSvmClassifier as StagedSvmClassifier
    from hpcml.methods.dual.estimator import DualClassifier as DualClassifier
    from hpcml.methods.elastic_net.estimator import ElasticNetClassifier as ElasticNetClassifier
    from hpcml.methods.online.estimator import OnlineClassifier as OnlineClassifier
    from hpcml.methods.probe.estimator import ProbeClassifier as ProbeClassifier
    from hpcml.methods.psbml.estimator import PsbmlClassifier as PsbmlClassifier
    from hpcml.model.classifier import ClassifierModel as ClassifierModel
    from hpcml.model.linear import Model as Model
    from hpcml.model.naive_bayes import KernelNB as KernelNB
    from hpcml.model.open import open_model as open_model
    from hpcml.prediction.loaded import LoadedModel as LoadedModel
    from hpcml.prediction.loaded import ScoredLabel as ScoredLabel
    from hpcml.prediction.loaded import load as load
    from hpcml.prediction.saved import save as save
else:  # a checker that saw this would believe in any name

    def __getattr__(name: str) -> object:
        if name in _API:
            return getattr(import_module(_API[name]), name)
        raise AttributeError(f"module 'hpcml' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_API})
