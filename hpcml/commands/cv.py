"""`hpcml cv METHOD... DATA...`, and `hpcml.cross_validate(methods, data)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import HIDDEN, OUTPUT, Operation, PathLike, Paths, Session, Strings, check_files, function, paths_of
from hpcml.crossval.options import CvOptions
from hpcml.options import Flag, Only

if TYPE_CHECKING:
    from hpcml.crossval.table import CrossValidation


@dataclass(frozen=True)
class CrossValidate(CvOptions, Operation["CrossValidation"]):
    """Cross-validate methods on data.

    F1 in stratified folds, with corrected t-tests and ranks.

    Examples
    --------
    >>> print(hpcml.cross_validate(["dual", "mbw"], ["docs.h5"], folds=5))
    """

    methods: Strings
    """Methods and data, in any order. Methods: probe, dual, elastic-net, bernoulli-nb (with small weights, too: all-bernoulli-nb),
    boosted-bayes, staged-bayes, staged-svm, pw, bw, mbw, perceptron, pa, romma, their voted forms v-NAME, psbml, svm,
    multinomial-nb, a base learner of psbml, or the path of a scikit-learn classifier. Data: FILE, whose labels are classified one
    against the rest, or FILE:LABEL.
    """
    data: Annotated[Paths, HIDDEN] = ()
    """Data that are not named among the methods."""
    _: KW_ONLY
    output: Annotated[PathLike | None, OUTPUT] = None
    """Write the table to this file as CSV, with F1 in each fold."""
    force: Annotated[Flag, Only("output")] = False
    """Replace the output if it exists."""

    def execute(self, session: Session) -> CrossValidation:
        """The table, a text. Collective over the session."""
        from hpcml.crossval.methods import divide_names
        from hpcml.crossval.validate import cross_validate
        from hpcml.mpi import run_on_root

        names = [*self.methods, *map(str, paths_of(self.data))]
        methods, data = run_on_root(session.comm, "looking for the data", lambda: divide_names(names))
        check_files(session, self.force, [path for path, _ in data], output=self.output)
        return cross_validate(session.comm, methods, data, session.log, self)

    def finish(self, session: Session, result: CrossValidation) -> None:
        """Write the table. Collective over the session."""
        from hpcml.mpi import run_on_root

        if self.output is not None:
            run_on_root(session.comm, f"writing {self.output}", lambda: result.write_csv(self.output))


cross_validate = function(CrossValidate, "cross_validate")
