"""PubMed XML: awkward and real records against an independent reader; revisions; damaged files; options."""

import gzip
import lzma
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.converted import check_refusal, converted
from support.pubmed_records import AWKWARD, deletion, document, heading, listed, part, read_apart, record

from hpcml import mpi
from hpcml.conversion import pubmed
from hpcml.conversion.conversion import BadRecords
from hpcml.conversion.pubmed import CHECK_TAGS, entries
from hpcml.data.dataset import DataFile

DATA = os.environ.get("HPCML_DATA")
TOP = Path(__file__).parents[3]
real = pytest.mark.skipif(not DATA, reason="HPCML_DATA names no folder with real data")


def make(folder, *contents, **options):
    paths = []
    for number, content in enumerate(contents):
        paths.append(folder / f"in{number}.xml")
        paths[-1].write_bytes(content)
    return convert(folder, paths, **options)


def convert(folder, paths, **options):
    converted("pubmed", paths, folder / "out.h5", **options)
    return folder / "out.h5"


def flat(text):
    return " ".join(text.split())


def read_here(path):
    found = []
    for each in entries(path, 1 << 24, BadRecords()):
        found.append(
            {
                "pmid": str(each.key.pmid),
                "title": flat(each.title),
                "abstract": list(map(flat, each.abstract)),
                "journal": flat(each.journal),
                "year": each.year,
                "headings": list(map(tuple, each.headings)),
                "indexing": each.indexing,
            }
        )
    return found


def rows_of(path):
    with DataFile(path) as data:
        file = data.file
        names, labels, ids = data.strings("feature_names"), data.label_names(), data.strings("row_ids")
        X, Y = ((file[f"{name}/indptr"][:], file[f"{name}/indices"][:]) for name in "XY")
        splits = {row: name for name in data.split_names() for row in data.split(name).tolist()}
        return {
            row_id: (
                {names[j] for j in X[1][X[0][row] : X[0][row + 1]]},
                {labels[j] for j in Y[1][Y[0][row] : Y[0][row + 1]]},
                splits.get(row),
                int(file["rows/year"][row]),
                int(file["rows/indexing"][row]),
            )
            for row, row_id in enumerate(ids)
        }


def values(each):
    found = {f"{value} A" for value in each["abstract"]}
    found |= {f"{each[name]} {tag}" for name, tag in (("title", "T"), ("journal", "J")) if each[name]}
    return found | ({f"{each['year']} Y"} if each["year"] else set())


def check_rows(path, expected):
    found = rows_of(path)
    assert list(found) == [each["pmid"] for each in expected]
    in_training = set().union(*(values(each) for each in expected if each["headings"] and each["indexing"] != "Automated"))
    for each in expected:
        features, labels, split, year, indexing = found[each["pmid"]]
        assert features == values(each) & in_training, each
        assert labels == {ui for ui, _, _ in each["headings"]}
        people = "automated" if each["indexing"] == "Automated" else "train"
        assert split == (people if each["headings"] else "unindexed")
        assert (year, indexing) == (each["year"], ["", "Curated", "Automated", "Guessed"].index(each["indexing"]))


