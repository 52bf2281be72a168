# ruff: noqa: E501
"""Awkward records of PubMed, by name, written for the tests; and an independent reader: xml.etree and simple rules."""

import re
import xml.etree.ElementTree as ET

HEADS = '<MeshHeadingList><MeshHeading><DescriptorName UI="D{0:06}" MajorTopicYN="N">Name {0}</DescriptorName></MeshHeading></MeshHeadingList>'
DATE = "<JournalIssue><PubDate>{}</PubDate></JournalIssue>"


def record(
    pmid,
    title="A title",
    abstract="",
    journal="<Title>J</Title>",
    date="<Year>2001</Year>",
    mesh=None,
    version=' Version="1"',
    **attrs,
):
    mesh = HEADS.format(pmid % 7 + 1) if mesh is None else mesh
    method = "".join(f' {name}="{value}"' for name, value in attrs.items())
    issue = DATE.format(date) if date is not None else ""
    return (
        f'<PubmedArticle><MedlineCitation Status="MEDLINE"{method}><PMID{version}>{pmid}</PMID><Article>'
        f"<Journal>{issue}{journal}</Journal>{'' if title is None else f'<ArticleTitle>{title}</ArticleTitle>'}"
        f"{f'<Abstract>{abstract}</Abstract>' if abstract else ''}<AuthorList><Author><LastName>Nobody</LastName></Author></AuthorList>"
        f"</Article>{mesh}<KeywordList><Keyword>unread</Keyword></KeywordList></MedlineCitation>"
        '<PubmedData><ArticleIdList><ArticleId IdType="pubmed">999</ArticleId></ArticleIdList></PubmedData></PubmedArticle>'
    )


def part(text, label=None):
    return f"<AbstractText{'' if label is None else f' Label={chr(34)}{label}{chr(34)} NlmCategory={chr(34)}METHODS{chr(34)}'}>{text}</AbstractText>"


def heading(ui, name, major="N", *qualifiers):
    found = "".join(f'<QualifierName UI="Q1" MajorTopicYN="{each}">q</QualifierName>' for each in qualifiers)
    return f'<MeshHeading><DescriptorName UI="{ui}" MajorTopicYN="{major}">{name}</DescriptorName>{found}</MeshHeading>'


def listed(*headings):
    return f"<MeshHeadingList>{''.join(headings)}</MeshHeadingList>"


