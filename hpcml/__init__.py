r"""Very many linear and boosted classifiers on large sparse data, with MPI.

>>> import hpcml
>>> topics = {"ship": "sea", "port": "sea", "corn": "farm", "rye": "farm"}
>>> rows = [f"{word} {n},{topic}" for word, topic in topics.items() for n in range(25)]
>>> with open("docs.csv", "w") as file:
...     print("text,topic", *rows, sep="\n", file=file)
>>> made = hpcml.convert("csv", "docs.csv", "docs.h5",
...                      text="text", labels="topic", test_share=0.2)
>>> run = hpcml.train("dual", "docs.h5", "run", dual_tol=0.01)
>>> hpcml.evaluate(run.model, "docs.h5", split="test").macro("average_precision")
1.0
>>> hpcml.predict(run.model, "docs.csv", "labels.csv")
PosixPath('labels.csv')
>>> hpcml.load(run.model).top(["corn 3"])[0][0].label
'farm'
>>> classifier = hpcml.DualClassifier().fit([[1, 0], [0, 1], [1, 1]], ["sea", "farm", "sea"])
>>> classifier.predict([[2, 0]]).tolist()
['sea']

Functions, as the commands of the same names; help(hpcml.train) lists the options:
    convert, duplicates         Make a dataset; find rows that are nearly the same.
    train, tune, retrain        Train; choose the settings and train; train what has changed.
    cross_validate              Compare methods.
    threshold, calibrate        Choose thresholds; make probabilities of scores.
    evaluate, report, explain   Measure a model; make a page about it; show its features.
    predict                     Label texts, tables and datasets.

Classes, and functions for what is in memory:
    load, LoadedModel, ScoredLabel, save: label what is in memory; save a fitted estimator
    Dataset, open_model, Model, ClassifierModel, evaluate_scores, CrossValidation
    For scikit-learn: DualClassifier, ElasticNetClassifier, ProbeClassifier, OnlineClassifier,
    PsbmlClassifier, KernelNB, BernoulliNBClassifier, BoostedBayesClassifier,
    StagedBayesClassifier, StagedSvmClassifier

With comm=MPI.COMM_WORLD all ranks share the work. The bits are the same on any number of ranks.
"""

import sys
from importlib import import_module

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


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("hpcml.version").version()
    if name in _API:
        return getattr(import_module(_API[name]), name)
    raise AttributeError(f"module 'hpcml' has no attribute {name!r}")


def __dir__() -> list[str]:
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_code.co_name == "docmodule":  # of pydoc, which would print 4,000 lines about these names
            return []
    return sorted({*globals(), *__all__})
