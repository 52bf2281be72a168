"""The options of converting and training: one dataclass each gives the flags, their help, and the keys of a TOML file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hpcml.errors import ConfigError
from hpcml.losses import DUAL_LOSSES, LOSSES

Flag = Annotated[bool, Parameter(negative="")]
BALANCED = "balanced"


@Parameter(name="*")
@dataclass(frozen=True)
class ConvertOptions:
    """Options of `hpcml convert`."""

    zero_based: Flag = False
    """svmlight: indices start at 0, not at 1."""
    max_line_mb: int | None = None
    """svmlight, jsonl: the longest line that is read, in MiB. Default: 16."""
    binary: Flag = False
    """Text: words present or not, instead of log(tf + 1) · idf with unit length."""
    pairs: Flag = False
    """Text: also adjacent word pairs with no stop word and no punctuation between."""
    min_df: int = 1
    """Text: keep words that occur in at least so many training rows."""
    stop_words: Path | None = None
    """Text: a file of words to leave out, one a line."""
    like: Path | None = None
    """Use the features, weights and labels of this dataset (the training file)."""
    test_share: float | None = None
    """Make this random share of the rows the split test, the others train."""
    rows: int | None = None
    """synthetic: make so many rows."""
    label_noise: float | None = None
    """For experiments: give this random share of the training rows (of all rows without splits) another class."""
    seed: int = 0
    """Another seed gives another random split, other synthetic rows and other label noise."""


@Parameter(name="*")
@dataclass(frozen=True)
class TrainOptions:
    """Options of `hpcml train`."""

    loss: str | None = None
    """Convex loss: hinge (default), huber (modified Huber), maxent (logistic); of dual: squared-hinge (default), hinge."""
    lam: Annotated[str, Parameter(name="--lambda")] = "X/m"
    """Regularisation λ: X/m, X/NUMBER or NUMBER, where X = (mean norm of the training rows)² and m is their number."""
    bias: Annotated[bool | None, Parameter(negative="--no-bias")] = None
    """The rows have a constant feature 1 (regularised like the others), whose weight is the intercept. This is the default;
    --no-bias is the protocol of the PROBE paper; it costs much of the quality, of rare labels above all."""
    epsilon: float = 0.05
    """PROBE stops when its bound φ falls below this."""
    svmperf_epsilon: float = 0.1
    """SVMperf stops when its bound on f(w) − min f falls to this, in percent: 0.1 means 0.001."""
    liblinear_tol: float = 0.1
    """LIBLINEAR's stopping tolerance."""
    dual_tol: float = 0.1
    """dual: the stopping tolerance, with LIBLINEAR's meaning: of the projected gradients of all rows."""
    max_gap: float | None = None
    """dual: do not stop before the certified duality gap, divided by the objective, is at most this as well."""
    gap: Flag = False
    """dual: show the objective and the certified duality gap of every label."""
    positive_weight: str = "1"
    """dual: the weight of positive rows: a number, or balanced: as many times as there are negative rows for a positive one."""
    split: str | None = None
    """Rows to train on: a split of the file, or all. Default: train if the file has it."""
    label: Annotated[tuple[str, ...], Parameter(negative="")] = field(default=())
    """Train only this label (may be repeated)."""
    min_positives: int = 1
    """Train only labels with at least so many positive rows."""
    label_part: str | None = None
    """K/N: of the labels that would be trained, only the K-th of N ranges of about equal size; `hpcml merge` joins the models."""
    dormant: Annotated[bool, Parameter(negative="--no-dormant")] = True
    """PROBE skips rows that have not violated for 10 steps, for 5 to 15 steps at a time. --no-dormant visits every row."""
    seed: int = 0
    """Another seed makes rows dormant for other numbers of steps; liblinear takes the rows in another order."""
    precision: str = "single"
    """Of weights and margins: single (float32, like the data) or double. Sums are exact in both."""
    drop: float | None = None
    """Leave out of the model weights of smaller magnitude than this; the model is stored sparse. hpcml prune shows what that
    costs."""
    block: int | None = None
    """Labels that share a pass over the rows, in each group of ranks. Default: 16. Does not change the result."""
    shards: int | None = None
    """Ranks that divide the rows among themselves; the labels are scattered over such groups. Default: by memory and labels.
    Does not change the result (dual: 1 by default, and other numbers give the same model within the tolerance only)."""
    max_steps: int | None = None
    """Give a label up after so many steps and say so. Default: 5000; pegasos, which has no stopping rule: 500;
    dual: 1000; liblinear: 20000."""
    checkpoint_every: float = 600.0
    """Seconds between checkpoints."""
    time_limit: float | None = None
    """Seconds of training (loading not counted) after which to write a checkpoint and stop with exit code 75."""

    profile: Flag = False
    """Show the seconds that each rank computed, communicated and waited."""

    def validate(self, losses: Iterable[str] = LOSSES | DUAL_LOSSES) -> None:
        """Raise ConfigError for values that make no sense. Local: call it before the first collective."""
        if self.loss is not None and self.loss not in losses:
            raise ConfigError(f"--loss {self.loss}: expected one of {', '.join(sorted(losses))}")
        if not 0 < self.epsilon < 2 / 3:
            raise ConfigError(f"--epsilon {self.epsilon}: expected a number between 0 and 2/3")
        for name in ("svmperf_epsilon", "liblinear_tol", "dual_tol", "max_gap"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"--{flag_of(name)} {getattr(self, name)}: expected a number above 0")
        if self.positive_weight != BALANCED:
            parse_weight(self.positive_weight)
        if self.precision not in ("single", "double"):
            raise ConfigError(f"--precision {self.precision}: expected single or double")
        if self.drop is not None:
            check_magnitude("drop", self.drop)
        check_range(self, "seed", 0, 2**32 - 1)
        check_range(self, "max_steps", 1, 2**31 - 1)
        for name, low in (("min_positives", 0), ("block", 1), ("shards", 1)):
            check_range(self, name, low, 2**63)
        if self.label_part is not None:
            parse_part(self.label_part)
        check_times(self)