WHOLE = {
    "fields": ("title=T", "abstract=A", "journal=J", "year=Y"),
    "whole_fields": ("title", "abstract", "journal", "year"),
    "binary": True,
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_awkward_records_in_a_dataset(tmp_path, encoding):
    content = document("\n".join(AWKWARD.values()), encoding)
    check_rows(make(tmp_path, content, **WHOLE), read_apart(document("\n".join(AWKWARD.values()))))


def test_awkward_records_are_read_as_by_an_independent_reader(tmp_path):
    path = tmp_path / "all.xml"
    path.write_bytes(document("\n".join(AWKWARD.values())))
    found = dict(zip(AWKWARD, read_here(path), strict=True))
    assert list(found.values()) == read_apart(path.read_bytes())
    assert found["markup in markup"]["title"] == "A very deep point here ends"
    assert found["MathML in a title"]["title"] == "Let alpha=103 hold"
    assert found["CDATA"]["title"] == "a < b & <i>c</i> d"
    assert found["a label UNLABELLED"]["abstract"] == ["one", "RESULTS: two"]
    assert found["a section without text"]["abstract"] == ["RESULTS: two"]
    assert found["MedlineDate"]["year"] == 1998 and found["MedlineDate with a season first"]["year"] == 1976
    assert found["the years of other dates"]["year"] == 0
    assert found["qualifiers"]["headings"] == [("D000001", "Name one", True), ("D000002", "Two", False)]
    assert found["leading zeros"]["pmid"] == "157" and found["a PMID of a comment"]["pmid"] == "159"


@real
def test_real_records(tmp_path):
    path = Path(DATA) / "pubmed_sample.xml.xz"
    expected = read_apart(lzma.decompress(path.read_bytes()))
    assert len(expected) == 292 and read_here(path) == expected
    check_rows(convert(tmp_path, [path], **WHOLE), expected)


def test_titles_and_choice_of_headings(tmp_path):
    content = document(AWKWARD["check tags"] + AWKWARD["only check tags"] + AWKWARD["a major topic"])
    with DataFile(make(tmp_path, content)) as data:
        assert dict(zip(data.label_names(), data.label_titles(), strict=True)) == {
            "D000001": "Name one", "D000003": "Three", "D000004": "Four", "D006801": "Humans", "D008297": "Male"
        }  # fmt: skip
    found = rows_of(make(tmp_path, content, no_check_tags=True))
    assert [found[pmid][1:3] for pmid in ("146", "147")] == [({"D000004"}, "train"), (set(), "train")]
    assert [labels for _, labels, *_ in rows_of(make(tmp_path, content, major_topics=True)).values()] == [set(), set(), {"D000001"}]
    assert len(CHECK_TAGS) == 24
    (tmp_path / "list.txt").write_text("Other name=D000001\nMy Three=D000003\n")
    with DataFile(make(tmp_path, content, descriptors=tmp_path / "list.txt")) as data:
        assert data.label_titles() == ["Other name", "My Three", "Four", "Humans", "Male"]


def test_headings_without_ui_are_looked_up(tmp_path):
    old = record(1, mesh=listed(heading("D000001", "Dogs"))).replace(' UI="D000001"', "")
    check_refusal(lambda: make(tmp_path, document(old)), "in0.xml: PMID 1", "--descriptors")
    (tmp_path / "list.txt").write_text("Dogs=D004285\n")
    assert rows_of(make(tmp_path, document(old), descriptors=tmp_path / "list.txt"))["1"][1] == {"D004285"}


def test_revisions(tmp_path):
    first = document("".join(record(pmid, f"first {pmid}") for pmid in range(1, 9)) + record(3, "second 3", version=' Version="2"'))
    second = document(
        record(2, "later 2") + record(3, "later first 3") + record(9, "new 9") + deletion((4, 1), (3, 2), (5, 2), (6, 1))
    )
    third = document(record(6, "again 6", mesh=listed(heading("D000099", "Ninety-nine"))) + deletion((9, 1)))
    found = rows_of(make(tmp_path, first, second, third))
    assert {pmid: features for pmid, (features, *_) in found.items()} == {
        "1": {"1", "first"}, "5": {"5", "first"}, "7": {"7", "first"}, "8": {"8", "first"},
        "2": {"later", "2"}, "3": {"later", "3", "first"}, "6": {"again", "6"},
    }  # fmt: skip
    assert list(found) == ["1", "5", "7", "8", "2", "3", "6"]
    assert found["6"][1] == {"D000099"}
    with DataFile(make(tmp_path, first, document(deletion(*((pmid, 1) for pmid in (1, 8)))))) as data:
        assert data.strings("row_ids") == ["2", "4", "5", "6", "7", "3"] and "first 8" not in data.strings("feature_names")
        assert "D000002" not in data.label_names()  # of 1 and 8 only


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 3), st.booleans()), max_size=40))
def test_latest_records_are_selected(events):
    state, place, keys = {}, 0, np.array([pubmed.record_key(*event) for event in events], dtype=np.int64)
    for pmid, version, deleted in events:
        if deleted:
            state.pop((pmid, version), None)
        else:
            state[pmid, version] = place
            place += 1
    best = {pmid: max(version for other, version in state if other == pmid) for pmid, _ in state}
    expected = np.zeros(place, dtype=bool)
    expected[[state[pmid, version] for pmid, version in best.items()]] = True
    assert pubmed.select_latest(mpi.self_comm(), keys).tolist() == expected.tolist()
    assert pubmed.VERSION_BITS == 20


