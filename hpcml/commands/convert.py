"""`hpcml convert SOURCE INPUT... -o OUTPUT`, and `hpcml.convert(source, input, output)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Paths, Session, function, paths_of
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.sources import SOURCES, find_source, options_class
from hpcml.options import Flag

if TYPE_CHECKING:
    from hpcml.conversion.convert import ConvertReport


@dataclass(frozen=True)
class Convert(Operation["ConvertReport"]):
    """Make a dataset from texts or numbers in any usual format.

    Or from the docstrings of installed packages, or by formula. `hpcml.Dataset.from_sparse` and
    `from_frame` take rows that are in memory.

    Examples
    --------
    >>> hpcml.convert("csv", "docs.csv", "docs.h5", text=["title"], labels=["topic"], test_share=0.2)
    """

    source: str
    """A source of `hpcml convert`. Texts: jsonl, pubmed, annif, bioasq, folder, docstrings. Texts or numbers: csv, tsv,
    parquet, arff. Numbers: svmlight, xmc, npz, h5ad, synthetic.
    """
    input: Paths
    """The file to read; several for csv, tsv, parquet, pubmed and annif; for npz also one with the
    labels; none for docstrings; for synthetic what to make: text (a corpus), checkerboard,
    circle, gaussians or sine. Text files may be compressed (gz, bz2, xz, zst, zip).
    """
    output: Annotated[PathLike, OUTPUT]
    """The HDF5 file to make."""
    _: KW_ONLY
    options: ConvertOptions
    """The options of `hpcml convert SOURCE`, by the flags with `_` for `-`."""
    force: Flag = False
    """Replace the output if it exists."""

    @classmethod
    def families(cls) -> dict[str, str]:
        """Return the sources and their titles."""
        return {name: source.about for name, source in SOURCES.items()}

    @classmethod
    def options_for(cls, given: Mapping[str, Any]) -> tuple[type, str]:
        """Return the class of the options of the source, and the command that lists them. Raises ConfigError."""
        return options_class(find_source(given["source"]).options), f"convert {given['source']}"

    def execute(self, session: Session) -> ConvertReport:
        """A text. Collective over the session."""
        from hpcml.conversion.convert import convert

        inputs, options = paths_of(self.input or ()), ConvertOptions(**vars(self.options))
        return convert(session.comm, self.source, inputs, Path(self.output), options, self.force, session.log)


convert = function(Convert)
