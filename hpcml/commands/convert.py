"""`hpcml convert SOURCE INPUT... -o OUTPUT`, and `hpcml.convert(source, input, output)`."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from hpcml.commands.operation import OUTPUT, Operation, PathLike, Paths, Session
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.sources import SOURCES, find_source, options_class
from hpcml.options import Flag

if TYPE_CHECKING:
    from hpcml.conversion.convert import ConvertReport


@dataclass(frozen=True)
class Convert(Operation["ConvertReport"]):
    """Convert texts or tables of numbers to a dataset.

    `hpcml.Dataset.from_sparse` and `hpcml.Dataset.from_frame` convert rows in memory.

    Examples
    --------
    >>> report = hpcml.convert("csv", "docs.csv", "new-docs.h5", text=["text"], labels=["topic"], test_share=0.2)
    >>> hpcml.Dataset("new-docs.h5").labels("train").shape
    (80, 2)
    """

    source: str
    """Format of the input. Texts: jsonl, pubmed, annif, bioasq, folder, docstrings. Texts or numbers: csv, tsv, parquet, arff.
    Numbers: svmlight, xmc, npz, h5ad, synthetic.
    """
    input: Paths
    """Input file; several for csv, tsv, parquet, pubmed and annif; for npz optionally a second file with the labels; none for
    docstrings. For synthetic, the kind of rows to generate: text (a corpus), checkerboard, circle, gaussians or sine. Text files
    may be compressed (gz, bz2, xz, zst, zip).
    """
    output: Annotated[PathLike, OUTPUT]
    """HDF5 file to write."""
    _: KW_ONLY
    options: ConvertOptions
    """The options of `hpcml convert SOURCE`: the names of the flags with `_` for `-`."""
    force: Flag = False
    """Replace the output if it exists."""

    @classmethod
    def families(cls) -> dict[str, str]:
        return {name: source.about for name, source in SOURCES.items()}

    @classmethod
    def options_for(cls, values: Mapping[str, Any]) -> tuple[type, str]:
        return options_class(find_source(values["source"]).options), f"convert {values['source']}"

    def execute(self, session: Session) -> "ConvertReport":
        """The report as a text. Collective over the session."""
        from hpcml.conversion.convert import convert

        inputs, options = list(self.input or ()), ConvertOptions(**vars(self.options))
        return convert(session.comm, self.source, inputs, self.output, options, self.force, session.log)
