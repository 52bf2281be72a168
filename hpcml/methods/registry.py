"""The methods of `hpcml train`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hpcml.errors import ConfigError, nearest
from hpcml.methods.bayes.options import BernoulliNBOptions, BoostedBayesOptions, StagedBayesOptions, StagedSvmOptions
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.liblinear.options import LiblinearOptions
from hpcml.methods.method import OTHERS, USUAL
from hpcml.methods.method import Method as Method
from hpcml.methods.online.options import AdditiveOptions, BalancedOptions, MbwOptions, PaOptions, WinnowOptions
from hpcml.methods.probe.options import PegasosOptions, ProbeOptions
from hpcml.methods.psbml.options import AdaboostOptions, PsbmlOptions
from hpcml.methods.svmperf.options import SvmperfOptions

if TYPE_CHECKING:
    from pathlib import Path

    from hpcml.run.session import Session, Target

ROOM = __name__.rpartition(".")[0]
BAYES = f"{ROOM}.bayes"
CLASSES = "A dataset made with `hpcml convert`: one label, or exactly one of several in each row (see --label)."
STREAM = (
    "A dataset made with `hpcml convert`; or svmlight text: a file NAME.svm (plain, .gz, .bz2, .xz, .zst, .zip), or - for standard "
    "input. To resume a run, pass the stream from its beginning."
)
GROUPS = (
    (LABELS := "Start here: many labels, rows that fit the memory of a node"),
    (SPARSE := "Models that are small and can be read"),
    (LARGE := "Rows that do not fit one machine"),
    (COUNTS := "Rows to rank for each label, quickly, from counts"),
    (STREAMS := "A stream, or too many rows to read twice"),
    (HARD := "Naive Bayes of numbers that should rank better; which rows are hard"),
    (COMPARED := "To compare with"),
    OTHERS,
)

# fmt: off
TABLE = (
    Method("probe", "PROBE: subgradient steps from an estimated lower bound", ProbeOptions, LARGE,
           estimator=f"{ROOM}.probe.estimator:ProbeClassifier", linear=f"{ROOM}.probe.probe:METHOD", supports=USUAL | {"tune"}),
    Method("dual", "dual coordinate descent, many labels at once, each certified", DualOptions, LABELS,
           estimator=f"{ROOM}.dual.estimator:DualClassifier", linear=f"{ROOM}.dual.train:METHOD",
           supports=USUAL | {"tune", "retrain"}),
    Method("pegasos", "Pegasos: full subgradient, step 1/(λt), projection, bias", PegasosOptions, COMPARED,
           linear=f"{ROOM}.probe.probe:PEGASOS_METHOD"),
    Method("svmperf", "SVMperf: the 1-slack cutting-plane method, certified gap", SvmperfOptions, COMPARED,
           linear=f"{ROOM}.svmperf.svmperf:METHOD"),
    Method("liblinear", "LIBLINEAR: dual coordinate descent", LiblinearOptions, COMPARED,
           linear=f"{ROOM}.liblinear.liblinear:METHOD"),
    Method("elastic-net", "the elastic net, exact; its time follows a label's positives", ElasticNetOptions, SPARSE,
           train=f"{ROOM}.elastic_net.train:train", estimator=f"{ROOM}.elastic_net.estimator:ElasticNetClassifier",
           penalty="elastic net", linear=f"{ROOM}.elastic_net.train:METHOD", supports=USUAL | {"tune"}),
    Method("bernoulli-nb", "naive Bayes of features present or not: all labels from counts", BernoulliNBOptions, COUNTS,
           estimator=f"{BAYES}.estimator:BernoulliNBClassifier", linear=f"{BAYES}.solvers:BERNOULLI_NB",
           variants={"all-": {"min_weight": 0.0}}, supports=USUAL | {"headings"}, cost=2.0),
    Method("boosted-bayes", "AdaBoost with naive Bayes", BoostedBayesOptions, COUNTS,
           estimator=f"{BAYES}.estimator:BoostedBayesClassifier", linear=f"{BAYES}.solvers:BOOSTED_BAYES",
           supports=USUAL | {"headings"}, cost=20.0),
    Method("staged-bayes", "naive Bayes, once more on the rows that it takes for positive", StagedBayesOptions, COUNTS,
           estimator=f"{BAYES}.estimator:StagedBayesClassifier", linear=f"{BAYES}.solvers:STAGED_BAYES",
           supports=USUAL | {"headings"}, cost=4.0),
    Method("staged-svm", "naive Bayes, then an SVM on rows that it takes for positive", StagedSvmOptions, COUNTS,
           estimator=f"{BAYES}.estimator:StagedSvmClassifier", linear=f"{BAYES}.solvers:STAGED_SVM", supports=USUAL | {"headings"}),
    *(Method(name, f"{about}, in a single pass", options, STREAMS, train=f"{ROOM}.online.train:train",
             estimator=f"{ROOM}.online.estimator:OnlineClassifier", parameters={"method": name}, variants={"v-": {"voted": True}},
             takes=STREAM, pilot=f"{ROOM}.online.run", cost=1.0,
             supports=(USUAL | {"streams"}) - ({"negative_values"} if issubclass(options, WinnowOptions) else set()))
      for name, about, options in (("mbw", "Modified Balanced Winnow", MbwOptions),
                                   ("pa", "Passive-Aggressive", PaOptions),
                                   ("bw", "Balanced Winnow", BalancedOptions),
                                   ("pw", "Positive Winnow", WinnowOptions),
                                   ("perceptron", "the perceptron", AdditiveOptions),
                                   ("romma", "ROMMA (relaxed online maximum margin)", AdditiveOptions))),
    Method("psbml", "PSBML: one classifier of all classes, from the hard rows", PsbmlOptions, HARD, takes=CLASSES,
           train=f"{ROOM}.psbml.train:train", estimator=f"{ROOM}.psbml.estimator:PsbmlClassifier", supports=USUAL - {"label_sets"}),
    Method("adaboost", "AdaBoostM1 (scikit-learn's), on one rank: to compare with psbml", AdaboostOptions, COMPARED, takes=CLASSES,
           train=f"{ROOM}.psbml.train:train_adaboost", supports=USUAL - {"label_sets", "pause"}),
)
# fmt: on
METHODS = {method.name: method for method in TABLE}


def method_named(name: str) -> Method:
    if name not in METHODS:
        raise ConfigError(f"no method {name!r}; {nearest(name, METHODS, 'hpcml train --help')}")
    return METHODS[name]


def methods_with_option(option: str) -> list[str]:
    return [name for name, method in METHODS.items() if option in method.option_names]


def methods_supporting(feature: str) -> list[str]:
    return [name for name, method in METHODS.items() if feature in method.supports]


def train(name: str, session: Session, data: Path, target: Target, options: Any, **more: Any) -> Any:
    """Train with the method of that name; `more` are arguments of `tune` and `retrain`. Collective; raises ConfigError."""
    method = method_named(name)
    report = method.load(method.train)(method, session, data, target, options, **more)
    from hpcml.run.environment import record_end
    from hpcml.run.folder import ENVIRONMENT

    record_end(session.comm, target.output / ENVIRONMENT)
    return report
