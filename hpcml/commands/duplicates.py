"""`hpcml duplicates DATA`, and `hpcml.duplicates(data)`."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Session, check_outputs
from hpcml.log import joined
from hpcml.options import Flag, Only, Range

if TYPE_CHECKING:
    from hpcml.near_duplicates.search import Duplicates


@dataclass(frozen=True)
class FindDuplicates(Operation["Duplicates"]):
    """Find near-duplicate rows and the agreement of their labels.

    Rows are compared by the sets of their features. Duplicate documents were labelled more than once, so their labels show how
    consistent the annotators were.

    Examples
    --------
    >>> hpcml.duplicates("docs.h5", similarity=0.9, output="pairs.csv").n_pairs
    0
    """

    data: PathLike
    """Dataset made with `hpcml convert`."""
    _: KW_ONLY
    split: str = "all"
    """Rows to compare: a split of the dataset, or all."""
    similarity: float = 0.8
    """Minimum Jaccard similarity of the feature sets of two rows (features of both over features of either), from 0.1 to 1."""
    output: Annotated[PathLike | None, OUTPUT] = None
    """CSV file for the pairs. Default: none."""
    csv: PathLike | None = None
    """CSV file for the consistency of each label. Default: none."""
    json: PathLike | None = None
    """JSON file for all results except the pairs. Default: none."""
    top: Annotated[int, Range(0)] = 10
    """Number of labels to print, most frequent first."""
    force: Annotated[Flag, Only("output", "csv", "json")] = False
    """Replace the files if they exist."""

    def execute(self, session: Session) -> "Duplicates":
        """The report as a text on all ranks, with the consistency of each label as `labels`. Collective over the session."""
        from hpcml.near_duplicates.search import find_duplicates
        from hpcml.run.session import open_shared_dataset

        with open_shared_dataset(session, self.data) as dataset:
            check_outputs(session, self.force, [dataset.path], output=self.output, csv=self.csv, json=self.json)
            return find_duplicates(session.comm, dataset, self.split, self.similarity, self.output, session.log)

    def format_result(self, result: "Duplicates") -> str:
        return joined(result.describe(self.top))
