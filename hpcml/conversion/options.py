"""The options of `hpcml convert`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from hpcml.options import Flag, Several


@Parameter(name="*")
@dataclass(frozen=True)
class ConvertOptions:
    """Options of `hpcml convert`."""

    zero_based: Flag = False
    """svmlight: indices start at 0, not at 1."""
    max_line_mb: int | None = None
    """The longest line (of csv and tsv: row, of folder and annif: file, of pubmed: record) that
    is read, in MiB. Default: 16.
    """
    text: Annotated[tuple[str, ...], Several] = ()
    """csv, tsv, parquet: the columns of texts, whose words are not told apart (--fields names
    columns whose words are).
    """
    labels: Annotated[tuple[str, ...], Several] = ()
    """csv, tsv, parquet, h5ad, arff: the columns (of h5ad: of obs) whose values are labels. Lists:
    several. A row whose values are all empty is unlabelled (--empty-labels). synthetic text: how
    many labels to make.
    """
    indicators: Annotated[tuple[str, ...], Several] = ()
    """csv, tsv, parquet, h5ad, arff: columns of 0 and 1, each of which is a label of its own,
    with the column's name. A row with an empty value is unlabelled (--empty-labels).
    """
    empty_labels: Literal["none"] | None = None
    """Tables, jsonl, npz: none: a row with empty or missing labels has no label, which makes it a
    negative example of every label. Default: nobody labelled it, so it is not used for training or
    evaluation.
    """
    label_separator: str | None = None
    """What stands between the labels in one value of --labels, such as ";". Default: a value is
    one label.
    """
    features: Annotated[tuple[str, ...], Several] = ()
    """csv, tsv, parquet, arff: the columns of numbers that are features. Default without texts: all
    that nothing else names, without row numbers, indexes of pandas and identifiers. synthetic text:
    how many features to make.
    """
    id: str | None = None
    """csv, tsv, parquet, h5ad, arff: the column that names the rows. Default for h5ad: the index
    of obs.
    """
    split_column: str | None = None
    """csv, tsv, parquet, h5ad, arff: the column that says the split of each row, such as train
    or test.
    """
    group: str | None = None
    """csv, tsv, parquet, h5ad, arff: the column, jsonl: the key, annif: the field of the metadata,
    that names the group of each row, such as the work of an edition or the patient of a sample.
    No split, fold or sample divides a group. Rows without a value are groups of their own.
    """
    missing_as_zero: Flag = False
    """csv, tsv, parquet, arff, h5ad, npz: take a missing number for 0. Default: it is an error."""
    missing_columns_as_zero: Flag = False
    """With --like, for csv, tsv, parquet, arff, h5ad, npz, xmc: features of that file that the input lacks are 0 in
    all rows. Default: a missing column is an error.
    """
    delimiter: str | None = None
    """csv: what stands between the columns, such as ";". Default: a comma."""
    no_quotes: Flag = False
    """csv, tsv: quotation marks are letters like others. Default: a value may stand between
    them.
    """
    folder_splits: Flag = False
    """folder: the topmost folders (train, test) are splits, and the folders in them labels."""
    encoding: str | None = None
    """folder: the encoding of the files, such as latin-1. Default: utf-8."""
    test_years: Annotated[tuple[str, ...], Several] = ()
    """pubmed: the citations of these years are the split test, as in 2019, 2017-2019 or 2019-
    (and later); the others train.
    """
    major_topics: Flag = False
    """pubmed: only headings that are major topics of a citation are its labels."""
    no_check_tags: Flag = False
    """pubmed: leave out the headings that indexers check for every article, such as Humans, Male
    and Adult.
    """
    vocabulary: Path | None = None
    """annif: a subject vocabulary (TSV or CSV), which names the subjects; others are left out.
    Default: all that documents have.
    """
    language: str | None = None
    """annif: the language of the labels of a vocabulary as CSV, such as en."""
    unindexed: Flag = False
    """annif: keep documents without subjects, to score them. Default: they are left out."""
    feature_names: Path | None = None
    """npz, xmc: a text file with the names of the features, one a line."""
    label_names: Path | None = None
    """npz, xmc: a text file with the names of the labels, one a line."""
    descriptors: Path | None = None
    """Text, tables, npz, xmc: what people call the labels, by the labels' names: NLM's file of MeSH
    descriptors (desc2026.xml, or .gz), or lines "name=UI" or UI, name and tree numbers with tabs
    between. The titles stand beside the names wherever people look.
    """
    fields: Annotated[tuple[str, ...], Several] = ()
    """Text: tell apart the words of these fields, as in title=T,text=A: "crop T" is a word of
    titles. Without =T the name is the tag. JSON lines and tables may have any fields, strings or
    lists. Default: the words of title and text, not told apart.
    """
    whole_fields: Annotated[tuple[str, ...], Several] = ()
    """Text: of these fields, those whose values are features as they are, such as the names of
    journals.
    """
    headings_as_features: Flag = False
    """Text: the labels of a row are features, too, named as in "Humans (heading)". Training
    leaves a label's own one out.
    """
    binary: Flag = False
    """Text: words present or not, instead of log(tf + 1) · idf with unit length."""
    pairs: Flag = False
    """Text: also adjacent word pairs with no stop word and no punctuation between."""
    min_df: int = 1
    """Text: keep words that occur in at least so many training rows."""
    stop_words: Path | None = None
    """Text: a file of words to leave out, one a line."""
    like: Path | None = None
    """Use the features, weights and labels of this dataset (the training file). Labels that it
    lacks are kept aside as unknown.
    """
    new_labels: Flag = False
    """With --like: labels that the file lacks become labels, too, behind those of the file."""
    renamed: Annotated[tuple[str, ...], Several] = ()
    """With --like: labels with another name than in the file, as in OLD=NEW, or files with
    OLD<tab>NEW on each line.
    """
    test_share: float | None = None
    """Make this random share of the rows the split test, the others train."""
    rows: int | None = None
    """synthetic: make so many rows."""
    least_positives: float | None = None
    """synthetic text: no label is expected in fewer rows than so many; may be a fraction.
    Default: the rarest may be in none.
    """
    seed: int = 0
    """Random seed for the split of --test-share and for synthetic rows. Default: 0."""