@Parameter(name="*")
@dataclass(frozen=True)
class PsbmlOptions:
    """Options of `hpcml train psbml`."""

    base: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = ("tree",)
    """The base learner and its options: tree, linear-svm, naive-bayes, or the dotted path of any scikit-learn classifier, then
    NAME=VALUE, for instance: --base sklearn.tree.DecisionTreeClassifier criterion=entropy."""
    grid: str = "3x3"
    """Nodes of the torus: WIDTHxHEIGHT. The rows are spread over them; ranks beyond their number
    only assess."""
    neighbourhood: str = "C9"
    """Which nodes see each other's rows: L5, L9, C9 or C13."""
    replace: float = 0.2
    """Probability that a row of a node is replaced in a cycle."""
    cycles: int = 20
    """Cycles of every node (asynchronous: of the nodes on the average)."""
    validation_share: float = 0.1
    """Share of the training rows, of each class, that judges the cycles."""
    judge: str = "error"
    """By what the validation set finds the best cycle: error, or auc (area under the ROC curve; two classes only)."""
    asynchronous: Flag = False
    """Let no node wait for its neighbours. Faster where ranks differ in speed; then no two runs are the same."""
    split: str | None = None
    """Rows to train on: a split of the file, or all. Default: train if the file has it."""
    label: str | None = None
    """Train for this label against all other rows. Default: the only label, or each label a class."""
    seed: int = 0
    """Another seed spreads and draws the rows otherwise."""
    checkpoint_every: float = 600.0
    """Seconds between checkpoints."""
    time_limit: float | None = None
    """Seconds of training after which to write a checkpoint and stop with exit code 75."""
    profile: Flag = False
    """Show the seconds that each rank trained, tested, exchanged and assessed."""
    slow_rank: int | None = None
    """For experiments: let this rank be slow."""
    slow_factor: float = 2.0
    """For experiments: so many times slower."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local: call it before the first collective."""
        from hpcml.psbml.torus import NEIGHBOURHOODS, parse_grid

        parse_grid(self.grid)
        if self.neighbourhood not in NEIGHBOURHOODS:
            raise ConfigError(f"--neighbourhood {self.neighbourhood}: expected one of {', '.join(NEIGHBOURHOODS)}")
        if self.judge not in ("error", "auc"):
            raise ConfigError(f"--judge {self.judge}: expected error or auc")
        if not 0 < self.replace <= 1:
            raise ConfigError(f"--replace {self.replace}: expected a probability above 0 and at most 1")
        if not 0 < self.validation_share < 1:
            raise ConfigError(f"--validation-share {self.validation_share}: expected a number between 0 and 1")
        check_range(self, "cycles", 1, 2**31 - 1)
        check_range(self, "seed", 0, 2**32 - 1)
        check_range(self, "slow_rank", 0, 2**31 - 1)
        if not 1 <= self.slow_factor < math.inf:
            raise ConfigError(f"--slow-factor {self.slow_factor}: expected a number of at least 1")
        if self.slow_rank is None and self.slow_factor != PsbmlOptions.slow_factor:
            raise ConfigError(f"--slow-factor {self.slow_factor} has no effect without --slow-rank; leave it out")
        check_times(self)


