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

    free: ClassVar[frozenset[str]] = FREE | {"slow_rank", "slow_factor"}  # may differ between a run and its continuation

    base: Annotated[tuple[str, ...], Several] = ("kernel-nb",)
    """Base learner: kernel-nb, gaussian-nb, tree, stump, linear-svm, or the dotted path of a scikit-learn classifier, followed by
    its options as NAME=VALUE. Example: --base tree max_depth=5."""
    grid: str = "3x3"
    """Size of the torus, WIDTHxHEIGHT nodes. The rows are distributed over the nodes; ranks without a node only assess cycles."""
    neighbourhood: Literal["L5", "L9", "C9", "C13"] = "C9"
    """Neighbourhood in which nodes exchange rows: L5, L9, C9 or C13 (shape and number of nodes)."""
    replace: float = 0.2
    """Probability with which a row of a node is replaced in a cycle."""
    cycles: Annotated[int, Range(1, 2**31 - 1)] = 20
    """Number of cycles of every node (with --asynchronous: of the nodes of the fastest rank)."""
    validation_share: Annotated[float, Between(0, 1)] = 0.1
    """Share of the training rows of each class that is held out to assess the cycles."""
    judge: Literal["error", "auc"] = "error"
    """Measure on the held-out rows that selects the best cycle: error, or auc (area under the ROC curve; two classes only). With
    auc, the same rows also select the threshold.
    """
    patience: Count = None
    """Stop after this number of cycles without improvement. Default: run all --cycles."""
    asynchronous: Flag = False
    """Nodes do not wait for their neighbours: faster if ranks differ in speed, but not reproducible."""
    device: Literal["cpu", "gpu"] = "cpu"
    """Device that scores rows: cpu, or gpu (naive Bayes only; last bits differ)."""
    split: str | None = None
    """Split of the dataset to train on, or all. Default: train if the file has it."""
    label: str | None = None
    """Label to train against all other rows. Default: the only label, or every label as a class."""
    seed: Seed = 0
    """Random seed for the distribution and the replacement of rows."""
    no_id_hashes: Flag = False
    """Do not store hashes of the training rows in the model; hpcml evaluate then cannot detect training rows."""
    checkpoint_every: Seconds = None
    """Seconds between checkpoints. Default: chosen so that checkpoints take at most 2 % of the time (5 to 600 s)."""
    time_limit: Seconds = None
    """Seconds of training after which to write a checkpoint and stop with exit code 75."""
    profile: Flag = False
    """Show the seconds that each rank spent on training, testing, exchange and assessment."""
    slow_rank: Annotated[int | None, Range(0)] = None
    """For experiments: rank that is slowed down."""
    slow_factor: Annotated[float, Range(1, 1e6), Only("slow_rank")] = 2.0
    """For experiments: factor by which --slow-rank is slower."""

    def validate(self) -> None:
        from hpcml.methods.psbml.torus import parse_grid

        check_rules(self)
        parse_grid(self.grid)
        if not 0 < self.replace <= 1:
            raise OptionError("replace", self.replace, "expected a probability above 0 and at most 1")
        if self.patience is not None and self.patience >= self.cycles:
            raise OptionError("patience", self.patience, f"expected less than the number of cycles ({self.cycles})")


@Parameter(name="*")
@dataclass(frozen=True)
class AdaboostOptions:
    """Options of `hpcml train adaboost`."""

    free: ClassVar[frozenset[str]] = FREE

    base: Annotated[tuple[str, ...], Several] = ("stump",)
    """Base learner and its options, as for psbml; it must accept sample weights."""
    rounds: Annotated[int, Range(1, 2**31 - 1)] = 10
    """Number of classifiers, trained one after another."""
    split: str | None = None
    """Split of the dataset to train on, or all. Default: train if the file has it."""
    label: str | None = None
    """Label to train against all other rows. Default: the only label, or every label as a class."""
    seed: Seed = 0
    """Random seed of the base learner."""
    no_id_hashes: Flag = False
    """Do not store hashes of the training rows in the model; hpcml evaluate then cannot detect training rows."""

    def validate(self) -> None:
        check_rules(self)
