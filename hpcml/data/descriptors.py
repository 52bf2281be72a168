"""Titles of labels: the descriptors of a thesaurus by identifier, with their places in its trees.

Three kinds of file, plain or compressed, told apart by their contents: NLM's XML of all MeSH
descriptors (desc2026.xml, some 300 MB); BioASQ's mapping, lines `Humans=D006801`; and lines
`UI<tab>name<tab>tree numbers`, where the tree numbers may be missing and have `;` between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import BYTE_ORDER_MARK, open_plain, read_lines
from hpcml.log import is_unicode

ROOT, RECORD = "DescriptorRecordSet", "DescriptorRecord"
HEAD_BYTES = 1 << 16  # of XML, in which its root begins
LONGEST = 1 << 16  # bytes of a line
HEADERS = ("ui", "descriptorui", "id", "uri")  # what may stand above the identifiers of a table
TREE_NUMBER = re.compile(r"[A-Z]\d{2}(\.\d{3})*|[A-Z]")


class Descriptor(NamedTuple):
    """A heading, the places where it hangs in the trees (of Humans: B01.050.150...), its class ("" where the file has none; 1 is a
    topic, 2 a type of publication, 3 a check tag, 4 a place) and its other terms.
    """

    name: str
    tree_numbers: tuple[str, ...] = ()
    kind: str = ""
    terms: tuple[str, ...] = ()


@dataclass
class Descriptors:
    """The descriptors of a file by identifier (UI), in its order."""

    path: Path
    of: dict[str, Descriptor] = field(default_factory=dict)

    def titles(self, names: Iterable[str]) -> list[str]:
        """The heading of each label of such a name; "" of those that the file does not have."""
        return [self.of[name].name if name in self.of else "" for name in names]

    @cached_property
    def identifiers(self) -> dict[str, str]:
        """The identifier of each heading, and of each term that one descriptor has."""
        found = {descriptor.name: ui for ui, descriptor in self.of.items()}
        of_terms: dict[str, set[str]] = {}
        for ui, descriptor in self.of.items():
            for term in descriptor.terms:
                of_terms.setdefault(term, set()).add(ui)
        return {term: ui for term, (ui, *others) in of_terms.items() if not others} | found


def read_descriptors(path: Path) -> Descriptors:
    """The descriptors in a file. Local. Memory is bounded by what is kept and one record.

    Raises DataError that names file and record or line, ConfigError if XML cannot be read here.
    """
    found = Descriptors(Path(path))
    with open_plain(found.path) as file:
        head = file.read(HEAD_BYTES)
    is_xml = head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"<")
    for place, ui, descriptor in _from_xml(found.path, head) if is_xml else _from_lines(found.path):
        for text in (ui, descriptor.name):
            if not text or "\0" in text or not is_unicode(text):
                raise DataError(f"{path}: {place}: {text!r}, but expected an identifier and a name")
        for number in descriptor.tree_numbers:
            if not TREE_NUMBER.fullmatch(number):
                raise DataError(f"{path}: {place}: the tree number {number!r}, but expected one such as C14.280.067")
        if found.of.setdefault(ui, descriptor) is not descriptor:
            raise DataError(f"{path}: {place}: {ui} stands there twice; expected each descriptor once")
    if not found.of:
        raise DataError(f"{path}: no descriptor; expected NLM's descriptors (desc2026.xml), or lines such as Humans=D006801")
    return found


def _from_lines(path: Path) -> Iterator[tuple[str, str, Descriptor]]:
    """(line, UI, descriptor) of each line of a mapping or a table. Raises DataError."""
    table = None
    for number, line in read_lines(path, LONGEST, "; expected NLM's descriptors, or a name and a UI a line"):
        place, text = f"line {number}", line.strip("\r\n ")
        if not text.strip():
            continue
        if table is None:
            table = "\t" in text
            if table and text.split("\t")[0].strip().lower() in HEADERS:
                continue
        if table:
            ui, name, *rest = (part.strip() for part in f"{text}\t".split("\t"))
            yield place, ui, Descriptor(name, tuple(part.strip() for part in rest[0].split(";") if part.strip()) if rest else ())
        else:
            name, equals, ui = text.rpartition("=")
            if not equals:
                raise DataError(f"{path}: {place}: {text[:80]!r}, but expected name=UI, or UI, name and tree numbers with tabs")
            yield place, ui.strip(), Descriptor(name.strip())


def _from_xml(path: Path, head: bytes) -> Iterator[tuple[str, str, Descriptor]]:
    """(record, UI, descriptor) of each record of NLM's XML. Raises DataError."""
    try:
        from lxml import etree
    except ImportError:
        raise ConfigError(f"{path}: reading XML needs lxml; pip install 'hpcml[pubmed]'") from None
    secure: dict[str, Any] = {"resolve_entities": False, "no_network": True, "load_dtd": False}
    number = 0
    try:
        puller = etree.XMLPullParser(events=("start",), **secure)
        with suppress(etree.XMLSyntaxError):  # said below, with its place
            puller.feed(head)
        root = next((element.tag for _, element in puller.read_events()), None)
        if root not in (None, ROOT):
            raise DataError(f"{path}: the root is {root}, but expected {ROOT} (NLM's desc2026.xml)")
        with open_plain(path) as file:
            for _, record in etree.iterparse(file, tag=RECORD, **secure):
                number += 1
                name = _text(record.findtext("DescriptorName/String"))
                trees = tuple(_text(place.text) for place in record.iterfind("TreeNumberList/TreeNumber"))
                terms = [_text(term.text) for term in record.iterfind("ConceptList/Concept/TermList/Term/String")]
                others = tuple(term for term in dict.fromkeys(terms) if term and term != name)
                descriptor = Descriptor(name, trees, record.get("DescriptorClass", ""), others)
                yield f"record {number}", _text(record.findtext("DescriptorUI")), descriptor
                record.clear()
                while record.getprevious() is not None:
                    del record.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise DataError(f"{path}: record {number + 1}: damaged XML ({error}); get it again") from None


def _text(found: str | None) -> str:
    return " ".join((found or "").split())
