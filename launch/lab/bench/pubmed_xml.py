"""Generate XML files like the baseline and update files of PubMed, of any size, from real records; a seed determines them.

OUTPUT is a folder, with --mesh a file. The real records are those of $HPCML_DATA (--data): pubmed_sample.xml.xz gives authors,
journals, references and all else that a record holds; mesh.jsonl.xz gives titles, abstracts and headings. A record has the title
and the headings of one document, and its abstract with a fifth of the sentences from another. Abstracts whose sections have labels
are structured. Some words are in <i>, <sup>, <sub> or MathML, some letters are character references. Some records are indexed by a
machine, some not at all; some dates are MedlineDate. The last --updates of the files are updates: a third of their records revise,
a tenth are second versions, and each ends with deletions. Of ten files one is in ISO-8859-1 and one in UTF-16. Files are compressed
(gz), but not with --plain.

--mesh writes the documents of mesh.jsonl.xz as they are (or the --first N of them), in one file: titles, abstracts and headings. A
document without a numeric id gets the PMID 90,000,000 plus its line number. They have no years.

A heading has its real UI if the sample contains it, else one derived from its name: D9 and eleven digits.

The line has files, records, deletions, rows (citations that are not deleted), bytes of XML.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import os
import random
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from lxml import etree

DOCTYPE = (
    '<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2024//EN" '
    '"https://dtd.nlm.nih.gov/ncbi/pubmed/out/pubmed_240101.dtd">'
)
SECTION = re.compile(r"(?:^|(?<=[.?!)]) )(?!UNLABELLED)([A-Z][A-Z ,&/]{3,60}): ")
SENTENCE = re.compile(r"(?<=[.?!]) (?=[A-Z])")
HOLE = "\ue000"  # where a template has a hole; no record holds this letter
MATH = (
    '<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML"><mml:msup><mml:mi>{}</mml:mi><mml:mn>2</mml:mn></mml:msup></mml:math>'
)
MARKUP = ("<i>{}</i>", "<sup>{}</sup>", "<sub>{}</sub>", "<b>{}</b>", MATH)
ENCODINGS = {3: "ISO-8859-1", 7: "UTF-16"}  # of the file with this last digit; the others are UTF-8
MADE_UP_PMIDS = 90_000_000
DATA = Path(os.environ.get("HPCML_DATA", "../shared/data"))


class Document(NamedTuple):
    pmid: int
    title: str
    text: str
    headings: list[str]


def documents(data: Path, first: int | None = None) -> Iterator[Document]:
    with lzma.open(data / "mesh.jsonl.xz", "rt", encoding="utf-8") as lines:
        for number, line in enumerate(islice(lines, first)):
            document = json.loads(line)
            pmid = int(document["id"]) if document["id"].isdigit() else MADE_UP_PMIDS + number + 1
            yield Document(pmid, document["title"], document["text"], document["labels"])


def sample(data: Path) -> list[etree._Element]:
    with lzma.open(data / "pubmed_sample.xml.xz") as file:
        return list(etree.parse(file).getroot().iterchildren("PubmedArticle"))


class Headings(dict):
    """UI and spelling of each heading, by its name in lower case; headings without a real UI get one from their name."""

    def __init__(self, records: list[etree._Element]) -> None:
        for record in records:
            for name in record.iter("DescriptorName"):
                self[name.text.lower()] = (name.get("UI"), name.text)

    def __missing__(self, name: str) -> tuple[str, str]:
        number = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 10**11
        self[name] = (f"D9{number:011}", name)
        return self[name]

    def xml(self, names: list[str], majors: frozenset[int]) -> str:
        parts = []
        for index, name in enumerate(names):
            ui, heading = self[name]
            major = "Y" if index in majors else "N"
            descriptor = f'<DescriptorName UI="{ui}" MajorTopicYN="{major}">{escape(heading)}</DescriptorName>'
            parts.append(f"<MeshHeading>{descriptor}</MeshHeading>\n")
        return f"<MeshHeadingList>\n{''.join(parts)}</MeshHeadingList>" if parts else ""


def sections(text: str) -> list[tuple[str, str]]:
    """Return (label, text) of the sections of an abstract; one without label if the sections do not give the text."""
    begin, *parts = SECTION.split(text)
    pairs = [("", begin)] if begin else []
    pairs += list(zip(parts[::2], parts[1::2], strict=True))
    again = " ".join(f"{label}: {part}" if label else part for label, part in pairs)
    return pairs if again == text and all(part.strip() for _, part in pairs) else [("", text)]


def abstract_xml(parts: list[tuple[str, str]]) -> str:
    elements = [f"<AbstractText{f' Label={quoteattr(label)}' if label else ''}>{text}</AbstractText>\n" for label, text in parts]
    return f"<Abstract>\n{''.join(elements)}</Abstract>" if any(text for _, text in parts) else ""


def template(record: etree._Element) -> list[str]:
    """Split a real record at its attributes, PMID and version, date, title, abstract and headings."""
    citation = record.find("MedlineCitation")
    citation.attrib.pop("IndexingMethod", None)
    citation.set("Hole", HOLE)
    pmid, article = citation.find("PMID"), citation.find("Article")
    pmid.set("Version", HOLE)
    pmid.text = article.find("ArticleTitle").text = HOLE
    for inner in article.find("ArticleTitle"):
        inner.getparent().remove(inner)
    for element in (article.find("Journal/JournalIssue/PubDate"), article.find("Abstract"), citation.find("MeshHeadingList")):
        element.addprevious(etree.Comment(HOLE))
        element.getparent().remove(element)
    text = etree.tostring(record, encoding="unicode", with_tail=False)
    return text.replace(f'Hole="{HOLE}"', HOLE).replace(f"<!--{HOLE}-->", HOLE).split(HOLE)


def marked(rng: random.Random, text: str) -> str:
    """Return a text as XML, with some markup and some letters as character references."""
    if rng.random() < 0.3:
        words = text.split(" ")
        index = rng.randrange(len(words))
        words = [escape(word) for word in words]
        words[index] = rng.choice(MARKUP).format(words[index])
        text = " ".join(words)
    else:
        text = escape(text)
    return "".join(letter if letter.isascii() else f"&#x{ord(letter):x};" for letter in text) if rng.random() < 0.3 else text


class Maker:
    def __init__(self, data: Path) -> None:
        records = sample(data)
        self.headings = Headings(records)
        parts = [each.find("MedlineCitation") for each in records]
        complete = [part.find("Article/Abstract") is not None and part.find("MeshHeadingList") is not None for part in parts]
        self.templates = [template(record) for record, whole in zip(records, complete, strict=True) if whole]
        self.documents = list(documents(data))

    def record(self, rng: random.Random, pmid: int, version: int) -> str:
        one, other = rng.choice(self.documents), rng.choice(self.documents)
        borrowed = SENTENCE.split(other.text)
        parts = []
        for label, text in sections(one.text):
            sentences = [rng.choice(borrowed) if rng.random() < 0.2 else sentence for sentence in SENTENCE.split(text)]
            parts.append((label, marked(rng, " ".join(sentences))))
        year, kind = rng.randint(1990, 2024), rng.random()
        automated = kind < 0.8 and year > 2021
        headings = [] if kind > 0.93 else one.headings
        method = ' IndexingMethod="Automated"' if automated else ' IndexingMethod="Curated"' if kind < 0.05 else ""
        inner = f"<MedlineDate>{year} Sep-Oct</MedlineDate>" if kind < 0.1 else f"<Year>{year}</Year><Month>Sep</Month>"
        majors = frozenset(rng.sample(range(len(headings)), min(2, len(headings))))
        holes = (
            method.strip(),
            str(version),
            str(pmid),
            f"<PubDate>{inner}</PubDate>",
            marked(rng, one.title),
            abstract_xml(parts),
            self.headings.xml(headings, majors),
        )
        pieces = rng.choice(self.templates)
        return "".join(part for pair in zip(pieces, (*holes, ""), strict=True) for part in pair)


class Stock:
    """Versions of each citation that are not deleted."""

    def __init__(self) -> None:
        self.versions: dict[int, set[int]] = {}
        self.pmids: list[int] = []
        self.records = self.deletions = 0

    def add(self, pmid: int, version: int) -> None:
        self.records += 1
        if pmid not in self.versions:
            self.pmids.append(pmid)
        self.versions.setdefault(pmid, set()).add(version)

    def delete(self, pmid: int, version: int) -> None:
        self.deletions += 1
        self.versions[pmid].discard(version)

    @property
    def rows(self) -> int:
        """Return the number of citations that are not deleted."""
        return sum(map(bool, self.versions.values()))


def file_text(maker: Maker, stock: Stock, number: int, n_records: int, update: bool, seed: int) -> str:
    rng = random.Random(f"{seed} {number}")
    encoding = ENCODINGS.get(number % 10, "utf-8")
    parts = [f'<?xml version="1.0" encoding="{encoding}"?>\n{DOCTYPE}\n<PubmedArticleSet>\n']
    for _ in range(n_records):
        pmid, version, kind = len(stock.pmids) + 1_000_001, 1, rng.random()
        if update and kind < 0.43:
            pmid = rng.choice(stock.pmids)
            version = 2 if kind < 0.1 else max(stock.versions[pmid], default=1)
        stock.add(pmid, version)
        parts.append(maker.record(rng, pmid, version) + "\n")
    if update:
        gone = []
        for pmid in rng.sample(stock.pmids, min(len(stock.pmids), max(1, n_records // 50))):
            version = max(stock.versions[pmid], default=1)
            stock.delete(pmid, version)
            gone.append(f'<PMID Version="{version}">{pmid}</PMID>\n')
        parts.append(f"<DeleteCitation>\n{''.join(gone)}</DeleteCitation>\n")
    return "".join([*parts, "</PubmedArticleSet>\n"])


def mesh_text(data: Path, first: int | None = None) -> tuple[str, int]:
    headings = Headings(sample(data))
    parts = [f'<?xml version="1.0" encoding="utf-8"?>\n{DOCTYPE}\n<PubmedArticleSet>\n']
    for document in documents(data, first):
        abstract = [(label, escape(text)) for label, text in sections(document.text)]
        parts.append(
            f'<PubmedArticle>\n<MedlineCitation Status="MEDLINE" Owner="NLM">\n<PMID Version="1">{document.pmid}</PMID>\n'
            f'<Article PubModel="Print">\n<ArticleTitle>{escape(document.title)}</ArticleTitle>\n'
            f"{abstract_xml(abstract)}\n</Article>\n"
            f"{headings.xml(document.headings, frozenset())}\n</MedlineCitation>\n</PubmedArticle>\n"
        )
    made_up = [ui for ui, _ in headings.values()]
    assert len(set(made_up)) == len(made_up), "two headings have one UI"
    return "".join([*parts, "</PubmedArticleSet>\n"]), len(parts) - 1


def write(path: Path, text: str, encoding: str = "utf-8") -> int:
    """Write a file, compressed if its name ends with .gz; return the number of bytes of XML."""
    raw = text.encode(encoding, errors="xmlcharrefreplace")
    path.write_bytes(gzip.compress(raw, 4, mtime=0) if path.suffix == ".gz" else raw)
    return len(raw)


def run(
    scratch: Path,
    output: Path,
    *,
    records: int = 30_000,
    files: int = 10,
    updates: int = 2,
    seed: int = 0,
    plain: bool = False,
    mesh: bool = False,
    first: int | None = None,
    data: Path = DATA,
) -> Iterator[dict[str, Any]]:
    if mesh:
        text, n_records = mesh_text(data, first)
        yield {"files": 1, "records": n_records, "deletions": 0, "rows": n_records, "bytes": write(output, text)}
        return
    output.mkdir(parents=True, exist_ok=True)
    maker, stock, size = Maker(data), Stock(), 0
    for number in range(files):
        n_records = records * (number + 1) // files - records * number // files
        text = file_text(maker, stock, number, n_records, 0 < number >= files - updates, seed)
        path = output / f"pubmed99n{number + 1:04}.xml{'' if plain else '.gz'}"
        size += write(path, text, ENCODINGS.get(number % 10, "utf-8"))
    yield {"files": files, "records": stock.records, "deletions": stock.deletions, "rows": stock.rows, "bytes": size}
