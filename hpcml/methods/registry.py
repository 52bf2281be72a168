"""The methods of `hpcml train`, a line each: all that the rest of hpcml knows of a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from hpcml.errors import ConfigError, nearest
from hpcml.methods.bayes.options import BernoulliNBOptions, BoostedBayesOptions, StagedBayesOptions, StagedSvmOptions
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.elastic_net.options import ElasticNetOptions
from hpcml.methods.liblinear.options import LiblinearOptions
from hpcml.methods.online.options import AdditiveOptions, BalancedOptions, MbwOptions, PaOptions, WinnowOptions
from hpcml.methods.probe.options import PegasosOptions, ProbeOptions
from hpcml.methods.psbml.options import AdaboostOptions, PsbmlOptions
from hpcml.methods.svmperf.options import SvmperfOptions
from hpcml.options import flag_of

if TYPE_CHECKING:
    from pathlib import Path

    from hpcml.run.session import Session, Target

DATASET = "A dataset made with `hpcml convert`."
CLASSES = "A dataset made with `hpcml convert`: one label, or exactly one of several in each row (see --label)."
STREAM = (
    "A dataset made with `hpcml convert`; or svmlight text: a file NAME.svm (plain, .gz, .bz2, .xz), or - for standard input. "
    "A stream that is continued must be given from its beginning again."
)
GROUPS = (
    (LABELS := "Start here: many labels, rows that fit the memory of a node"),
    (SPARSE := "Models that are small and can be read"),
    (LARGE := "Rows that do not fit one machine"),
    (COUNTS := "Rows to rank for each label, quickly, from counts"),
    (STREAMS := "A stream, or too many rows to read twice"),
    (HARD := "Naive Bayes of numbers that should rank better; which rows are hard"),
    (COMPARED := "To compare with"),
    (OTHERS := "Others"),
)


class Report(Protocol):
    """The report of a finished training: a text, with the path of the model."""

    @property
    def model(self) -> Path:
        """The model."""


@dataclass(frozen=True, kw_only=True)
class Can:
    """What a method can do; the rest is refused with a sentence. The conformance tests try both."""

    label_sets: bool = True
    """rows with several labels"""
    negative_values: bool = True
    """values below 0"""
    pause: bool = True
    """checkpoints"""
    headings: bool = False
    """headings as features"""
    streams: bool = False
    """streams"""
    tune: bool = False
    """`hpcml tune`"""
    retrain: bool = False
    """`hpcml retrain`"""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method. Paths are "module:name", imported when they are first used.

    `train(session, data, target, options)` trains into a run folder and gives a report, a text with
    the path `model`. The options are a frozen dataclass with `validate` and `free`
    (`hpcml.run.folder.Options`); if they have `losses`, the method minimises these, and takes part
    in comparisons of such methods.
    """

    name: str
    about: str  # in one line
    group: str = OTHERS  # of GROUPS: for what data, or for whom
    options: type[Any]
    train: str = ""  # nothing: it has a weight vector for each label, and is trained as all that are `linear`
    estimator: str = ""  # a scikit-learn classifier
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the estimator, that make it this method
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by prefix of the name: more parameters
    takes: str = DATASET
    penalty: str = "l2"  # of the methods with losses: those with the same can be compared by the objective
    linear: str = ""  # its `LinearMethod`, if it has a weight vector for each label and trains label by label
    can: Can = Can()
    pilot: str = ""  # the module that `hpcml plan` asks, if it has labels but trains row by row
    cost: float = 100.0  # of training, roughly, beside one pass over the rows

    @property
    def title(self) -> str:
        """`about` as the beginning of a sentence."""
        return self.about[0].upper() + self.about[1:]

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses that it minimises, the first by default; none if it trains otherwise."""
        return getattr(self.options, "losses", ())

    @property
    def option_names(self) -> list[str]:
        """Its options, as parameters."""
        return [option.name for option in fields(self.options)]

    @property
    def free_keys(self) -> set[str]:
        """The keys of config.toml that may differ in a continuation, or between parts of a run."""
        return {"data", *map(flag_of, self.options.free)}

    def load(self, path: str) -> Any:
        """The object at one of its paths."""
        module, _, name = path.partition(":")
        return getattr(import_module(module), name)


def _single_pass(name: str, about: str, options: type[Any]) -> Method:
    """One of the single-pass learners, which differ by their rule alone."""
    return Method(
        name=name,
        about=f"{about}, in a single pass",
        group=STREAMS,
        options=options,
        train=f"hpcml.methods.online.train:train_{name}",
        estimator="hpcml.methods.online.estimator:OnlineClassifier",
        parameters={"method": name},
        variants={"v-": {"voted": True}},
        takes=STREAM,
        pilot="hpcml.methods.online.pilot",
        can=Can(streams=True, negative_values=not issubclass(options, WinnowOptions)),
        cost=1.0,
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
            linear="hpcml.methods.probe.train:METHOD",
            can=Can(tune=True),
        ),
        Method(
            name="dual",
            about="dual coordinate descent, many labels at once, each certified",
            group=LABELS,
            options=DualOptions,
            estimator="hpcml.methods.dual.estimator:DualClassifier",
            linear="hpcml.methods.dual.train:METHOD",
            can=Can(tune=True, retrain=True),
        ),
        Method(
            name="pegasos",
            about="Pegasos: full subgradient, step 1/(λt), projection, bias",
            group=COMPARED,
            options=PegasosOptions,
            linear="hpcml.methods.probe.train:PEGASOS_METHOD",
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
            can=Can(tune=True),
        ),
        Method(
            name="bernoulli-nb",
            about="naive Bayes of features present or not: all labels from counts",
            group=COUNTS,
            options=BernoulliNBOptions,
            linear="hpcml.methods.bayes.train:BERNOULLI_NB",
            estimator="hpcml.methods.bayes.estimator:BernoulliNBClassifier",
            variants={"all-": {"min_weight": 0.0}},
            can=Can(headings=True),
            cost=2.0,
        ),
        Method(
            name="boosted-bayes",
            about="AdaBoost with naive Bayes",
            group=COUNTS,
            options=BoostedBayesOptions,
            linear="hpcml.methods.bayes.train:BOOSTED_BAYES",
            estimator="hpcml.methods.bayes.estimator:BoostedBayesClassifier",
            can=Can(headings=True),
            cost=20.0,
        ),
        Method(
            name="staged-bayes",
            about="naive Bayes, once more on the rows that it takes for positive",
            group=COUNTS,
            options=StagedBayesOptions,
            linear="hpcml.methods.bayes.train:STAGED_BAYES",
            estimator="hpcml.methods.bayes.estimator:StagedBayesClassifier",
            can=Can(headings=True),
            cost=4.0,
        ),
        Method(
            name="staged-svm",
            about="naive Bayes, then an SVM on rows that it takes for positive",
            group=COUNTS,
            options=StagedSvmOptions,
            linear="hpcml.methods.bayes.train:STAGED_SVM",
            estimator="hpcml.methods.bayes.estimator:StagedSvmClassifier",
            can=Can(headings=True),
        ),
        _single_pass("mbw", "Modified Balanced Winnow", MbwOptions),
        _single_pass("pa", "Passive-Aggressive", PaOptions),
        _single_pass("bw", "Balanced Winnow", BalancedOptions),
        _single_pass("pw", "Positive Winnow", WinnowOptions),
        _single_pass("perceptron", "the perceptron", AdditiveOptions),
        _single_pass("romma", "ROMMA (relaxed online maximum margin)", AdditiveOptions),
        Method(
            name="psbml",
            about="PSBML: one classifier of all classes, from the hard rows",
            group=HARD,
            options=PsbmlOptions,
            train="hpcml.methods.psbml.train:train",
            estimator="hpcml.methods.psbml.estimator:PsbmlClassifier",
            takes=CLASSES,
            can=Can(label_sets=False),
        ),
        Method(
            name="adaboost",
            about="AdaBoostM1 (scikit-learn's), on one rank: beside psbml",
            group=COMPARED,
            options=AdaboostOptions,
            train="hpcml.methods.psbml.adaboost:train",
            takes=CLASSES,
            can=Can(label_sets=False, pause=False),
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


def able(what: str) -> list[str]:
    """The methods that can do something: a field of `Can`."""
    return [name for name, method in METHODS.items() if getattr(method.can, what)]


def check_headings(session: Session, data: Path, method: Method) -> None:
    """Collective over the session. ConfigError if rows have headings that it cannot hide."""
    if not method.can.headings:
        from hpcml.data.headings import refuse_headings

        refuse_headings(session.comm, data, method.name, able("headings"))


def train(name: str, session: Session, data: Path, target: Target, options: Any) -> Any:
    """Collective over the session. Train with the method of that name. Raises ConfigError."""
    method = method_named(name)
    check_headings(session, data, method)
    from hpcml.run.environment import record_end
    from hpcml.run.folder import ENVIRONMENT

    if method.train:
        report = method.load(method.train)(session, data, target, options)
    else:
        from hpcml.methods.linear.train import train as train_linear

        report = train_linear(method.load(method.linear), session, data, target, options)
    record_end(session.comm, target.output / ENVIRONMENT)
    return report
