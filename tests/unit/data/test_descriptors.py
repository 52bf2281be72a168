import gzip

import pytest

from hpcml.data.descriptors import Descriptor, read_descriptors
from hpcml.errors import DataError

XML = """<?xml version="1.0"?>
<!DOCTYPE DescriptorRecordSet SYSTEM "https://www.nlm.nih.gov/databases/dtd/nlmdescriptorrecordset_20260101.dtd">
<DescriptorRecordSet LanguageCode = "eng">
<DescriptorRecord DescriptorClass = "3">
  <DescriptorUI>D000001</DescriptorUI>
  <DescriptorName><String>Fruit &amp; Nuts</String></DescriptorName>
  <TreeNumberList><TreeNumber>A01</TreeNumber><TreeNumber>B02.100</TreeNumber></TreeNumberList>
  <ConceptList><Concept PreferredConceptYN="Y"><TermList>
    <Term><TermUI>T1</TermUI><String>Fruit &amp; Nuts</String></Term>
    <Term><TermUI>T2</TermUI><String>Produce, Dried</String></Term>
    <Term><TermUI>T3</TermUI><String>Shared Term</String></Term>
  </TermList></Concept></ConceptList>
</DescriptorRecord>
<DescriptorRecord DescriptorClass = "1">
  <DescriptorUI>D000002</DescriptorUI>
  <DescriptorName><String>Naïve
     Apples</String></DescriptorName>
  <ConceptList><Concept><TermList><Term><String>Shared Term</String></Term><Term><String>Fruit &amp; Nuts</String></Term>
  </TermList></Concept></ConceptList>
</DescriptorRecord>
</DescriptorRecordSet>
"""


def read(tmp_path, content, name="desc.xml"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_descriptors(path)


def refused(tmp_path, content, message):
    with pytest.raises(DataError, match=message) as error:
        read(tmp_path, content)
    assert str(tmp_path / "desc.xml") in str(error.value)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_xml(tmp_path, pack):
    found = read(tmp_path, pack(XML.encode()))
    assert found.by_identifier == {
        "D000001": Descriptor("Fruit & Nuts", ("A01", "B02.100"), "3", ("Produce, Dried", "Shared Term")),
        "D000002": Descriptor("Naïve Apples", (), "1", ("Shared Term", "Fruit & Nuts")),
    }
    assert found.titles(["D000002", "else"]) == ["Naïve Apples", ""]
    # the term of two descriptors names neither; a heading goes before a term
    assert found.identifiers == {"Produce, Dried": "D000001", "Fruit & Nuts": "D000001", "Naïve Apples": "D000002"}


def test_mapping_and_table(tmp_path):
    mapping = read(tmp_path, "\ufeffFruit & Nuts=D000001\n\nE=mc2 Apples=D000002\r\n")
    assert mapping.by_identifier == {"D000001": Descriptor("Fruit & Nuts"), "D000002": Descriptor("E=mc2 Apples")}
    table = read(tmp_path, "UI\tname\ttrees\nD000001\tFruit = Nuts\tA01;B02.100\nhttp://x/2\tApples\nD3\tPears\t\n")
    assert table.by_identifier == {
        "D000001": Descriptor("Fruit = Nuts", ("A01", "B02.100")),
        "http://x/2": Descriptor("Apples"),
        "D3": Descriptor("Pears"),
    }


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no descriptor"),
        ("<DescriptorRecordSet></DescriptorRecordSet>", "no descriptor"),
        ("no such thing\n", "line 1: 'no such thing', but expected name=UI"),
        ("Humans=\n", "line 1: '', but expected an identifier"),
        ("a=D1\nb=D1\n", "line 2: D1 is defined twice"),
        ("D1\ta\tA01\nD2\tb\tA1\n", "line 2: invalid tree number 'A1'"),
        (b"a=D1\n\xff=D2\n", "line 2: byte 1 is not UTF-8"),
        (b"x" * 70_000, "line 1: longer than 65536 bytes"),
        ("<PubmedArticleSet><PubmedArticle/></PubmedArticleSet>", "the root is PubmedArticleSet, but expected DescriptorRecordSet"),
        (XML[:-60], "record 2: damaged XML"),
        (XML.replace("<DescriptorUI>D000002", "<DescriptorUI><D000002"), "record 2: damaged XML"),
        (XML.replace("D000002", "D000001"), "record 2: D000001 is defined twice"),
        (XML.replace("D000002", ""), "record 2: '', but expected an identifier"),
        (XML.replace("B02.100", "B02.1"), "record 1: invalid tree number 'B02.1'"),
        (gzip.compress(XML.encode(), mtime=0)[:-30], "truncated or damaged"),
    ],
)
def test_damage(tmp_path, content, message):
    refused(tmp_path, content, message)


def test_entities_are_not_followed(tmp_path):
    (tmp_path / "secret").write_text("secret")
    entity = f'<!DOCTYPE DescriptorRecordSet [<!ENTITY x SYSTEM "file://{tmp_path}/secret">]>'
    text = XML.replace(XML.splitlines()[1], entity).replace("<String>Naïve", "<String>&x;Naïve")
    try:
        found = read(tmp_path, text).by_identifier["D000002"].name
    except DataError:
        return
    assert "secret" not in found
