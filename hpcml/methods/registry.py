"""The methods of `hpcml train`, a line for each: all that the rest of hpcml knows of a method comes from its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from hpcml.errors import ConfigError, nearest
from hpcml.methods.bayes.options import BoostedBayesOptions, NaiveBayesOptions, StagedBayesOptions, StagedSvmOptions
from hpcml.methods.dual.options import DualOptions
from hpcml.methods.extreme.options import ElasticNetOptions
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


class Report(Protocol):
    """What a finished training did: a text, with the path of the model."""

    @property
    def model(self) -> Path:
        """The model."""


@dataclass(frozen=True)
class Method:
    """A method, by the name that the user calls it. Paths are "module:name", imported when they are first used.

    `train(session, data, target, options)` trains into a run folder and gives a report, a text with the path `model`. The options
    are a frozen dataclass with `validate` and `free` (`hpcml.run.folder.Options`); if they have `losses`, the method minimises
    these, and takes part in comparisons of such methods.
    """

    name: str
    about: str  # in one line
    options: type[Any]
    train: str
    estimator: str = ""  # a scikit-learn classifier
    parameters: Mapping[str, Any] = field(default_factory=dict)  # of the estimator, that make it this method
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by prefix of the name: more parameters
    takes: str = DATASET
    penalty: str = "l2"  # of the methods with losses: those with the same can be compared by the objective
    headings: bool = False  # can it leave a label's own heading out, where the rows' labels are features, too?
    tuned: str = ""  # its `LinearMethod`, if `hpcml tune` can choose options for it
    forecast: str = ""  # its `hpcml.methods.forecast.Forecaster`, if `hpcml plan` knows what it takes
    cost: float = 100.0  # of training, roughly, beside one pass over the rows

    @property
    def losses(self) -> tuple[str, ...]:
        """What it minimises, the first by default; nothing if it trains otherwise."""
        return getattr(self.options, "losses", ())

    @property
    def option_names(self) -> list[str]:
        """Its options, as parameters."""
        return [option.name for option in fields(self.options)]

    @property
    def free_keys(self) -> set[str]:
        """The keys of config.toml that may differ between a run and its continuation, or between parts of one training."""
        return {"data", *map(flag_of, self.options.free)}

    def load(self, path: str) -> Any:
        """What is at one of its paths."""
        module, _, name = path.partition(":")
        return getattr(import_module(module), name)


_ONLINE, _CLASSIFIER = "hpcml.methods.online.train", "hpcml.methods.online.estimator:OnlineClassifier"


def _online(name: str, about: str, options: type[Any]) -> Method:
    more: dict[str, Any] = {"parameters": {"method": name}, "variants": {"v-": {"voted": True}}, "takes": STREAM, "cost": 1.0}
    more["forecast"] = f"hpcml.methods.online.forecast:{name.upper()}"
    return Method(name, f"{about}, in a single pass", options, f"{_ONLINE}:train_{name}", _CLASSIFIER, **more)


_BAYES, _DUAL = "hpcml.methods.bayes", "hpcml.methods.dual"
_PROBE, _PSBML = "hpcml.methods.probe", "hpcml.methods.psbml"
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            *("probe", "PROBE: subgradient steps from an estimated lower bound", ProbeOptions),
            *(f"{_PROBE}.train:train", f"{_PROBE}.estimator:ProbeClassifier"),
            tuned=f"{_PROBE}.train:METHOD",
            forecast=f"{_PROBE}.forecast:FORECAST",
        ),
        Method(
            *("dual", "dual coordinate descent for a block of labels, with a certified duality gap", DualOptions),
            *(f"{_DUAL}.train:train", f"{_DUAL}.estimator:DualClassifier"),
            tuned=f"{_DUAL}.train:METHOD",
            forecast=f"{_DUAL}.forecast:FORECAST",
        ),
        Method(
            *("pegasos", "Pegasos: full subgradient, step 1/(λt), projection, bias", PegasosOptions),
            f"{_PROBE}.train_pegasos:train",
            forecast=f"{_PROBE}.forecast:PEGASOS",
        ),
        Method(
            *("svmperf", "SVMperf: the 1-slack cutting-plane method, certified gap", SvmperfOptions),
            "hpcml.methods.svmperf.train:train",
        ),
        Method("liblinear", "LIBLINEAR: dual coordinate descent", LiblinearOptions, "hpcml.methods.liblinear.train:train"),
        Method(
            *("elastic-net", "the elastic net: sparse models, exact, in time that follows a label's positives", ElasticNetOptions),
            *("hpcml.methods.extreme.train:train", "hpcml.methods.extreme.estimator:ElasticNetClassifier"),
            penalty="elastic net",
            tuned="hpcml.methods.extreme.train:METHOD",
            forecast="hpcml.methods.extreme.forecast:FORECAST",
        ),
        Method(
            *("naive-bayes", "naive Bayes of features present or not: all labels from counts", NaiveBayesOptions),
            *(f"{_BAYES}.train:train_naive", f"{_BAYES}.estimator:NaiveBayesClassifier"),
            variants={"all-": {"min_weight": 0.0}},
            headings=True,
            cost=2.0,
        ),
        Method(
            *("boosted-bayes", "AdaBoost with naive Bayes", BoostedBayesOptions),
            *(f"{_BAYES}.train:train_boosted", f"{_BAYES}.estimator:BoostedBayesClassifier"),
            headings=True,
            cost=20.0,
        ),
        Method(
            *("staged-bayes", "naive Bayes, then once more on the rows that it takes for positive", StagedBayesOptions),
            *(f"{_BAYES}.train:train_staged", f"{_BAYES}.estimator:StagedBayesClassifier"),
            headings=True,
            cost=4.0,
        ),
        Method(
            *("staged-svm", "naive Bayes, then a linear SVM on the rows that it takes for positive", StagedSvmOptions),
            *(f"{_BAYES}.train:train_staged_svm", f"{_BAYES}.estimator:StagedSvmClassifier"),
            headings=True,
        ),
        _online("pw", "Positive Winnow", WinnowOptions),
        _online("bw", "Balanced Winnow", BalancedOptions),
        _online("mbw", "Modified Balanced Winnow", MbwOptions),
        _online("perceptron", "the perceptron", AdditiveOptions),
        _online("pa", "Passive-Aggressive", PaOptions),
        _online("romma", "the Relaxed Online Maximum Margin Algorithm (ROMMA)", AdditiveOptions),
        Method(
            *("psbml", "PSBML: one classifier of all classes, by selection of the hard rows on a torus of ranks", PsbmlOptions),
            *(f"{_PSBML}.train:train", f"{_PSBML}.estimator:PsbmlClassifier"),
            takes=CLASSES,
        ),
        Method(
            *("adaboost", "AdaBoostM1 (scikit-learn's), on one rank, to compare psbml with", AdaboostOptions),
            f"{_PSBML}.adaboost:train",
            takes=CLASSES,
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


def check_headings(session: Session, data: Path, method: Method) -> None:
    """Collective over the session. Raise ConfigError for rows whose labels are features, too, if the method cannot hide them."""
    if not method.headings:
        from hpcml.data.headings import refuse_headings

        refuse_headings(session.comm, data, method.name, [each.name for each in METHODS.values() if each.headings])


def train(name: str, session: Session, data: Path, target: Target, options: Any) -> Any:
    """Collective over the session. Train with the method of that name. Raises ConfigError."""
    method = method_named(name)
    check_headings(session, data, method)
    from hpcml.run.environment import record_end
    from hpcml.run.folder import ENVIRONMENT

    report = method.load(method.train)(session, data, target, options)
    record_end(session.comm, target.output / ENVIRONMENT)
    return report
