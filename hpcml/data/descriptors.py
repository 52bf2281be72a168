"""Files of descriptors: names, tree numbers and terms of a thesaurus, which give labels their titles.

Three kinds of file, plain or compressed, are recognised by content: NLM's XML of all MeSH descriptors (desc2026.xml, about 300 MB);
BioASQ's mapping, lines `Humans=D006801`; and lines `UI<tab>name<tab>tree numbers`, where tree numbers are optional and separated by
`;`.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from hpcml.errors import ConfigError, DataError
from hpcml.files.lines import BYTE_ORDER_MARK, open_decompressed, read_lines
from hpcml.log import is_unicode

ROOT, RECORD = "DescriptorRecordSet", "DescriptorRecord"
HEAD_BYTES = 1 << 16  # the root element of XML begins within these
LONGEST_LINE = 1 << 16  # bytes
HEADERS = ("ui", "descriptorui", "id", "uri")  # possible headings of the column of identifiers
TREE_NUMBER = re.compile(r"[A-Z]\d{2}(\.\d{3})*|[A-Z]")


class Descriptor(NamedTuple):
    """`kind` is the class of MeSH: 1 topic, 2 publication type, 3 check tag, 4 place; "" if unknown."""

    name: str
    tree_numbers: tuple[str, ...] = ()
    kind: str = ""
    terms: tuple[str, ...] = ()


@dataclass
class Descriptors:
    path: Path
    by_identifier: dict[str, Descriptor] = field(default_factory=dict)

    def titles(self, names: Iterable[str]) -> list[str]:
        return [self.by_identifier[name].name if name in self.by_identifier else "" for name in names]

    @cached_property
    def identifiers(self) -> dict[str, str]:
        """Map each name, and each term of a single descriptor, to its identifier."""
        by_name = {descriptor.name: ui for ui, descriptor in self.by_identifier.items()}
        owners: dict[str, set[str]] = {}
        for ui, descriptor in self.by_identifier.items():
            for term in descriptor.terms:
                owners.setdefault(term, set()).add(ui)
        return {term: ui for term, (ui, *further) in owners.items() if not further} | by_name


def read_descriptors(path: Path) -> Descriptors:
    """Read a file of descriptors, holding one XML record in memory at a time. Raises DataError, and ConfigError without lxml."""
    descriptors = Descriptors(Path(path))
    with open_decompressed(descriptors.path) as file:
        head = file.read(HEAD_BYTES)
    is_xml = head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"<")
    for where, ui, descriptor in _from_xml(descriptors.path, head) if is_xml else _from_lines(descriptors.path):
        for text in (ui, descriptor.name):
            if not text or "\0" in text or not is_unicode(text):
                raise DataError(f"{path}: {where}: {text!r}, but expected an identifier and a name")
        for number in descriptor.tree_numbers:
            if not TREE_NUMBER.fullmatch(number):
                raise DataError(f"{path}: {where}: invalid tree number {number!r}; expected one such as C14.280.067")
        if descriptors.by_identifier.setdefault(ui, descriptor) is not descriptor:
            raise DataError(f"{path}: {where}: {ui} is defined twice; expected each descriptor once")
    if not descriptors.by_identifier:
        raise DataError(f"{path}: no descriptor; expected NLM's descriptors (desc2026.xml) or lines such as Humans=D006801")
    return descriptors


def _from_lines(path: Path) -> Iterator[tuple[str, str, Descriptor]]:
    table = None
    for number, line in read_lines(path, LONGEST_LINE, "; expected NLM's descriptors, or a name and a UI in each line"):
        where, text = f"line {number}", line.strip("\r\n ")
        if not text.strip():
            continue
        if table is None:
            table = "\t" in text
            if table and text.split("\t")[0].strip().lower() in HEADERS:
                continue
        if table:
            ui, name, *rest = (part.strip() for part in f"{text}\t".split("\t"))
            yield where, ui, Descriptor(name, tuple(part.strip() for part in rest[0].split(";") if part.strip()) if rest else ())
        else:
            name, equals, ui = text.rpartition("=")
            if not equals:
                raise DataError(f"{path}: {where}: {text[:80]!r}, but expected name=UI, or UI, name and tree numbers with tabs")
            yield where, ui.strip(), Descriptor(name.strip())


def _from_xml(path: Path, head: bytes) -> Iterator[tuple[str, str, Descriptor]]:
    try:
        from lxml import etree
    except ImportError:
        raise ConfigError(f"{path}: reading XML needs lxml; pip install 'hpcml[pubmed]'") from None
    secure: dict[str, Any] = {"resolve_entities": False, "no_network": True, "load_dtd": False}
    number = 0
    try:
        puller = etree.XMLPullParser(events=("start",), **secure)
        with suppress(etree.XMLSyntaxError):  # reported below, with the record number
            puller.feed(head)
        root = next((element.tag for _, element in puller.read_events()), None)
        if root not in (None, ROOT):
            raise DataError(f"{path}: the root is {root}, but expected {ROOT} (NLM's desc2026.xml)")
        with open_decompressed(path) as file:
            for _, record in etree.iterparse(file, tag=RECORD, **secure):
                number += 1
                name = _text(record.findtext("DescriptorName/String"))
                trees = tuple(_text(tree.text) for tree in record.iterfind("TreeNumberList/TreeNumber"))
                terms = [_text(term.text) for term in record.iterfind("ConceptList/Concept/TermList/Term/String")]
                others = tuple(term for term in dict.fromkeys(terms) if term and term != name)
                descriptor = Descriptor(name, trees, record.get("DescriptorClass", ""), others)
                yield f"record {number}", _text(record.findtext("DescriptorUI")), descriptor
                record.clear()
                while record.getprevious() is not None:
                    del record.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise DataError(f"{path}: record {number + 1}: damaged XML ({error}); download it again") from None


def _text(text: str | None) -> str:
    return " ".join((text or "").split())
