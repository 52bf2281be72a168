"""The options of `hpcml convert` and their rules. `hpcml.conversion.sources` lists the options of each source."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from hpcml.options import FieldNames, Flag, Name, Names, NotWith, Only, Or, Range, Several

MAX_ROWS = 2**40  # sizes in bytes fit int64
# Rules for options of texts and of numbers.
OF_TEXT, OF_NUMBERS = Only("text", "fields"), NotWith("text", "fields")
NOT_LIKE, LIKE = NotWith("like"), Only("like")  # the --like file decides, or the option needs it


@dataclass(frozen=True)
class ConvertOptions:
    """Options of `hpcml convert`. Options that a source does not have keep their defaults."""

    text: Annotated[tuple[str, ...], Names, NotWith("fields")] = ()
    """Text columns. A word is the same feature in all of them; use --fields for separate features."""
    labels: Annotated[tuple[str, ...], Names, Or("int")] = ()
    """Columns with labels (h5ad: of obs). A list is several labels. A row whose values are all empty is unlabelled (see
    --empty-labels). synthetic text: number of labels.
    """
    labels_as_text: Annotated[Flag, Only("labels")] = False
    """Keep the values of --labels as written. Default: in a column of numbers, 1 and 1.0 are one label, and 2.5 is an error."""
    indicators: Annotated[tuple[str, ...], Names] = ()
    """Columns of 1 or True and 0 or False; each is a label with the name of the column. A row with an empty value is unlabelled
    (see --empty-labels).
    """
    label_xml: Path | None = None
    """MULAN XML file; its labels are the indicators. Default: the attributes that MEKA's -C in the relation names, unless another
    option names labels.
    """
    empty_labels: Annotated[Literal["none"] | None, Only("labels", "indicators")] = None
    """none: a row with empty or missing labels has no labels and is a negative example of every label. Default: the row is
    unlabelled and is not used for training or evaluation.
    """
    label_separator: Annotated[str | None, Only("labels")] = None
    r"""Text between labels in one value, such as ";"; write `\;` for the separator in a label and `\\` for `\`. Default: a value is
    one label.
    """
    features: Annotated[tuple[str, ...], Names, OF_NUMBERS, Or("int")] = ()
    """Numeric feature columns. Default without text: all columns without another role, except row numbers, pandas indexes and
    identifiers. synthetic text: number of features.
    """
    id: Annotated[str | None, Name] = None
    """Column with row names. Default for h5ad: the index of obs."""
    unique_ids: Flag = False
    """Reject repeated ids. Default: repeated ids are counted in the log."""
    split_column: Annotated[str | None, Name] = None
    """Column with the split of each row, such as train or test."""
    group: Annotated[str | None, Name] = None
    """Column (jsonl: key, annif: metadata field) with the group of each row, such as the work of an edition or the patient of a
    sample. Splits, folds and samples keep groups together. A row without a value is its own group.
    """
    missing_as_zero: Annotated[Flag, OF_NUMBERS] = False
    """Read missing numbers as 0. Default: a missing number is an error."""
    missing_columns_as_zero: Annotated[Flag, OF_NUMBERS, LIKE] = False
    """With --like: features of that file that are missing from the input are 0 in all rows. Default: a missing column is an error.
    """
    delimiter: str | None = None
    """Character between columns, such as ";". Default: a comma."""
    no_quotes: Flag = False
    """Treat quotation marks as ordinary characters. Default: values may be quoted."""
    quotes: Flag = False
    """Values may be quoted, as in "a b". Default: quotation marks are ordinary characters."""
    zero_based: Flag = False
    """Indices start at 0. Default: at 1."""
    rows: Annotated[int | None, Range(1, MAX_ROWS)] = None
    """Number of rows to generate."""
    least_positives: float | None = None
    """synthetic text: minimum expected number of rows per label; may be a fraction. Default: no minimum."""
    folder_splits: Flag = False
    """The top folders (such as train, test) are splits, and their subfolders are labels."""
    encoding: str | None = None
    """Encoding of the files, such as latin-1. Default: utf-8."""
    test_years: Annotated[tuple[str, ...], Several, Or("int")] = ()
    """Years whose citations form the split test, such as 2019, 2017-2019 or 2019- (and later); other citations form the split
    train.
    """
    major_topics: Flag = False
    """Use only headings that are major topics of a citation as labels."""
    no_check_tags: Flag = False
    """Exclude MeSH check tags, the headings that indexers check for every article, such as Humans and Adult."""
    layer: Annotated[str | None, NotWith("raw", "obsm")] = None
    """Layer with the feature matrix. Default: X."""
    raw: Annotated[Flag, NotWith("obsm")] = False
    """Use matrix and features of raw. Default: X and var."""
    obsm: str | None = None
    """Entry of obsm with the feature matrix; features are named NAME:0, NAME:1 and so on. Default: X."""
    vocabulary: Path | None = None
    """Subject vocabulary (TSV or CSV) with the names of subjects; other subjects are skipped. Default: all subjects of the
    documents.
    """
    language: Annotated[str | None, Only("vocabulary")] = None
    """Language of the labels in a CSV vocabulary, such as en."""
    unindexed: Flag = False
    """Keep documents without subjects, for prediction. Default: they are skipped."""
    feature_names: Path | None = None
    """Text file with one feature name per line."""
    label_names: Path | None = None
    """Text file with one label name per line."""
    descriptors: Path | None = None
    """File with a readable title per label: NLM's MeSH descriptors (desc2026.xml or .gz), or lines of "name=UI" or
    `UI<tab>name<tab>tree numbers`. Titles are shown next to label names.
    """
    fields: Annotated[tuple[str, ...], FieldNames, NOT_LIKE] = ()
    """Text fields with separate features. With title=T,text=A, the word crop in a title is the feature "crop T". Without =T the tag
    is the name. JSON lines and tables may have any fields with strings or lists. Default: the words of title and text are the same
    features.
    """
    whole_fields: Annotated[tuple[str, ...], FieldNames, NOT_LIKE, Only("fields")] = ()
    """Fields among --fields whose whole values are features, such as journal names."""
    headings_as_features: Annotated[Flag, NOT_LIKE, OF_TEXT] = False
    """Use the labels of a row as features, too, with names such as "Humans (heading)". Training a label excludes its own heading.
    """
    binary: Annotated[Flag, NOT_LIKE, OF_TEXT] = False
    """Give words the value 1. Default: log(tf + 1) · idf with unit length."""
    pairs: Annotated[Flag, NOT_LIKE, OF_TEXT] = False
    """Also use pairs of adjacent words, without stop words or punctuation between them."""
    min_df: Annotated[int, Range(1), NOT_LIKE, OF_TEXT] = 1
    """Minimum number of training rows with a word."""
    stop_words: Annotated[Path | None, NOT_LIKE, OF_TEXT] = None
    """File with one word per line to exclude."""
    like: Path | None = None
    """Dataset, or run folder of a model, with the features and labels to use. Labels missing from it are stored as unknown."""
    new_labels: Annotated[Flag, LIKE] = False
    """With --like: add labels missing from that file, after its labels."""
    renamed: Annotated[tuple[str, ...], Several, LIKE] = ()
    """With --like: renamed labels as OLD=NEW, or files with `OLD<tab>NEW` on each line."""
    ignore_splits: Flag = False
    """Ignore the splits in the input (jsonl: key split; npz: array splits), for instance to draw new ones with --test-share."""
    test_share: Annotated[float | None, NotWith("split_column", "folder_splits", "test_years")] = None
    """Share of rows in the random split test; other rows form the split train. Default: no random split."""
    seed: Annotated[int, Only("test_share")] = 0
    """Random seed for --test-share and for synthetic rows. Default: 0."""
    skip_bad: Annotated[int, Range(0)] = 0
    """Maximum number of bad records to skip; they are counted in the log and in the dataset. Default: 0, a bad record is an error.
    """
    max_line_mb: Annotated[int | None, Range(1, 1 << 16)] = None
    """Maximum size of a line (csv, tsv: row; folder, annif: file; pubmed: record) in MiB. Default: 16."""
