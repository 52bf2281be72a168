"""`hpcml cv METHOD... DATA...`, and `hpcml.cross_validate(methods, data)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import HIDDEN, OUTPUT, Operation, PathLike, Paths, Session, Strings, function, path_of, paths_of
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
    """Methods and data, in any order. Methods: probe, dual, elastic-net, bernoulli-nb (with small
    weights, too: all-bernoulli-nb), boosted-bayes, staged-bayes, staged-svm, pw, bw, mbw,
    perceptron, pa, romma, their voted forms v-NAME, psbml, svm, multinomial-nb, a base learner
    of psbml, or the path of a scikit-learn classifier. Data: FILE, each of whose labels is told
    from all others, or FILE:LABEL.
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
        from hpcml.crossval.table import csv_text
        from hpcml.crossval.validate import cross_validate, file_and_label
        from hpcml.files.atomic import check_output, write_whole
        from hpcml.mpi import run_on_root

        output, comm = path_of(self.output), session.comm

        def divide() -> tuple[list[str], list[str]]:
            methods, data = divide_names([*self.methods, *map(str, paths_of(self.data))])
            if output is not None:
                check_output(output, self.force, [file_and_label(name)[0] for name in data])
            return methods, data

        methods, data = run_on_root(comm, "looking for the data", divide)
        options = {option.name: getattr(self, option.name) for option in fields(CvOptions)}
        result = cross_validate(comm, methods, data, session.log, **options)
        if output is not None:
            run_on_root(comm, f"writing {output}", lambda: write_whole(output, csv_text(result).encode()))
        return result


cross_validate = function(CrossValidate, "cross_validate")