def test_test_years_and_share(tmp_path):
    years = {1: 1999, 2: 2005, 3: 2010, 4: 2020}
    rows = [record(pmid, f"w{pmid}", date=f"<Year>{year}</Year>") for pmid, year in years.items()]
    rows.append(record(5, date="<Year>2020</Year>", IndexingMethod="Automated"))
    rows.append(record(6, date="<Year>2020</Year>", mesh=""))
    rows.append(record(7, date=None))
    content = document("".join(rows))

    def splits(**options):
        return {int(pmid): row[2] for pmid, row in rows_of(make(tmp_path, content, **options)).items()}

    always = {6: "unindexed", 7: "train"}
    found = splits(test_years=("2005-2010",))
    assert found == always | {1: "train", 2: "test", 3: "test", 4: "train", 5: "automated"}
    assert splits(test_years=("1999,2020-",)) == always | {1: "test", 2: "train", 3: "train", 4: "test", 5: "test-automated"}
    shared = splits(test_share=0.5, seed=1)
    assert {shared[row] for row in (1, 2, 3, 4, 7)} == {"train", "test"} and shared[6] == "unindexed"
    for options, words in (
        ({"test_years": ("20x",)}, "--test-years 20x"),
        ({"test_years": ("2010-2005",)}, "--test-years 2010-2005"),
        ({"test_years": ("1950",)}, "--test-years 1950"),
        ({"fields": ("title", "doi")}, "--fields doi"),
    ):
        check_refusal(lambda options=options: splits(**options), words)
    check_refusal(lambda: make(tmp_path, document(rows[4] + rows[5])), "--like")


def test_like(tmp_path):
    train = tmp_path / "train.h5"
    make(tmp_path, document(AWKWARD["structured"] + AWKWARD["check tags"])).rename(train)
    new = document(record(900, "one two new", mesh="") + record(901, "three", mesh=listed(heading("D006801", "Human beings"))))
    found = rows_of(make(tmp_path, new, like=train))
    assert found["900"][:3] == ({"one", "two"}, set(), "unindexed") and found["901"][1] == {"D006801"}
    with DataFile(tmp_path / "out.h5") as data, DataFile(train) as other:
        assert data.label_titles() == other.label_titles()


GOOD = document("".join(record(pmid, f"t{pmid}") for pmid in range(1, 401)))
ENTITIES = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BAD = {  # content, location
    "truncated": (GOOD[: len(GOOD) // 2], "record 20"),
    "tags that do not match": (document(record(1) + "<PubmedArticle><a></b></PubmedArticle>"), "record 2"),
    "cut after the last record": (GOOD.replace(b"</PubmedArticleSet>", b""), "record 401"),
    "truncated gz": (gzip.compress(GOOD)[:-500], "after record"),
    "another root": (document("<a/>", root="DescriptorRecordSet", doctype=""), "<DescriptorRecordSet>"),
    "no root": (b"<a>" + b"<b>x</b>" * 300_000, ""),
    "an entry without end": (document("<Foo>x</Foo>" * 200_000), "record 1"),
    "empty": (b"", "empty"),
    "JSON": (b'{"a": 1}', ""),
    "no PMID": (document(record(1) + record(2).replace('<PMID Version="1">2</PMID>', "")), "record 2"),
    "a PMID that is not a number": (document(record(1).replace(">1</PMID>", ">x7</PMID>")), "record 1 (PMID 'x7')"),
    "a version of 0": (document(record(1, version=' Version="0"')), "record 1"),
    "no article": (document("<PubmedArticle><MedlineCitation><PMID>3</PMID></MedlineCitation></PubmedArticle>"), "<Article>"),
    "an unknown entity": (document(record(1, "a&nbsp;b")), "nbsp"),
    "a file of the system": (
        document(record(1, "&x;"), doctype='<!DOCTYPE PubmedArticleSet [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
        "",
    ),
    "a bomb of entities": (
        document(record(1, "&l9;"), doctype=f'<!DOCTYPE PubmedArticleSet [<!ENTITY l0 "lololo">{ENTITIES}]>'),
        "record 1",
    ),
    "bytes that are not UTF-8": (document(record(1)).replace(b"A title", b"A \xff title"), "record 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_damaged_file_is_refused(tmp_path, case):
    content, location = BAD[case]
    check_refusal(lambda: make(tmp_path, document(record(1)), content, max_line_mb=1), "in1.xml", location)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in0.xml", "in1.xml"]


PEAK = """
import resource, sys
from pathlib import Path
from hpcml.conversion.pubmed import entries
from hpcml.conversion.conversion import BadRecords
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
print(sum(1 for _ in entries(Path(sys.argv[1]), 1 << 20, BadRecords())), peak() - before)
"""


def test_memory_is_bounded_by_a_record(tmp_path):
    path = tmp_path / "many.xml"
    path.write_bytes(document("".join(record(pmid, abstract=part("word " * 200)) for pmid in range(1, 5001))))
    done = subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True)
    n_entries, grown = map(int, done.stdout.split())
    assert n_entries == 5000
    assert grown < 16 << 10  # KiB; the tree of it all takes 30 MB and more