@Parameter(name="*")
@dataclass(frozen=True)
class AdaboostOptions:
    """Options of `hpcml train adaboost`."""

    base: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = ("stump",)
    """The base learner and its options, as for psbml; it must take weights of rows."""
    rounds: int = 10
    """Classifiers to train, one after another."""
    split: str | None = None
    """Rows to train on: a split of the file, or all. Default: train if the file has it."""
    label: str | None = None
    """Train for this label against all other rows. Default: the only label, or each label a class."""
    seed: int = 0
    """Of what is random in the base learner."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local: call it before the first collective."""
        check_range(self, "rounds", 1, 2**31 - 1)
        check_range(self, "seed", 0, 2**32 - 1)


@Parameter(name="*")
@dataclass(frozen=True)
class OnlineOptions:
    """Options of `hpcml train` for the single-pass learners: pw, bw, mbw, perceptron, pa, romma."""

    voted: Flag = False
    """The model is the average of all hypotheses, each weighted by the rows that it got right."""
    alpha: float = 1.5
    """Winnow: promotion."""
    beta: float = 0.5
    """Winnow: demotion."""
    theta: float = 1.0
    """Winnow: threshold of the score."""
    margin: float = 1.0
    """mbw: a score whose distance from the threshold is not above this counts as a mistake."""
    epsilon: float = 1.0
    """pa: a row whose score is at least so far on the right side changes nothing."""
    gamma: float = 0.1
    """pa: relaxation; larger takes smaller steps."""
    bias: Annotated[bool | None, Parameter(negative="--no-bias")] = None
    """The rows have a constant feature 1, whose weight is the intercept. This is the default; perceptron, pa and romma can do
    without (--no-bias)."""
    split: str | None = None
    """Rows to train on: a split of the file, or all. Default: train if the file has it."""
    label: Annotated[tuple[str, ...], Parameter(negative="")] = field(default=())
    """Train only this label (may be repeated). A stream of rows that are not all -1 or +1 needs it."""
    min_positives: int = 1
    """Train only labels with at least so many positive rows (not on a stream)."""
    shuffle: Flag = False
    """Take the rows in random order, not in the file's (not on a stream). What these learners learn depends on the order."""
    seed: int = 0
    """Another seed shuffles otherwise."""
    live_features: int | None = None
    """bw, mbw: never hold more than so many features: the least important ones make room for new ones (extremal selection).
    Memory is fixed from the start."""
    share: float = 0.9
    """With --live-features: of the features that stay, the share with the largest weights; the others have the smallest."""
    initial_model: Path | None = None
    """Continue the pass of this model, trained by the same method with the same options, with these rows."""
    final: Flag = False
    """Leave out of the model what --initial-model and EFS need: it is a third to a sixth of the size."""
    zero_based: Flag = False
    """Stream: indices start at 0, not at 1."""
    max_line_mb: int | None = None
    """Stream: the longest line that is read, in MiB. Default: 16."""
    checkpoint_every: float = 600.0
    """Seconds between checkpoints."""
    time_limit: float | None = None
    """Seconds of training after which to write a checkpoint and stop with exit code 75."""
    profile: Flag = False
    """Show the seconds that rank 0 read, learned and wrote."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local: call it before the first collective."""
        if not 1 < self.alpha < math.inf:
            raise ConfigError(f"--alpha {self.alpha}: expected a number above 1")
        if not 0 < self.beta < 1:
            raise ConfigError(f"--beta {self.beta}: expected a number between 0 and 1")
        for name, low in (("theta", 0), ("margin", 0), ("epsilon", 0), ("gamma", 0)):
            if not low <= getattr(self, name) < math.inf:
                raise ConfigError(f"--{name} {getattr(self, name)}: expected a number of at least {low}")
        if not 0 <= self.share <= 1:
            raise ConfigError(f"--share {self.share}: expected a number from 0 to 1")
        check_range(self, "min_positives", 0, 2**63)
        check_range(self, "seed", 0, 2**32 - 1)
        check_range(self, "live_features", 1, 2**31 - 2)
        check_times(self)

    def check_effects(self) -> None:
        """Raise ConfigError for options that have no effect without another one. Local."""
        if self.live_features is None and self.share != OnlineOptions.share:
            raise ConfigError(f"--share {self.share} has no effect without --live-features; leave it out")
        if self.seed and not self.shuffle:
            raise ConfigError(f"--seed {self.seed} has no effect without --shuffle; leave it out, or add --shuffle")


