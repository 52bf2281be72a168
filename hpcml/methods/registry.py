"""The methods of `hpcml train`, a line each: all that the rest of hpcml knows of a method."""

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

CLASSES = "A dataset made with `hpcml convert`: one label, or exactly one of several in each row (see --label)."
STREAM = (
    "A dataset made with `hpcml convert`; or svmlight text: a file NAME.svm (plain, .gz, .bz2, .xz, .zst, .zip), or - for standard "
    "input. A stream that is continued must be given from its beginning again."
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


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="probe",
            about="PROBE: subgradient steps from an estimated lower bound",
            group=LARGE,
            options=ProbeOptions,
            estimator="hpcml.methods.probe.estimator:ProbeClassifier",
            linear="hpcml.methods.probe.probe:METHOD",
            supports=USUAL | {"tune"},
        ),
        Method(
            name="dual",
            about="dual coordinate descent, many labels at once, each certified",
            group=LABELS,
            options=DualOptions,
            estimator="hpcml.methods.dual.estimator:DualClassifier",
            linear="hpcml.methods.dual.train:METHOD",
            supports=USUAL | {"tune", "retrain"},
        ),
        Method(
            name="pegasos",
            about="Pegasos: full subgradient, step 1/(λt), projection, bias",
            group=COMPARED,
            options=PegasosOptions,
            linear="hpcml.methods.probe.probe:PEGASOS_METHOD",
        ),
        Method(
            name="svmperf",
            about="SVMperf: the 1-slack cutting-plane method, certified gap",
            group=COMPARED,
            options=SvmperfOptions,
            linear="hpcml.methods.svmperf.svmperf:METHOD",
        ),
        Method(
            name="liblinear",
            about="LIBLINEAR: dual coordinate descent",
            group=COMPARED,
            options=LiblinearOptions,
            linear="hpcml.methods.liblinear.liblinear:METHOD",
        ),
        Method(
            name="elastic-net",
            about="the elastic net, exact; its time follows a label's positives",
            group=SPARSE,
            options=ElasticNetOptions,
            train="hpcml.methods.elastic_net.train:train",
            estimator="hpcml.methods.elastic_net.estimator:ElasticNetClassifier",
            penalty="elastic net",
            linear="hpcml.methods.elastic_net.train:METHOD",
            supports=USUAL | {"tune"},
        ),
        Method(
            name="bernoulli-nb",
            about="naive Bayes of features present or not: all labels from counts",
            group=COUNTS,
            options=BernoulliNBOptions,
            linear="hpcml.methods.bayes.solvers:BERNOULLI_NB",
            estimator="hpcml.methods.bayes.estimator:BernoulliNBClassifier",
            variants={"all-": {"min_weight": 0.0}},
            supports=USUAL | {"headings"},
            cost=2.0,
        ),
        Method(
            name="boosted-bayes",
            about="AdaBoost with naive Bayes",
            group=COUNTS,
            options=BoostedBayesOptions,
            linear="hpcml.methods.bayes.solvers:BOOSTED_BAYES",
            estimator="hpcml.methods.bayes.estimator:BoostedBayesClassifier",
            supports=USUAL | {"headings"},
            cost=20.0,
        ),
        Method(
            name="staged-bayes",
            about="naive Bayes, once more on the rows that it takes for positive",
            group=COUNTS,
            options=StagedBayesOptions,
            linear="hpcml.methods.bayes.solvers:STAGED_BAYES",
            estimator="hpcml.methods.bayes.estimator:StagedBayesClassifier",
            supports=USUAL | {"headings"},
            cost=4.0,
        ),
        Method(
            name="staged-svm",
            about="naive Bayes, then an SVM on rows that it takes for positive",
            group=COUNTS,
            options=StagedSvmOptions,
            linear="hpcml.methods.bayes.solvers:STAGED_SVM",
            estimator="hpcml.methods.bayes.estimator:StagedSvmClassifier",
            supports=USUAL | {"headings"},
        ),
        *(
            Method(
                name=name,
                about=f"{about}, in a single pass",
                group=STREAMS,
                options=options,
                train="hpcml.methods.online.train:train",
                estimator="hpcml.methods.online.estimator:OnlineClassifier",
                parameters={"method": name},
                variants={"v-": {"voted": True}},
                takes=STREAM,
                pilot="hpcml.methods.online.pilot",
                supports=(USUAL | {"streams"}) - ({"negative_values"} if issubclass(options, WinnowOptions) else set()),
                cost=1.0,
            )
            for name, about, options in (
                ("mbw", "Modified Balanced Winnow", MbwOptions),
                ("pa", "Passive-Aggressive", PaOptions),
                ("bw", "Balanced Winnow", BalancedOptions),
                ("pw", "Positive Winnow", WinnowOptions),
                ("perceptron", "the perceptron", AdditiveOptions),
                ("romma", "ROMMA (relaxed online maximum margin)", AdditiveOptions),
            )
        ),
        Method(
            name="psbml",
            about="PSBML: one classifier of all classes, from the hard rows",
            group=HARD,
            options=PsbmlOptions,
            train="hpcml.methods.psbml.train:train",
            estimator="hpcml.methods.psbml.estimator:PsbmlClassifier",
            takes=CLASSES,
            supports=USUAL - {"label_sets"},
        ),
        Method(
            name="adaboost",
            about="AdaBoostM1 (scikit-learn's), on one rank: beside psbml",
            group=COMPARED,
            options=AdaboostOptions,
            train="hpcml.methods.psbml.adaboost:train",
            takes=CLASSES,
            supports=USUAL - {"label_sets", "pause"},
        ),
    )
}


def method_named(name: str) -> Method:
    """The method of that name. Raises ConfigError."""
    if name not in METHODS:
        raise ConfigError(f"no method {name!r}; {nearest(name, METHODS, 'hpcml train --help')}")
    return METHODS[name]


def users_of(option: str) -> list[str]:
    """The methods that have an option (a parameter's name)."""
    return [name for name, method in METHODS.items() if option in method.option_names]


def supporting(feature: str) -> list[str]:
    """The methods that support a feature of SUPPORT."""
    return [name for name, method in METHODS.items() if feature in method.supports]


def train(name: str, session: Session, data: Path, target: Target, options: Any, **more: Any) -> Any:
    """Collective over the session. Train with the method of that name; `more` is of `tune` and `retrain`.

    Raises ConfigError, the same on all ranks.
    """
    method = method_named(name)
    report = method.load(method.train)(method, session, data, target, options, **more)
    from hpcml.run.environment import record_end
    from hpcml.run.folder import ENVIRONMENT

    record_end(session.comm, target.output / ENVIRONMENT)
    return report
