"""`hpcml explain MODEL`, and `hpcml.explain(model)`."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias, Union

from hpcml.commands.operation import HIDDEN, AnyModel, Operation, PathLike, Session, Strings, check_files, function, path_of
from hpcml.errors import OptionError
from hpcml.options import Flag, NotWith, Only, Range, Several

if TYPE_CHECKING:
    from hpcml.evaluation.explain import Explanation, WhyRows
    from hpcml.evaluation.unlearnt import Learnability
    from hpcml.evaluation.wrong import MostWrong

Answer: TypeAlias = Union["Explanation", "WhyRows", "MostWrong", "Learnability", None]


@dataclass(frozen=True)
class Explain(Operation[Answer]):
    """Show the features that matter for labels and for predictions.

    Prints the features of a linear model with the largest squared weights, and the share of the others. With --row: why a row got a
    label. With --wrong: the rows that the model is most wrong about. With --unlearnt: the labels that it ranks no better than
    chance, and why. These three need the data, and the last two take models of any kind.

    Examples
    --------
    >>> print(hpcml.explain("run", label=["sea"], top=20))
    """

    model: AnyModel
    """A run folder, or its model.h5."""
    data: Annotated[PathLike | None, Only("row", "wrong", "unlearnt")] = None
    """A dataset with the model's features, for --row, --wrong and --unlearnt."""
    _: KW_ONLY
    label: Annotated[Strings, Several, NotWith("unlearnt")] = ()
    """Labels to explain. Default: the 5 labels of the most training rows (the JSON file has all labels); with --row those of the
    row, those that it is given, and the best 3; with --wrong all labels together.
    """
    row: Annotated[Strings, Several, NotWith("wrong", "unlearnt")] = ()
    """Explain the scores of the row with this id, or with this number (from 0) if the data have no ids."""
    wrong: Annotated[int | None, Range(1), NotWith("unlearnt")] = None
    """Number of rows to show that miss a label, and of rows that have one wrongly, those farthest beyond its threshold."""
    unlearnt: Flag = False
    """Show the labels that are not learnt, and labels of nearly the same rows."""
    split: Annotated[str | None, Only("wrong", "unlearnt")] = None
    """Rows for --wrong and --unlearnt: a split of the file, or all. Default: test if the file has it."""
    top: Annotated[int | None, Range(1), NotWith("wrong", "unlearnt")] = None
    """Number of features of a label, or of a row, to show. Default: 10."""
    titles: Annotated[PathLike | None, Only("wrong")] = None
    """JSON lines with the titles of the rows for --wrong, as those that the data were made of."""
    json: PathLike | None = None
    """Write the features of the labels, of all if none are named, to this file; or everything that
    --row, --wrong or --unlearnt has found.
    """
    force: Annotated[Flag, Only("json")] = False
    """Replace the JSON file if it exists."""
    shown_only: Annotated[bool, HIDDEN] = False
    """Without names and without `json`, look only at the labels that the text is about."""

    on_command_line: ClassVar = {"shown_only": True}
    results: ClassVar = {
        **{"row": "WhyRows", "wrong": "MostWrong", "unlearnt": "Learnability"},
        **{"comm": "Explanation | None", "": "Explanation"},
    }

    def check_options(self, *inputs: str) -> None:
        """Raise OptionError for options that do not go together."""
        super().check_options(*inputs)
        for name in ("row", "wrong", "unlearnt"):
            if self.data is None and getattr(self, name) not in ((), None, False):
                raise OptionError(name, getattr(self, name), "needs the data; give DATA behind the model")

    def execute(self, session: Session) -> Answer:
        """By default an `Explanation` on rank 0 and None elsewhere; all labels are in its `labels`.

        With `row` a `WhyRows`, with `wrong` a `MostWrong`, with `unlearnt` a `Learnability`, on all
        ranks. Each is a text, with everything as `as_dict()`. Collective over the session.
        """
        from hpcml.evaluation.explain import explain, explain_rows
        from hpcml.evaluation.seen import split_to_judge
        from hpcml.evaluation.unlearnt import find_unlearnt
        from hpcml.evaluation.wrong import most_wrong
        from hpcml.model.open import share_model
        from hpcml.run.session import opened_dataset

        comm, log, top = session.comm, session.log, self.top or 10
        model = share_model(comm, self.model)
        check_files(session, self.force, [self.model, self.data, self.titles], json=self.json)
        with nullcontext() if self.data is None else opened_dataset(session, self.data) as dataset:
            if self.row:
                return explain_rows(comm, model, dataset, self.row, self.label, top)
            if self.wrong is None and not self.unlearnt:
                return explain(comm, model, self.label, top, self.json is not None or not self.shown_only)
            split = split_to_judge(comm, dataset, self.split, log)
            if self.wrong is not None:
                return most_wrong(comm, model, dataset, split, self.label, self.wrong, log, path_of(self.titles))
            return find_unlearnt(comm, model, dataset, split, log)


explain = function(Explain)
