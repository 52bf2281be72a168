"""The options of `hpcml convert`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hpcml.options import Flag, Several


@Parameter(name="*")
@dataclass(frozen=True)
class ConvertOptions:
    """Options of `hpcml convert`."""

    zero_based: Flag = False
    """svmlight: indices start at 0, not at 1."""
    max_line_mb: int | None = None
    """svmlight, jsonl: the longest line that is read, in MiB. Default: 16."""
    fields: Annotated[tuple[str, ...], Several] = ()
    """Text: tell apart the words of these fields, as in title=T,text=A: "crop T" is a word of titles. Without =T the name is the
    tag. JSON lines may have any fields, strings or lists of them. Default: the words of title and text, not told apart."""
    whole_fields: Annotated[tuple[str, ...], Several] = ()
    """Text: of these fields, those whose values are features as they are, such as the names of journals."""
    headings_as_features: Flag = False
    """Text: the labels of a row are features, too, named as in "Humans (heading)". Training leaves a label's own one out."""
    binary: Flag = False
    """Text: words present or not, instead of log(tf + 1) · idf with unit length."""
    pairs: Flag = False
    """Text: also adjacent word pairs with no stop word and no punctuation between."""
    min_df: int = 1
    """Text: keep words that occur in at least so many training rows."""
    stop_words: Path | None = None
    """Text: a file of words to leave out, one a line."""
    like: Path | None = None
    """Use the features, weights and labels of this dataset (the training file)."""
    test_share: float | None = None
    """Make this random share of the rows the split test, the others train."""
    rows: int | None = None
    """synthetic: make so many rows."""
    label_noise: float | None = None
    """For experiments: give this random share of the training rows (of all rows without splits) another class."""
    seed: int = 0
    """Another seed gives another random split, other synthetic rows and other label noise."""
