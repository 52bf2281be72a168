"""The fields of documents, which `convert --fields` tells apart, and the names of their features.

The feature of the word "earthquake" in a field with the tag T is named "earthquake T", that of a
word pair "new york T", and that of a value taken whole "Disasters T". A tag has no white space and
belongs to one field, so the last word of a name says the field, and no two features have one name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hpcml.data.headings import TAG
from hpcml.errors import nearest, repeated

OTHER_KEYS = ("id", "labels", "split")  # of a document, that are no fields
LONGEST = 1 << 14  # letters of all fields together, which an attribute of the dataset holds


class Field(NamedTuple):
    """A key of a document, the tag of its features, and whether values are features as they are."""

    name: str
    tag: str
    whole: bool = False


# What is not told apart has no tag: a word is one feature, wherever it stands.
PLAIN = (Field("title", ""), Field("text", ""))


def parse_fields(given: Iterable[str], whole: Iterable[str] = ()) -> tuple[Field, ...]:
    """The fields of texts such as "title=T,text=A,journal": NAME or NAME=TAG (by default NAME).

    `whole` names those whose values are features as they are. PLAIN without any; raises ValueError
    with the reason.
    """
    parts, whole_names = ([part.strip() for text in texts for part in text.split(",")] for texts in (given, whole))
    pairs = [(name, tag if equals else name) for name, equals, tag in (part.partition("=") for part in parts)]
    names = [name for name, _ in pairs]
    for name in whole_names:
        if name not in names:
            raise ValueError(f"--whole-fields {name}: not among --fields; {nearest(name, names)}".rstrip("; "))
    if sum(map(len, [*names, *(tag for _, tag in pairs)])) > LONGEST:
        raise ValueError(f"--fields: more than {LONGEST:,} characters; choose fewer fields or shorter tags")
    for name, tag in pairs:
        if not name or not tag:
            raise ValueError(f"--fields {name}={tag}: a name is empty; expected names with commas between, as in title=T,text=A")
        if name in OTHER_KEYS:
            raise ValueError(f"--fields {name}: {name} is no field; choose keys that hold text")
        if not name.isprintable() or not tag.isprintable() or len(tag.split()) != 1 or " " in tag or "=" in tag:
            raise ValueError(f"--fields {name}={tag}: a tag must be one word without spaces or '=', as in {name}=T")
        if tag == TAG:
            raise ValueError(f"--fields {name}={tag}: headings have that tag; choose another")
    for what, found in (("field", names), ("tag", [tag for _, tag in pairs])):
        if (one := repeated(found)) is not None:
            raise ValueError(f"--fields: the {what} {one!r} stands there twice; give each field a name and a tag of its own")
    return tuple(Field(name, tag, name in whole_names) for name, tag in pairs) or PLAIN


def as_texts(fields: Sequence[Field]) -> tuple[str, str]:
    """The texts that `parse_fields` reads: fields with tags, and names of those taken whole."""
    return (",".join(f"{field.name}={field.tag}" for field in fields), ",".join(field.name for field in fields if field.whole))
