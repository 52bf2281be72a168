"""Documents as Annif's corpora have them: a text, metadata, and subjects by URI or by label.

The forms are those of Annif 1.4 (annif/corpus, annif/schemas/document.json). A damaged document,
which Annif passes over with a warning, is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hpcml.conversion.jsonl import loaded
from hpcml.conversion.subjects import bare

TEXT, SUBJECTS, NAME = "text", "subject_uris", "document_id"  # columns of CSV; the others are metadata


class AnnifDocument(NamedTuple):
    """Its subjects are (URI, label), one of which may be ""; `metadata` holds other fields."""

    text: str
    subjects: list[tuple[str, str]]
    metadata: dict[str, str]
    name: str = ""


def of_tsv(line: str) -> AnnifDocument:
    """The document on a line: `text TAB <URI> <URI> …`."""
    text, _, uris = line.partition("\t")
    return AnnifDocument(text, [(bare(uri), "") for uri in uris.split()], {})


def of_csv(names: Sequence[str], values: Sequence[str]) -> AnnifDocument:
    """The document in a row of CSV: text, subject_uris, document_id, others. Raises ValueError."""
    if len(values) != len(names):
        raise ValueError(f"{len(values)} values, but the header names {len(names)} columns")
    row = dict(zip(names, values, strict=True))
    subjects = [(bare(uri), "") for uri in row.pop(SUBJECTS, "").split()]
    return AnnifDocument(row.pop(TEXT, ""), subjects, row, row.pop(NAME, ""))


def of_json(content: bytes) -> AnnifDocument:
    """The document that a JSON object describes. Raises ValueError with the reason."""
    return document(loaded(content, ""))


def document(value: object) -> AnnifDocument:
    """The document of {"text", "metadata", "subjects", "document_id"}. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("no object, but expected one with the key text or metadata")
    if "text" not in value and "metadata" not in value:
        raise ValueError("neither text nor metadata; expected at least one of them")
    metadata = value.get("metadata", {})
    if not isinstance(metadata, dict) or not all(isinstance(each, str) for each in metadata.values()):
        raise ValueError("metadata must be an object whose values are strings")
    subjects = value.get("subjects", [])
    if not isinstance(subjects, list):
        raise ValueError('subjects must be a list of {"uri": …} or {"label": …}')
    return AnnifDocument(_string(value, "text"), [_subject(each) for each in subjects], metadata, _string(value, "document_id"))


def _string(value: dict[str, Any], key: str) -> str:
    """The string of a key, "" without it. Raises ValueError."""
    found = value.get(key, "")
    if not isinstance(found, str):
        raise ValueError(f"{key} must be a string")
    return found


def _subject(value: object) -> tuple[str, str]:
    """(URI, label) of an element of `subjects`. Raises ValueError."""
    if not isinstance(value, dict) or not (value.get("uri") or value.get("label")):
        raise ValueError('a subject must be {"uri": …} or {"label": …}')
    return _string(value, "uri"), _string(value, "label")


def of_key_file(text: str) -> list[tuple[str, str]]:
    """The subjects beside a text (.key, .tsv): a label, or `<URI> TAB label`, on each line."""
    found = []
    for line in text.splitlines():
        values = [value.strip() for value in line.split("\t")]
        uri, label = "", ""
        for value in values:
            if value.startswith("<") and value.endswith(">"):
                uri = bare(value)
            elif value:
                label = value
                break
        if uri or label:
            found.append((uri, label))
    return found
