"""The options of `hpcml train psbml` and `hpcml train adaboost`."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from cyclopts import Parameter

from hpcml.errors import OptionError
from hpcml.options import FREE, Between, Count, Flag, Only, Range, Seconds, Seed, Several, check_rules


@Parameter(name="*")
@dataclass(frozen=True)
class PsbmlOptions:
    """Options of `hpcml train psbml`."""

    free: ClassVar[frozenset[str]] = FREE | {"slow_rank", "slow_factor"}  # what may differ between a run and its continuation

    base: Annotated[tuple[str, ...], Several] = ("kernel-nb",)
    """The base learner and its options: kernel-nb, gaussian-nb, tree, stump, linear-svm, or the dotted path of any scikit-learn
    classifier, then NAME=VALUE, for instance: --base tree max_depth=5."""
    grid: str = "3x3"
    """Nodes of the torus: WIDTHxHEIGHT. The rows are spread over them; ranks beyond their number only assess."""
    neighbourhood: str = "C9"
    """Which nodes see each other's rows: L5, L9, C9 or C13."""
    replace: float = 0.2
    """Probability that a row of a node is replaced in a cycle."""
    cycles: Annotated[int, Range(1, 2**31 - 1)] = 20
    """Cycles of every node (asynchronous: of those of the fastest rank)."""
    validation_share: Annotated[float, Between(0, 1)] = 0.1
    """Share of the training rows, of each class, that judges the cycles."""
    judge: Literal["error", "auc"] = "error"
    """By what the validation set finds the best cycle: error, or auc (area under the ROC curve; two
    classes only). With auc the same rows then choose the threshold, too."""
    patience: Count = None
    """Stop after so many cycles that are no better than the best one before them. Default: do all
    --cycles."""
    asynchronous: Flag = False
    """Let no node wait for its neighbours. Faster where ranks differ in speed; then no two runs are the same."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Where rows are scored: cpu, or gpu (naive Bayes only; not the same bits)."""
    split: str | None = None
    """Rows to train on: a split of the file, or all. Default: train if the file has it."""
    label: str | None = None
    """Train for this label against all other rows. Default: the only label, or each label a class."""
    seed: Seed = 0
    """Another seed spreads and draws the rows otherwise."""
    no_id_hashes: Flag = False
    """Do not store hashes of the training rows in the model; hpcml evaluate then cannot warn of rows that were trained on."""
    checkpoint_every: Seconds = None
    """Seconds between checkpoints. Default: chosen so that checkpoints take at most 2 % of the time (5 to 600 s)."""
    time_limit: Seconds = None
    """Seconds of training after which to write a checkpoint and stop with exit code 75."""
    profile: Flag = False
    """Show the seconds that each rank trained, tested, exchanged and assessed."""
    slow_rank: Annotated[int | None, Range(0)] = None
    """For experiments: let this rank be slow."""
    slow_factor: Annotated[float, Range(1, 1e6), Only("slow_rank")] = 2.0
    """For experiments: the factor by which it is slower."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local."""
        from hpcml.methods.psbml.torus import NEIGHBOURHOODS, parse_grid

        check_rules(self)
        parse_grid(self.grid)
        if self.neighbourhood not in NEIGHBOURHOODS:
            raise OptionError("neighbourhood", self.neighbourhood, f"expected one of {', '.join(NEIGHBOURHOODS)}")
        if not 0 < self.replace <= 1:
            raise OptionError("replace", self.replace, "expected a probability above 0 and at most 1")
        if self.patience is not None and self.patience >= self.cycles:
            raise OptionError("patience", self.patience, f"has no effect on {self.cycles} cycles; lower it, or raise the cycles")


@Parameter(name="*")
@dataclass(frozen=True)
class AdaboostOptions:
    """Options of `hpcml train adaboost`."""

    free: ClassVar[frozenset[str]] = FREE

    base: Annotated[tuple[str, ...], Several] = ("stump",)
    """The base learner and its options, as for psbml; it must take weights of rows."""
    rounds: Annotated[int, Range(1, 2**31 - 1)] = 10
    """Classifiers to train, one after another."""
    split: str | None = None
    """Rows to train on: a split of the file, or all. Default: train if the file has it."""
    label: str | None = None
    """Train for this label against all other rows. Default: the only label, or each label a class."""
    seed: Seed = 0
    """Of what is random in the base learner."""
    no_id_hashes: Flag = False
    """Do not store hashes of the training rows in the model; hpcml evaluate then cannot warn of rows that were trained on."""

    def validate(self) -> None:
        """Raise ConfigError for values that make no sense. Local."""
        check_rules(self)
