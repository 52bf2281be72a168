"""Where datasets come from: a source reads this rank's part."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from hpcml.conversion.annif import read_annif
from hpcml.conversion.arff import read_arff
from hpcml.conversion.bioasq import read_bioasq
from hpcml.conversion.conversion import Conversion
from hpcml.conversion.docstrings import read_docstrings
from hpcml.conversion.folder import read_folder
from hpcml.conversion.h5ad import read_h5ad
from hpcml.conversion.jsonl import read_jsonl
from hpcml.conversion.npz import read_npz
from hpcml.conversion.options import ConvertOptions
from hpcml.conversion.parquet import read_parquet
from hpcml.conversion.part import Part
from hpcml.conversion.pubmed import check_pubmed, read_pubmed
from hpcml.conversion.svmlight import read_svmlight, read_xmc
from hpcml.conversion.synthetic import NAMES as SYNTHETIC
from hpcml.conversion.synthetic import check_synthetic, read_synthetic
from hpcml.conversion.table import read_csv, read_tsv


class Source(NamedTuple):
    """How to read a source, how many inputs it takes, and whether rows are made from text.

    `is_text` None: the options say. An input is a file, or one of `names`: then `options.rows` rows
    are made; `check` raises ConfigError for options that do not fit the name. `options` are those
    that only some sources have. With `by_file` one rank reads a file from beginning to end, so that
    none is unpacked beforehand.
    """

    read: Callable[[Conversion], Part]
    n_inputs: tuple[int, int]
    is_text: bool | None
    options: Collection[str] = ()
    names: Collection[str] = ()
    check: Callable[[str, ConvertOptions], None] | None = None
    by_file: bool = False


ANY = 1 << 16  # files, at most
COLUMNS = (
    *("descriptors", "labels", "indicators", "empty_labels", "label_separator", "id", "split_column", "group"),
    *("missing_as_zero", "missing_columns_as_zero"),
)
TABLE = (*COLUMNS, "text", "features")
NAMES = ("descriptors", "feature_names", "label_names", "missing_columns_as_zero")
PUBMED = ("descriptors", "major_topics", "max_line_mb", "no_check_tags", "test_years")

SOURCES = {
    "annif": Source(read_annif, (1, ANY), True, ("vocabulary", "language", "unindexed", "group", "max_line_mb")),
    "arff": Source(read_arff, (1, 1), False, (*COLUMNS, "features", "max_line_mb")),
    "bioasq": Source(read_bioasq, (1, 1), True, ("descriptors", "max_line_mb")),
    "csv": Source(read_csv, (1, ANY), None, (*TABLE, "delimiter", "no_quotes", "max_line_mb")),
    "docstrings": Source(read_docstrings, (0, 0), True),
    "folder": Source(read_folder, (1, 1), True, ("folder_splits", "encoding", "max_line_mb")),
    "h5ad": Source(read_h5ad, (1, 1), False, COLUMNS),
    "jsonl": Source(read_jsonl, (1, 1), True, ("descriptors", "empty_labels", "group", "max_line_mb")),
    "npz": Source(read_npz, (1, 2), False, ("missing_as_zero", "empty_labels", "label_separator", *NAMES)),
    "parquet": Source(read_parquet, (1, ANY), None, TABLE),
    "pubmed": Source(read_pubmed, (1, ANY), True, PUBMED, check=check_pubmed, by_file=True),
    "svmlight": Source(read_svmlight, (1, 1), False, ("zero_based", "max_line_mb")),
    "synthetic": Source(read_synthetic, (1, 1), False, ("features", "labels", "least_positives"), SYNTHETIC, check_synthetic),
    "tsv": Source(read_tsv, (1, ANY), None, (*TABLE, "no_quotes", "max_line_mb")),
    "xmc": Source(read_xmc, (1, 1), False, (*NAMES, "max_line_mb")),
}

OF_TEXT = ("fields", "whole_fields", "headings_as_features", "binary", "pairs", "min_df", "stop_words")


def foreign_options(name: str) -> set[str]:
    """The options that a source does not take."""
    source = SOURCES[name]
    foreign = {option for each in SOURCES.values() for option in each.options} - {*source.options}
    return foreign | {*(OF_TEXT if source.is_text is False else ()), *(() if source.names else ("rows",))}
