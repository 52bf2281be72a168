"""The sources of `hpcml convert`: their readers, inputs and options.

The reader of a source NAME is the function `read_NAME` of its module.
"""

from collections.abc import Collection
from dataclasses import fields, make_dataclass
from typing import Annotated, Any, NamedTuple, get_type_hints

from cyclopts import Parameter

from hpcml.conversion.options import ConvertOptions
from hpcml.errors import ConfigError, OptionError, nearest
from hpcml.options import check_rules, option_help


class Source(NamedTuple):
    """`is_text` None: the options decide. With `by_file`, one rank reads a whole file, so files are not unpacked first."""

    about: str
    module: str
    options: tuple[str, ...]
    is_text: bool | None = True
    most: int = 1
    least: int = 1
    names: tuple[str, ...] = ()
    by_file: bool = False


ANY = 1 << 16  # maximum number of files
LIKE = ("like", "new_labels", "renamed", "test_share", "seed")
WORDS = ("headings_as_features", "binary", "pairs", "min_df", "stop_words")
OF_TEXT = ("fields", "whole_fields", *WORDS)
TEXT = (*OF_TEXT, *LIKE)
ROLES = ("labels", "indicators", "label_separator", "id", "split_column", "group")
ZEROS = ("missing_as_zero", "missing_columns_as_zero")
SPARSE = ("descriptors", "empty_labels", "labels_as_text", "unique_ids", *ZEROS, *LIKE)  # also options of Dataset.from_sparse
COLUMNS = (*ROLES, *SPARSE)
TABLE = ("text", "features", *COLUMNS, *OF_TEXT)  # also options of Dataset.from_frame
NAMES = ("descriptors", "feature_names", "label_names", "missing_columns_as_zero", *LIKE)
LINES = ("max_line_mb", "skip_bad")
PUBMED = ("descriptors", "major_topics", "no_check_tags", "test_years", *TEXT, *LINES)
MADE = ("rows", "features", "labels", "least_positives", "test_share", "seed")
POINTS = ("checkerboard", "circle", "gaussians", "sine", "text")

# fmt: off
SOURCES = {
    "jsonl": Source("JSON lines: an object with title, text and labels on each line", "jsonl",
                    ("descriptors", "empty_labels", "unique_ids", "group", "ignore_splits", *TEXT, *LINES)),
    "pubmed": Source("NLM's PubMed files: citations with MeSH headings", "pubmed", PUBMED, most=ANY, by_file=True),
    "annif": Source("Annif's document corpora", "annif", ("vocabulary", "language", "unindexed", "group", *TEXT, *LINES), most=ANY),
    "bioasq": Source("BioASQ's JSON: articles with MeSH headings", "jsonl", ("descriptors", *TEXT, *LINES)),
    "folder": Source("A folder of text files; folders are labels", "annif",
                     ("folder_splits", "encoding", *WORDS, *LIKE, *LINES)),
    "docstrings": Source("The docstrings of installed Python packages", "docstrings", TEXT, most=0, least=0),
    "csv": Source("CSV tables of texts or numbers", "csv_file", (*TABLE, "delimiter", "no_quotes", *LINES), None, ANY),
    "tsv": Source("Tables with tabs between the columns", "csv_file", (*TABLE, "quotes", *LINES), None, ANY),
    "parquet": Source("Parquet tables of texts or numbers", "parquet", TABLE, None, ANY),
    "svmlight": Source("svmlight text: `label index:value ...`", "svmlight", ("zero_based", *LIKE, *LINES), False),
    "xmc": Source("Text of the extreme-classification repository", "svmlight", (*NAMES, *LINES), False),
    "npz": Source("Matrices of NumPy and SciPy, labels in the same or a second file", "npz",
                  ("label_separator", "feature_names", "label_names", "ignore_splits", *SPARSE), False, 2, by_file=True),
    "h5ad": Source("AnnData files", "h5ad", ("layer", "raw", "obsm", *COLUMNS), False),
    "arff": Source("ARFF files of Weka, MULAN and MEKA", "arff", ("label_xml", *TABLE, *LINES), None),
    "synthetic": Source(f"Synthetic rows: {', '.join(POINTS)}", "synthetic", MADE, False, names=POINTS),
}
# fmt: on


def find_source(name: str) -> Source:
    if name not in SOURCES:
        raise ConfigError(f"no source {name!r}; {nearest(name, SOURCES, 'hpcml convert --help')}")
    return SOURCES[name]


def options_class(names: Collection[str]) -> type[Any]:
    hints, texts = get_type_hints(ConvertOptions, include_extras=True), option_help(ConvertOptions)
    own = [
        (option.name, Annotated[hints[option.name], Parameter(help=texts[option.name])], option.default)
        for option in fields(ConvertOptions)
        if option.name in names
    ]
    return make_dataclass("SourceOptions", own, frozen=True, namespace={"__module__": __name__})


def check_options(known: Collection[str], is_text: bool | None, options: ConvertOptions) -> bool | None:
    """Return whether rows are made from text (None: --like decides)."""
    from hpcml.conversion.vocabulary import parse_fields

    if is_text is None and (options.text or options.fields):
        is_text = True
    elif is_text is None and (options.features or options.like is None):
        is_text = False
    implied = {"labels"} - set(known)  # rows have labels with any options
    if "label_xml" in known:
        implied.add("indicators")  # the relation may name labels
    if is_text:
        implied |= {"text"} - set(known)
    check_rules(options, *implied, *(["test_share"] if "rows" in known else []))
    try:
        parse_fields(options.fields, options.whole_fields)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if options.test_share is not None and not 0 < options.test_share < 1:
        raise OptionError("test_share", options.test_share, "expected a number between 0 and 1")
    if options.label_separator == "":
        raise OptionError("label_separator", "", 'empty; expected the text between labels, such as ";"')
    delimiter = options.delimiter
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\n\r' or not delimiter.isascii()):
        raise OptionError("delimiter", repr(delimiter), "expected one ASCII character")
    return is_text
