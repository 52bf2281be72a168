"""`hpcml duplicates DATA`, and `hpcml.duplicates(data)`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Session, check_files, function, path_of
from hpcml.log import joined
from hpcml.options import Flag, Only, Range

if TYPE_CHECKING:
    from hpcml.near_duplicates.search import Duplicates


@dataclass(frozen=True)
class FindDuplicates(Operation["Duplicates"]):
    """Find rows that are nearly the same, and how far labels agree.

    Rows are compared by the features that they have. Duplicate documents were labelled twice, so
    their labels show how consistent the annotators were.

    Examples
    --------
    >>> hpcml.duplicates("docs.h5", similarity=0.9, output="pairs.csv").n_pairs
    """

    data: PathLike
    """A dataset made with `hpcml convert`."""
    _: KW_ONLY
    split: str = "all"
    """Rows to compare: a split of the file, or all."""
    similarity: float = 0.8
    """Pairs of rows are alike if this share of the features that one or the other has are features of both (Jaccard), 0.1 to 1."""
    output: Annotated[PathLike | None, OUTPUT] = None
    """Write the pairs to this CSV file."""
    csv: PathLike | None = None
    """Write the consistency of every label to this file."""
    json: PathLike | None = None
    """Write everything but the pairs to this file."""
    top: Annotated[int, Range(0)] = 10
    """Number of the most frequent labels to show."""
    force: Annotated[Flag, Only("output", "csv", "json")] = False
    """Replace the files if they exist."""

    def execute(self, session: Session) -> Duplicates:
        """A text, the same on all ranks, with the consistency of each label as `labels`. Collective over the session."""
        from hpcml.near_duplicates.search import find_duplicates
        from hpcml.run.session import opened_dataset

        with opened_dataset(session, self.data) as dataset:
            check_files(session, self.force, [dataset.path], output=self.output, csv=self.csv, json=self.json)
            return find_duplicates(session.comm, dataset, self.split, self.similarity, path_of(self.output), session.log)

    def format_result(self, result: Duplicates) -> str:
        """Return the table."""
        return joined(result.describe(self.top))


duplicates = function(FindDuplicates)
