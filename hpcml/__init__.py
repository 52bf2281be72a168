r"""Many linear and boosted classifiers on large sparse data, with MPI.

>>> import hpcml
>>> topics = {"ship": "sea", "port": "sea", "corn": "farm", "rye": "farm"}
>>> rows = [f"{word} {n},{topic}" for word, topic in topics.items() for n in range(25)]
>>> with open("docs.csv", "w") as file:
...     print("text,topic", *rows, sep="\n", file=file)
>>> dataset = hpcml.convert("csv", "docs.csv", "docs.h5", text="text", labels="topic", test_share=0.2)
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

Functions with the names and options of the commands; `help(hpcml.train)` lists the options:
    convert, duplicates         Convert data to a dataset; find near-duplicate rows.
    train, tune, retrain        Train; choose options and train; update a model after its data changed.
    cross_validate              Compare methods by cross-validation.
    threshold, calibrate        Choose thresholds; calibrate probabilities.
    evaluate, report, explain   Evaluate a model; write an HTML report; show important features.
    predict                     Predict the labels of texts, tables and datasets.

Classes, and functions for data in memory:
    load, LoadedModel, ScoredLabel, save: predict for rows in memory; save a fitted estimator
    Dataset, open_model, Model, ClassifierModel, evaluate_scores, CrossValidation
    For scikit-learn: DualClassifier, ElasticNetClassifier, ProbeClassifier, OnlineClassifier,
    PsbmlClassifier, KernelNB, BernoulliNBClassifier, BoostedBayesClassifier,
    StagedBayesClassifier, StagedSvmClassifier

With comm=MPI.COMM_WORLD all ranks share the work. Results do not depend on the number of ranks.
"""

import sys
from importlib import import_module

# The public Python API. A name is imported when it is first used, so that `import hpcml` starts neither MPI nor numba.
_NAMES = {
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
_FUNCTIONS = "calibrate convert cross_validate duplicates evaluate explain predict report retrain threshold train tune"
_API = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = ["__version__", *sorted([*_API, *_FUNCTIONS.split()])]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("hpcml.version").version()
    if name in _FUNCTIONS.split():
        operation = import_module("hpcml.commands.operation")
        return operation.make_function(operation.import_operation({"cross_validate": "cv"}.get(name, name)), name)
    if name in _API:
        return getattr(import_module(_API[name]), name)
    raise AttributeError(f"module 'hpcml' has no attribute {name!r}")


def __dir__() -> list[str]:
    frame = sys._getframe()
    while frame := frame.f_back:
        if frame.f_code.co_name == "docmodule":  # pydoc would print 4,000 lines about these names
            return []
    return sorted({*globals(), *__all__})
