"""`hpcml cv METHOD... DATA...`, and `hpcml.cross_validate(methods, data)`."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from hpcml.commands.operation import HIDDEN, OUTPUT, Operation, PathLike, Paths, Session, Strings, check_outputs
from hpcml.crossval.options import CvOptions
from hpcml.options import Flag, Only

if TYPE_CHECKING:
    from hpcml.crossval.table import CrossValidation


@dataclass(frozen=True)
class CrossValidate(CvOptions, Operation["CrossValidation"]):
    """Compare methods by cross-validation.

    Prints F1 in stratified folds, with corrected t-tests and mean ranks.

    Examples
    --------
    >>> table = hpcml.cross_validate(["perceptron", "pa"], ["docs.h5:sea"], folds=3)
    >>> table.methods
    ['perceptron', 'pa']
    """

    methods: Strings
    """Methods and datasets, in any order. Methods: probe, dual, elastic-net, bernoulli-nb (all-bernoulli-nb: without its minimum
    weight), boosted-bayes, staged-bayes, staged-svm, pw, bw, mbw, perceptron, pa, romma, their voted forms v-NAME, psbml, svm,
    multinomial-nb, a base learner of psbml, or the path of a scikit-learn classifier. Datasets: FILE, whose labels are classified
    one against the rest, or FILE:LABEL.
    """
    data: Annotated[Paths, HIDDEN] = ()
    """Further datasets."""
    _: KW_ONLY
    output: Annotated[PathLike | None, OUTPUT] = None
    """CSV file for the table, with F1 in each fold. Default: only print it."""
    force: Annotated[Flag, Only("output")] = False
    """Replace the output if it exists."""

    files: ClassVar = {"output": "write_csv"}

    def execute(self, session: Session) -> "CrossValidation":
        """The table; `str` formats it. Collective over the session."""
        from hpcml.crossval.methods import divide_names
        from hpcml.crossval.tasks import cross_validate
        from hpcml.mpi import run_on_root

        names = [*self.methods, *map(str, self.data)]
        methods, data = run_on_root(session.comm, "looking for the data", lambda: divide_names(names))
        check_outputs(session, self.force, [path for path, _ in data], output=self.output)
        return cross_validate(session.comm, methods, data, session.log, self)