MATH = (
    '<mml:math xmlns:mml="http://www.w3.org/1998/Math/MathML"><mml:mi>alpha</mml:mi><mml:mo>=</mml:mo>'
    "<mml:msup><mml:mn>10</mml:mn><mml:mn>3</mml:mn></mml:msup></mml:math>"
)
AWKWARD = {
    "italic in a title": record(101, "The <i>BRCA1</i> gene"),
    "a title that begins with markup": record(102, "<i>Drosophila</i> wings"),
    "a title that is only markup": record(103, "<b>Everything</b>"),
    "markup in markup": record(104, "A <i>very <b>deep <sup>point</sup></b> here</i> ends"),
    "subscript within a word": record(105, "H<sub>2</sub>O and CO<sub>2</sub>"),
    "superscript": record(106, "10<sup>-3</sup> mol"),
    "MathML in a title": record(107, f"Let {MATH} hold"),
    "MathML in an abstract": record(108, abstract=part(f"We see {MATH}, always.")),
    "a comment within a word": record(110, "foo<!-- not text -->bar"),
    "a processing instruction": record(111, "left<?layout break?>right"),
    "CDATA": record(112, "<![CDATA[a < b & <i>c</i>]]> d"),
    "entities": record(113, "a &amp; b &lt; c &gt; d &quot;e&quot; &apos;f&apos;"),
    "letters as numbers": record(114, "&#945;-synuclein &#x3b2;-catenin"),
    "no title": record(119, None, part("only an abstract")),
    "an empty title": record(120, "", part("only an abstract again")),
    "a title of white space": record(121, "  \n  ", part("abstract text")),
    "neither title nor abstract": record(122, None),
    "an empty abstract": record(124, "t", part("")),
    "structured": record(125, abstract=part("one", "AIM") + part("two", "METHODS") + part("three", "RESULTS")),
    "partly structured": record(126, abstract=part("begin") + part("two", "METHODS")),
    "a label UNLABELLED": record(127, abstract=part("one", "UNLABELLED") + part("two", "RESULTS")),
    "a section without text": record(129, abstract=part("", "AIM") + part("two", "RESULTS")),
    "a section of markup": record(132, abstract=part("<i>all</i><b>bold</b>", "AIM")),
    "MedlineDate": record(135, date="<MedlineDate>1998 Dec-1999 Jan</MedlineDate>"),
    "MedlineDate with a season first": record(136, date="<MedlineDate>Winter 1976-1977</MedlineDate>"),
    "a year of the article": record(137, date="<Season>Spring</Season>").replace(
        "<AuthorList>", "<ArticleDate><Year>2011</Year></ArticleDate><AuthorList>"
    ),
    "no year": record(138, date=None),
    "the years of other dates": record(139, date=None).replace("<Article>", "<DateRevised><Year>1999</Year></DateRevised><Article>"),
    "no journal": record(140, journal=""),
    "a journal by its abbreviation": record(141, journal="<ISOAbbreviation>J Abbr</ISOAbbreviation>"),
    "a journal with markup": record(142, journal="<Title>Journal &amp; <i>Review</i>\n  of B</Title>"),
    "qualifiers": record(143, mesh=listed(heading("D000001", "Name one", "N", "N", "Y"), heading("D000002", "Two", "N", "N"))),
    "a major topic": record(144, mesh=listed(heading("D000001", "Name one", "Y"), heading("D000003", "Three"))),
    "a heading twice": record(145, mesh=listed(heading("D000001", "Name one"), heading("D000001", "Name one", "Y"))),
    "check tags": record(146, mesh=listed(heading("D006801", "Humans"), heading("D008297", "Male"), heading("D000004", "Four"))),
    "only check tags": record(147, mesh=listed(heading("D006801", "Humans"))),
    "no headings": record(148, mesh=""),
    "a heading over two lines": record(150, mesh=listed(heading("D000005", "Name\n   five"))),
    "a UI of nine digits": record(151, mesh=listed(heading("D000068877", "Imatinib Mesylate"))),
    "indexed by a machine": record(152, IndexingMethod="Automated"),
    "curated": record(153, IndexingMethod="Curated"),
    "another method": record(154, IndexingMethod="Guessed"),
    "by a machine, without headings": record(155, mesh="", IndexingMethod="Automated"),
    "a PMID with white space": record(" 156 ".strip() and 156).replace(">156<", ">\n  156 <"),
    "leading zeros": record(157).replace(">157<", ">000157<"),
    "no version": record(158, version=""),
    "a PMID of a comment": record(159).replace("<KeywordList>", '<CommentsCorrectionsList><CommentsCorrections><PMID Version="1">7</PMID></CommentsCorrections></CommentsCorrectionsList><KeywordList>'),
}  # fmt: skip


def document(inner, encoding="utf-8", root="PubmedArticleSet", doctype="<!DOCTYPE PubmedArticleSet>"):
    text = f'<?xml version="1.0" encoding="{encoding}"?>\n{doctype}\n<{root}>\n{inner}\n</{root}>\n'
    return text.encode(encoding, errors="xmlcharrefreplace")


def deletion(*keys):
    return f"<DeleteCitation>{''.join(f'<PMID Version={chr(34)}{version}{chr(34)}>{pmid}</PMID>' for pmid, version in keys)}</DeleteCitation>"


def _text(element):
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def read_apart(content, check_tags=()):
    found = []
    for citation in ET.fromstring(content).iter("MedlineCitation"):
        article = citation.find("Article")
        sections = []
        for each in article.findall("Abstract/AbstractText"):
            label = (each.get("Label") or "").strip()
            if _text(each):
                sections.append(f"{label}: {_text(each)}" if label and label not in ("UNLABELLED", "UNLABELED") else _text(each))
        dates = [article.find("Journal/JournalIssue/PubDate/Year"), article.find("Journal/JournalIssue/PubDate/MedlineDate")]
        years = [re.findall(r"\b(?:1[5-9]|20)\d\d\b", _text(date)) for date in (*dates, article.find("ArticleDate/Year"))]
        headings = []
        for each in citation.findall("MeshHeadingList/MeshHeading"):
            name = each.find("DescriptorName")
            major = "Y" in [part.get("MajorTopicYN") for part in each]
            headings.append((name.get("UI"), _text(name), major))
        found.append(
            {
                "pmid": str(int(_text(citation.find("PMID")))),
                "title": _text(article.find("ArticleTitle")),
                "abstract": sections,
                "journal": _text(article.find("Journal/Title")) or _text(article.find("Journal/ISOAbbreviation")),
                "year": next((int(year[0]) for year in years if year), 0),
                "headings": headings,
                "indexing": citation.get("IndexingMethod") or "",
            }
        )
    return found