def parse_weight(text: str) -> float:
    """The weight of positive rows. Raises ConfigError."""
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise ConfigError(f"--positive-weight {text}: expected a number above 0, or {BALANCED}")
    return weight


def parse_part(text: str) -> tuple[int, int]:
    """K and N of "K/N", the K-th of N parts. Raises ConfigError unless 1 ≤ K ≤ N."""
    part, slash, parts = text.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise ConfigError(f"--label-part {text}: expected K/N, the K-th of N parts, as in 1/8")
    return int(part), int(parts)


def check_used(options: object, methods: Sequence[str], uses: Mapping[str, Iterable[str]]) -> None:
    """Raise ConfigError for an option that has another value than its default although none of `methods` uses it.

    `uses` has for each method the options that it uses and some others do not; those that it has for no method are for all.
    """
    for option in fields(options):
        users, value = [method for method, names in uses.items() if option.name in names], getattr(options, option.name)
        default = option.default if option.default is not MISSING else option.default_factory()
        if users and not set(users) & set(methods) and value != default:
            flag = f"--no-{flag_of(option.name)}" if value is False else f"--{flag_of(option.name)}"
            shown = flag if isinstance(value, bool) else f"{flag} {value}"
            raise ConfigError(f"{shown} has no effect on {', '.join(methods)}, it is for {', '.join(users)}; leave it out")


def check_range(options: object, name: str, low: int, high: int) -> None:
    """Raise ConfigError unless an option is None or a number from `low` to `high`."""
    value = getattr(options, name)
    if value is not None and not low <= value <= high:
        expected = f"at least {low}" if value < low else f"at most {high}"
        raise ConfigError(f"--{flag_of(name)} {value}: expected {expected}")


def check_magnitude(flag: str, value: float) -> None:
    """Raise ConfigError unless a number is finite and not negative."""
    if not 0 <= value < math.inf:
        raise ConfigError(f"--{flag} {value}: expected a finite number of at least 0")


def check_times(options: TrainOptions | PsbmlOptions | OnlineOptions) -> None:
    """Raise ConfigError unless the times are above 0."""
    if not options.checkpoint_every > 0:
        raise ConfigError(f"--checkpoint-every {options.checkpoint_every}: expected seconds above 0")
    if options.time_limit is not None and not options.time_limit > 0:
        raise ConfigError(f"--time-limit {options.time_limit}: expected seconds above 0")


def flag_of(field_name: str) -> str:
    """The flag (without dashes) and TOML key of an option."""
    return "lambda" if field_name == "lam" else field_name.replace("_", "-")
