"""`hpcml explain MODEL`, and `hpcml.explain(model)`."""

from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias, Union

from hpcml.commands.operation import HIDDEN, AnyModel, Operation, PathLike, Session, Strings, check_outputs
from hpcml.errors import OptionError
from hpcml.options import Flag, NotWith, Only, Range, Several

if TYPE_CHECKING:
    from hpcml.evaluation.explain import Explanation, WhyRows
    from hpcml.evaluation.unlearnt import Learnability
    from hpcml.evaluation.wrong import MostWrong

Answer: TypeAlias = Union["Explanation", "WhyRows", "MostWrong", "Learnability", None]


@dataclass(frozen=True)
class Explain(Operation[Answer]):
    """Show important features of labels and of predictions.

    Prints the features of a linear model with the largest squared weights, and the share of the other features. --row shows the
    contribution of each feature to the scores of a row, --wrong the worst false positives and false negatives, and --unlearnt the
    labels that the model ranks no better than chance. These three need DATA; --wrong and --unlearnt take models of any kind.

    Examples
    --------
    >>> explanation = hpcml.explain("run", label=["sea"])
    >>> reasons = hpcml.explain("run", "docs.h5", row=["7"], json="reasons.json")
    """

    model: AnyModel
    """Run folder, or model file (model.h5)."""
    data: Annotated[PathLike | None, Only("row", "wrong", "unlearnt")] = None
    """Dataset with the features of the model, for --row, --wrong and --unlearnt."""
    _: KW_ONLY
    label: Annotated[Strings, Several, NotWith("unlearnt")] = ()
    """Labels to explain. Default: the 5 most frequent ones; with --row the true labels, the predicted labels and the 3 labels
    with the highest scores; with --wrong all labels together.
    """
    row: Annotated[Strings, Several, NotWith("wrong", "unlearnt")] = ()
    """Ids of rows whose scores to explain, or their indices (from 0) if the dataset has no ids."""
    wrong: Annotated[int | None, Range(1), NotWith("unlearnt")] = None
    """Number of false negatives, and of false positives, to show: those farthest from the threshold first."""
    unlearnt: Flag = False
    """Show labels that the model ranks no better than chance, and labels with nearly the same rows."""
    split: Annotated[str | None, Only("wrong", "unlearnt")] = None
    """Rows for --wrong and --unlearnt: a split of the dataset, or all. Default: test if the dataset has it, else all."""
    top: Annotated[int | None, Range(1), NotWith("wrong", "unlearnt")] = None
    """Number of features to show for each label or row. Default: 10."""
    titles: Annotated[PathLike | None, Only("wrong")] = None
    """JSON lines with the titles of the rows for --wrong, such as the file that was converted. Default: print ids only."""
    json: PathLike | None = None
    """JSON file for the features of the given labels (or of all), or for the result of --row, --wrong or --unlearnt."""
    force: Annotated[Flag, Only("json")] = False
    """Replace the JSON file if it exists."""
    shown_only: Annotated[bool, HIDDEN] = False
    """Without `label` and `json`, explain only the labels that are printed."""

    on_command_line: ClassVar = {"shown_only": True}
    results: ClassVar = {
        **{"row": "WhyRows", "wrong": "MostWrong", "unlearnt": "Learnability"},
        **{"comm": "Explanation | None", "": "Explanation"},
    }

    def check_options(self, *inputs: str) -> None:
        super().check_options(*inputs)
        for name in ("row", "wrong", "unlearnt"):
            if self.data is None and getattr(self, name) not in ((), None, False):
                raise OptionError(name, getattr(self, name), "needs the dataset; give DATA after the model")

    def execute(self, session: Session) -> "Answer":
        """By default an `Explanation` on rank 0 and None on other ranks; its `labels` are all labels.

        With `row` a `WhyRows`, with `wrong` a `MostWrong`, with `unlearnt` a `Learnability`, on all ranks. `str` formats each of
        them, and `as_dict()` returns its content. Collective over the session.
        """
        from hpcml.evaluation.explain import explain, explain_rows
        from hpcml.evaluation.scored_rows import choose_split
        from hpcml.evaluation.unlearnt import find_unlearnt
        from hpcml.evaluation.wrong import most_wrong
        from hpcml.model.open import share_model
        from hpcml.run.session import open_shared_dataset

        comm, log, top = session.comm, session.log, self.top or 10
        model = share_model(comm, self.model)
        check_outputs(session, self.force, [self.model, self.data, self.titles], json=self.json)
        with nullcontext() if self.data is None else open_shared_dataset(session, self.data) as dataset:
            if self.row:
                return explain_rows(comm, model, dataset, self.row, self.label, top)
            if self.wrong is None and not self.unlearnt:
                return explain(comm, model, self.label, top, self.json is not None or not self.shown_only)
            split = choose_split(comm, dataset, self.split, log)
            if self.wrong is not None:
                return most_wrong(comm, model, dataset, split, self.label, self.wrong, log, self.titles)
            return find_unlearnt(comm, model, dataset, split, log)
