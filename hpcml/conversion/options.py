"""The options of `hpcml convert`, with their rules. `hpcml.conversion.sources` says which of them each source has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from hpcml.options import FieldNames, Flag, Name, Names, NotWith, Only, Or, Range, Several

MAX_ROWS = 2**40  # so that sizes in bytes fit int64
# Rules of options for texts, and for numbers.
OF_TEXT, OF_NUMBERS = Only("text", "fields"), NotWith("text", "fields")
NOT_LIKE, LIKE = NotWith("like"), Only("like")  # --like: its file decides, or the option is about it


@dataclass(frozen=True)
class ConvertOptions:
    """Options of `hpcml convert`; those that a source does not have keep their defaults."""

    text: Annotated[tuple[str, ...], Names, NotWith("fields")] = ()
    """Columns of texts, whose words are not told apart (--fields names columns whose words are)."""
    labels: Annotated[tuple[str, ...], Names, Or("int")] = ()
    """Columns (h5ad: of obs) whose values are labels. A list is several labels. A row whose values are all
    empty is unlabelled (--empty-labels). synthetic text: the number of labels.
    """
    labels_as_text: Annotated[Flag, Only("labels")] = False
    """Keep the values of --labels as they are written. Default: where all values of a column are
    numbers, 1 and 1.0 are one label, and 2.5 is an error.
    """
    indicators: Annotated[tuple[str, ...], Names] = ()
    """Columns of 1 or True and 0 or False, each of which is a label with the name of the column. A row
    with an empty value is unlabelled (--empty-labels).
    """
    label_xml: Path | None = None
    """MULAN's XML file, whose labels are the indicators. Default: the attributes that MEKA's -C in the
    relation names, if no other option names labels.
    """
    empty_labels: Annotated[Literal["none"] | None, Only("labels", "indicators")] = None
    """none: a row with empty or missing labels has no label, which makes it a negative example of
    every label. Default: nobody labelled it, so it is not used for training or evaluation.
    """
    label_separator: Annotated[str | None, Only("labels")] = None
    r"""Text between the labels in one value, such as ";"; a label may hold it as `\;`, and `\` as `\\`.
    Default: a value is one label.
    """
    features: Annotated[tuple[str, ...], Names, OF_NUMBERS, Or("int")] = ()
    """Columns of numbers that are features. Default without texts: all that nothing else names,
    without row numbers, indexes of pandas and identifiers. synthetic text: the number of features.
    """
    id: Annotated[str | None, Name] = None
    """Column that names the rows. Default for h5ad: the index of obs."""
    unique_ids: Flag = False
    """Two rows with the same id are an error. Default: the log counts them."""
    split_column: Annotated[str | None, Name] = None
    """Column with the split of each row, such as train or test."""
    group: Annotated[str | None, Name] = None
    """Column (jsonl: key, annif: field of the metadata) that names the group of each row, such as the work of an edition or the
    patient of a sample. No split, fold or sample divides a group. Rows without a value are groups of their own.
    """
    missing_as_zero: Annotated[Flag, OF_NUMBERS] = False
    """Take a missing number for 0. Default: it is an error."""
    missing_columns_as_zero: Annotated[Flag, OF_NUMBERS, LIKE] = False
    """With --like: features of that file that the input lacks are 0 in all rows. Default: a missing column is an error."""
    delimiter: str | None = None
    """Character between the columns, such as ";". Default: a comma."""
    no_quotes: Flag = False
    """Treat quotation marks as ordinary characters. Default: values may be quoted."""
    quotes: Flag = False
    """Values may be quoted, as in "a b". Default: quotation marks are ordinary characters."""
    zero_based: Flag = False
    """Indices start at 0, not at 1."""
    rows: Annotated[int | None, Range(1, MAX_ROWS)] = None
    """Number of rows to make."""
    least_positives: float | None = None
    """synthetic text: least number of rows in which a label is expected; may be a fraction. Default: the
    rarest labels may have none.
    """
    folder_splits: Flag = False
    """The topmost folders (train, test) are splits, and the folders in them labels."""
    encoding: str | None = None
    """Encoding of the files, such as latin-1. Default: utf-8."""
    test_years: Annotated[tuple[str, ...], Several, Or("int")] = ()
    """Years whose citations are the split test, as in 2019, 2017-2019 or 2019- (and later); the others are the split train."""
    major_topics: Flag = False
    """Only headings that are major topics of a citation are its labels."""
    no_check_tags: Flag = False
    """Leave out MeSH check tags, the headings that indexers check for every article, such as Humans and Adult."""
    layer: Annotated[str | None, NotWith("raw", "obsm")] = None
    """Layer that is the matrix of features. Default: X."""
    raw: Annotated[Flag, NotWith("obsm")] = False
    """Take the matrix and the features of raw. Default: X and var."""
    obsm: str | None = None
    """Entry of obsm that is the matrix of features, which are named NAME:0 and so on. Default: X."""
    vocabulary: Path | None = None
    """Subject vocabulary (TSV or CSV), which names the subjects; others are left out. Default: all subjects of the documents."""
    language: Annotated[str | None, Only("vocabulary")] = None
    """Language of the labels of a vocabulary as CSV, such as en."""
    unindexed: Flag = False
    """Keep documents without subjects, to score them. Default: they are left out."""
    feature_names: Path | None = None
    """Text file with the names of the features, one a line."""
    label_names: Path | None = None
    """Text file with the names of the labels, one a line."""
    descriptors: Path | None = None
    """File with a readable title for each label: NLM's file of MeSH descriptors (desc2026.xml, or .gz), or lines "name=UI" or
    `UI<tab>name<tab>tree numbers`. Titles are shown next to the names of labels.
    """
    fields: Annotated[tuple[str, ...], FieldNames, NOT_LIKE] = ()
    """Make separate features for each of these fields. With title=T,text=A the feature "crop T" is the
    word crop in a title. Without =T the name is the tag. JSON lines and tables may have any fields,
    strings or lists. Default: the words of title and text, not told apart.
    """
    whole_fields: Annotated[tuple[str, ...], FieldNames, NOT_LIKE, Only("fields")] = ()
    """Those of --fields whose values are features as they are, such as the names of journals."""
    headings_as_features: Annotated[Flag, NOT_LIKE, OF_TEXT] = False
    """The labels of a row are features, too, named as in "Humans (heading)". Training leaves a label's own one out."""
    binary: Annotated[Flag, NOT_LIKE, OF_TEXT] = False
    """Words are present or not. Default: log(tf + 1) · idf with unit length."""
    pairs: Annotated[Flag, NOT_LIKE, OF_TEXT] = False
    """Use adjacent word pairs, too, with no stop word and no punctuation between."""
    min_df: Annotated[int, Range(1), NOT_LIKE, OF_TEXT] = 1
    """Keep words that occur in at least this number of training rows."""
    stop_words: Annotated[Path | None, NOT_LIKE, OF_TEXT] = None
    """File of words to leave out, one a line."""
    like: Path | None = None
    """Dataset, or run folder of a model, whose features and labels are used again. Labels that it lacks are kept aside as unknown.
    """
    new_labels: Annotated[Flag, LIKE] = False
    """With --like: labels that the file lacks become labels, too, behind those of the file."""
    renamed: Annotated[tuple[str, ...], Several, LIKE] = ()
    """With --like: labels with another name than in the file, as in OLD=NEW, or files with `OLD<tab>NEW` on each line."""
    ignore_splits: Flag = False
    """Ignore the splits of the rows in the input (jsonl: the key split; npz: the array splits), for instance to
    draw others with --test-share.
    """
    test_share: Annotated[float | None, NotWith("split_column", "folder_splits", "test_years")] = None
    """Share of the rows in the random split test; the others are the split train."""
    seed: Annotated[int, Only("test_share")] = 0
    """Random seed for the split of --test-share and for synthetic rows. Default: 0."""
    skip_bad: Annotated[int, Range(0)] = 0
    """Maximum number of bad records to skip; the log and the dataset count them. Default: 0, a bad record is an error."""
    max_line_mb: Annotated[int | None, Range(1, 1 << 16)] = None
    """Largest line (csv, tsv: row; folder, annif: file; pubmed: record) in MiB. Default: 16."""
