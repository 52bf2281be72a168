"""The sources of `hpcml convert`: their options and inputs, and checks of both.

A source NAME is read by the function `read_NAME` of a module of this folder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, make_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

from cyclopts import Parameter

from hpcml.conversion.options import ConvertOptions
from hpcml.errors import ConfigError, nearest
from hpcml.options import flag_of, help_of

if TYPE_CHECKING:
    from hpcml.conversion.conversion import Conversion
    from hpcml.conversion.part import Part


class Source(NamedTuple):
    """What a source takes: its options, from `least` to `most` files, or one of `names` of rows that are made.

    `is_text` says whether rows are made from text; None: the options say. `module` has the reader. With `by_file` one rank
    reads a file from beginning to end, so that none is unpacked beforehand.
    """

    about: str
    module: str
    options: tuple[str, ...]
    is_text: bool | None = True
    most: int = 1
    least: int = 1
    names: tuple[str, ...] = ()
    by_file: bool = False


ANY = 1 << 16  # files, at most
LIKE = ("like", "new_labels", "renamed", "test_share", "seed")
WORDS = ("headings_as_features", "binary", "pairs", "min_df", "stop_words")
OF_TEXT = ("fields", "whole_fields", *WORDS)
TEXT = (*OF_TEXT, *LIKE)
ROLES = ("labels", "indicators", "label_separator", "id", "split_column", "group")
SPARSE = ("descriptors", "empty_labels", "missing_as_zero", "missing_columns_as_zero", *LIKE)  # of matrices in memory
COLUMNS = (*ROLES, *SPARSE)
TABLE = ("text", "features", *COLUMNS, *OF_TEXT)  # also of frames in memory
NAMES = ("descriptors", "feature_names", "label_names", "missing_columns_as_zero", *LIKE)
LINES = ("max_line_mb",)
PUBMED = ("descriptors", "major_topics", "no_check_tags", "test_years", *TEXT, *LINES)
MADE = ("rows", "features", "labels", "least_positives", "test_share", "seed")
POINTS = ("checkerboard", "circle", "gaussians", "sine", "text")

# fmt: off
SOURCES = {
    "jsonl": Source("JSON lines: an object with title, text and labels on each line", "jsonl",
                    ("descriptors", "empty_labels", "group", *TEXT, *LINES)),
    "pubmed": Source("NLM's PubMed files: citations with MeSH headings", "pubmed", PUBMED, most=ANY, by_file=True),
    "annif": Source("Annif's document corpora", "annif", ("vocabulary", "language", "unindexed", "group", *TEXT, *LINES), most=ANY),
    "bioasq": Source("BioASQ's JSON: articles with MeSH headings", "bioasq", ("descriptors", *TEXT, *LINES)),
    "folder": Source("A folder of text files, whose folders are labels", "folder",
                     ("folder_splits", "encoding", *WORDS, *LIKE, *LINES)),
    "docstrings": Source("The docstrings of installed Python packages", "docstrings", TEXT, most=0, least=0),
    "csv": Source("CSV tables of texts or numbers", "csv_file", (*TABLE, "delimiter", "no_quotes", *LINES), None, ANY),
    "tsv": Source("Tables with tabs between the columns", "csv_file", (*TABLE, "no_quotes", *LINES), None, ANY),
    "parquet": Source("Parquet tables of texts or numbers", "parquet", TABLE, None, ANY),
    "svmlight": Source("svmlight text: `label index:value ...`", "svmlight", ("zero_based", *LIKE, *LINES), False),
    "xmc": Source("Text of the extreme-classification repository", "svmlight", (*NAMES, *LINES), False),
    "npz": Source("Matrices of NumPy and SciPy, labels there or in a second file", "npz",
                  ("label_separator", "feature_names", "label_names", *SPARSE), False, 2),
    "h5ad": Source("AnnData files", "h5ad", COLUMNS, False),
    "arff": Source("ARFF files of Weka, MULAN and MEKA", "arff", ("features", *COLUMNS, *LINES), False),
    "synthetic": Source(f"Rows made by a formula: {', '.join(POINTS)}", "synthetic", MADE, False, names=POINTS),
}
# fmt: on
DEFAULTS = ConvertOptions()
MAX_ROWS = 2**40  # so that sizes in bytes fit int64


def source_named(name: str) -> Source:
    """Return the source of this name. Raises ConfigError if there is none."""
    if name not in SOURCES:
        raise ConfigError(f"no source {name!r}; {nearest(name, SOURCES, 'hpcml convert --help')}")
    return SOURCES[name]


def reader_of(name: str) -> Callable[[Conversion], Part]:
    """Return the function that reads a source."""
    reader: Callable[[Conversion], Part] = getattr(import_module(f"hpcml.conversion.{SOURCES[name].module}"), f"read_{name}")
    return reader


def options_class(names: Collection[str]) -> type[Any]:
    """Return a class with those fields of ConvertOptions: their types, defaults and help."""
    hints, texts = get_type_hints(ConvertOptions, include_extras=True), help_of(ConvertOptions)
    own = [
        (option.name, Annotated[hints[option.name], Parameter(help=texts[option.name])], option.default)
        for option in fields(ConvertOptions)
        if option.name in names
    ]
    return make_dataclass("SourceOptions", own, frozen=True, namespace={"__module__": __name__})


def check_options(source: str, inputs: list[Path], options: ConvertOptions) -> bool | None:
    """Return whether rows are made from text (None: --like may say). Raises ConfigError for what makes no sense."""
    found = source_named(source)
    _check_inputs(source, found, inputs, options)
    if options.seed and not found.names and options.test_share is None:
        raise ConfigError(f"--seed {options.seed} has no effect without --test-share; leave it out")
    return check_values(found.options, found.is_text, options)


def check_values(known: Collection[str], is_text: bool | None, options: ConvertOptions) -> bool | None:
    """As `check_options`, for rows that have the `known` options, whatever the inputs are."""
    from hpcml.conversion.fields import parse_fields
    from hpcml.conversion.split import check_share
    from hpcml.files.lines import line_limit

    try:
        parse_fields(options.fields, options.whole_fields)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    line_limit(options.max_line_mb)
    if is_text is None and (options.text or options.fields):
        is_text = True
    elif is_text is None and (options.features or options.like is None):
        is_text = False
    if options.text and options.fields:
        raise ConfigError("--text and --fields both name columns of texts; leave one out (--fields tells their words apart)")
    if options.text or options.fields:
        numbers = ("features", "missing_as_zero", "missing_columns_as_zero")
        _refuse(options, numbers, "is for numbers, but --text and --fields make rows from texts")
    if is_text is False:
        _refuse(options, OF_TEXT, "is for text; name the columns of texts with --text")
    if options.like is None:
        _refuse(options, ("new_labels", "renamed", "missing_columns_as_zero"), "has no effect without --like")
    else:
        _refuse(options, OF_TEXT, f"does not go with --like, which takes it from {options.like}")
    if "labels" in known and not options.labels:
        _refuse(options, ("label_separator",), "has no effect without --labels")
        _refuse(options, () if options.indicators else ("empty_labels",), "has no effect without --labels or --indicators")
    if options.label_separator == "":
        raise ConfigError('--label-separator: empty, but expected what stands between labels, such as ";"')
    if options.empty_labels not in (None, "none"):
        raise ConfigError(f"--empty-labels {options.empty_labels}: expected none")
    if options.delimiter is not None and (
        len(options.delimiter) != 1 or options.delimiter in '"\n\r' or not options.delimiter.isascii()
    ):
        raise ConfigError(f"--delimiter {options.delimiter!r}: expected one ASCII character that stands between columns")
    if options.min_df < 1:
        raise ConfigError(f"--min-df {options.min_df}: expected at least 1")
    if options.test_share is not None:
        check_share(options.test_share)
        _refuse(options, ("split_column",), "names splits already, so --test-share cannot draw one")
    return is_text


def _refuse(options: ConvertOptions, names: Collection[str], why: str) -> None:
    """Raise ConfigError if an option of these names is given."""
    for name in names:
        if getattr(options, name) != getattr(DEFAULTS, name):
            raise ConfigError(f"--{flag_of(name)} {why}; leave it out")


def _check_inputs(source: str, found: Source, inputs: list[Path], options: ConvertOptions) -> None:
    """Raise ConfigError unless the inputs, and --rows, are what the source takes."""
    if not found.least <= len(inputs) <= found.most:
        files = {0: "no input file", 1: "one input file", 2: "one input file or two"}.get(found.most, "one or more input files")
        takes = f"one of {', '.join(found.names)}" if found.names else files
        raise ConfigError(f"{source} takes {takes}, but got {len(inputs) or 'none'}")
    if found.names and str(inputs[0]) not in found.names:
        raise ConfigError(f"{source} cannot make {str(inputs[0])!r}; {nearest(str(inputs[0]), found.names)}")
    if found.names and options.rows is None:
        raise ConfigError(f"{source} needs --rows, the number of rows to make")
    if options.rows is not None and not 1 <= options.rows <= MAX_ROWS:
        raise ConfigError(f"--rows {options.rows}: expected at least 1 and at most {MAX_ROWS}")
