"""Words, pairs, weights, fields and vocabularies, against scikit-learn and a slow implementation."""

import json

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from anndata.io import read_elem
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from support.converted import check_refusal, converted, made
from support.edits import attributes, edit
from support.oracles_text import slow_rows

from hpcml import mpi
from hpcml.conversion import text as text_module
from hpcml.conversion import vocabulary as terms_module
from hpcml.conversion.text import FewTexts
from hpcml.conversion.vocabulary import PLAIN, Field, TextSettings, as_texts, parse_fields
from hpcml.data.dataset import DataFile
from hpcml.data.info import info
from hpcml.data.shard import read_slab
from hpcml.errors import DataError
from hpcml.model.raw_input import RawInput
from hpcml.options import split_record

DOCUMENTS = [
    {"title": "Cats and dogs", "text": "The cat sat, the dog ran. Über-cat x_y!", "labels": ["pets"], "split": "train"},
    {"text": "the the the stock market; the stock fell 3.5 percent", "labels": ["money", "pets"], "split": "train"},
    {"text": "the market ran\nand the\tdog sat", "labels": ["money"], "split": "train"},
    {"text": "the unknown cat of the stock market", "labels": [], "split": "test"},
    {"text": "", "labels": ["money"], "split": "test"},
]


def make(folder, documents, name="data", **options):
    report, path = made(folder, "jsonl", documents, name, **options)
    return report, h5py.File(path, locking=False)  # as hpcml opens it


def features(file):
    return list(file["feature_names"].asstr()[:])


@pytest.mark.parametrize(
    ("pairs", "binary", "min_df", "stop_words"),
    [(False, False, 1, []), (True, False, 1, ["the", "and"]), (True, True, 2, []), (True, False, 2, ["the"])],
)
@pytest.mark.parametrize("block_tokens", [1, 12])
def test_rows_are_as_defined(tmp_path, monkeypatch, pairs, binary, min_df, stop_words, block_tokens):
    monkeypatch.setattr(text_module, "BLOCK_TOKENS", block_tokens)
    monkeypatch.setattr(terms_module, "RUN_WORDS", block_tokens)  # every block is a run, or some, or one is
    for name in ("RANGE_WORDS", "CHUNK_WORDS", "SAMPLE", "RUN_KEYS", "RANGE_KEYS"):
        monkeypatch.setattr(terms_module, name, block_tokens)
    (tmp_path / "stop").write_text("\n".join(stop_words))
    report, file = make(tmp_path, DOCUMENTS, pairs=pairs, binary=binary, min_df=min_df, stop_words=tmp_path / "stop")
    names, rows = slow_rows(DOCUMENTS, PLAIN, pairs, stop_words, min_df, binary)
    with file:
        assert features(file) == names
        X = read_elem(file["X"])
        np.testing.assert_allclose(X.toarray(), rows, rtol=3e-7, atol=0)
        assert X.nnz == np.count_nonzero(rows) == report.nnz
        assert X.has_sorted_indices
        assert list(file["label_names"].asstr()) == ["money", "pets"]
        assert read_elem(file["Y"]).toarray().tolist() == [[0, 1], [1, 1], [1, 0], [0, 0], [1, 0]]
        assert dict(file["text"].attrs) == {
            "weighting": "binary" if binary else "log-idf",
            "pairs": pairs,
            "min_df": min_df,
            "n_documents": 3,
        }
        assert list(file["text/stop_words"].asstr()) == sorted(stop_words)
        assert ("text/idf" in file) == (not binary)


@given(
    texts=st.lists(st.text("ab1 .,_\nÀßİ\u0301", max_size=30), min_size=1, max_size=6),
    pairs=st.booleans(),
    min_df=st.integers(1, 2),
)
def test_any_text(tmp_path_factory, texts, pairs, min_df):
    documents = [{"text": text, "labels": ["x"]} for text in texts]
    names, rows = slow_rows(documents, PLAIN, pairs, (), min_df)
    folder = tmp_path_factory.getbasetemp()
    if not names:
        with pytest.raises(DataError, match="no word"):
            make(folder, documents, pairs=pairs, min_df=min_df)
        return
    _, file = make(folder, documents, pairs=pairs, min_df=min_df)
    with file:
        assert features(file) == names
        np.testing.assert_allclose(read_elem(file["X"]).toarray(), rows, rtol=3e-7, atol=0)


def test_against_scikit_learn(data_dir, tmp_path):
    import lzma

    with lzma.open(data_dir / "20newsgroups.jsonl.xz", "rt", encoding="utf-8") as lines:
        documents = [json.loads(line) for line, _ in zip(lines, range(100), strict=False)]
    _, file = make(tmp_path, documents)
    train = np.array([document["split"] == "train" for document in documents])
    if not train.any():
        train[:] = True
    texts = [f"{document['title']} . {document['text']}" for document in documents]
    vectorizer = CountVectorizer(token_pattern=r"[^\W_]+").fit(np.array(texts, dtype=object)[train])
    counts = vectorizer.transform(texts).astype(np.float64)
    df = np.bincount(counts[train].indices, minlength=counts.shape[1])
    counts.data = np.log1p(counts.data) * np.log(train.sum() / df)[counts.indices]
    norms = np.sqrt(counts.multiply(counts).sum(axis=1)).A1
    with file:
        assert features(file) == list(vectorizer.get_feature_names_out())
        assert abs(read_elem(file["X"]) - sp.diags(1 / norms) @ counts).max() < 1e-7


def test_like_gives_the_same_rows(tmp_path):
    (tmp_path / "stop").write_text("and\n")
    _, whole = make(tmp_path, DOCUMENTS, "whole", pairs=True, stop_words=tmp_path / "stop")
    tests = [{**document, "labels": [*document["labels"], "new"], "split": ""} for document in DOCUMENTS[3:]]
    report, again = make(tmp_path, tests, "test", like=tmp_path / "whole.h5")
    with whole, again:
        assert (again["X/data"][:] == whole["X/data"][-report.nnz :]).all()
        assert (again["X/indices"][:] == whole["X/indices"][-report.nnz :]).all()
        for name in ("feature_names", "label_names", "text/idf", "text/stop_words"):
            assert (again[name][:] == whole[name][:]).all()
        assert dict(again["text"].attrs) == dict(whole["text"].attrs)
        assert again.attrs["vocabulary"] == whole.attrs["vocabulary"]
    assert report.dropped_values == 2  # "unknown" and "of"
    assert report.unknown_entries == 2


def test_like_of_numbers_and_of_text(tmp_path):
    (tmp_path / "a.svm").write_text("1 1:1\n")
    converted("svmlight", tmp_path / "a.svm", tmp_path / "a.h5")
    check_refusal(lambda: make(tmp_path, DOCUMENTS, like=tmp_path / "a.h5"), "--like", "a.h5")
    make(tmp_path, DOCUMENTS, "whole")
    check_refusal(
        lambda: converted("svmlight", tmp_path / "a.svm", tmp_path / "b.h5", like=tmp_path / "whole.h5"), "--like", "whole.h5"
    )


def test_stop_words_are_tokenised(tmp_path):
    (tmp_path / "stop").write_text("Don't\n\nÜBER\n", encoding="utf-8")
    assert text_module.read_stop_words(tmp_path / "stop") == ["don", "t", "über"]
    (tmp_path / "stop").write_bytes(b"a\n\xff\n")
    check_refusal(lambda: make(tmp_path, DOCUMENTS, stop_words=tmp_path / "stop"), "stop: byte 3")


FIELDS = {"fields": ("title=T", "text=A", "journal=J"), "whole_fields": ("journal",)}
KINDS = {
    "plain": {},
    "binary": {"binary": True, "pairs": True},
    "fields and pairs": FIELDS | {"pairs": True, "min_df": 2},
    "headings": {"headings_as_features": True},
}
WORDS = ["ship", "Ship", "port", "ÄÖ", "ß", "x_y", "1st", "İ", "the", "a", "-", ",", "\n", "\x00", "\u2028", "日本", "new", "york"]
TEXTS = st.one_of(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), st.text(max_size=30))
DOCUMENTS_IN_MEMORY = st.lists(
    st.fixed_dictionaries({"title": TEXTS, "text": TEXTS, "journal": TEXTS.filter(lambda t: "\0" not in t)}), max_size=5
)


@pytest.fixture(scope="module", params=sorted(KINDS))
def known(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("known")
    rng = np.random.default_rng(3)
    documents = [
        {
            "title": " ".join(rng.choice(WORDS[:8], 3)),
            "text": " ".join(rng.choice([word for word in WORDS if word != "\0"], 9)),
            "journal": str(rng.choice(["New  York", "-"])),
            "labels": ["a" if number % 2 else "b"],
        }
        for number in range(40)
    ]
    (folder / "stop").write_text("the\na\n")
    _, path = made(folder, "jsonl", documents, "train", stop_words=folder / "stop", **KINDS[request.param])
    with DataFile(path) as dataset:
        return path, folder, FewTexts(TextSettings.of(RawInput.of_dataset(dataset), path), dataset.n_labels)


@settings(max_examples=8)
@given(documents=DOCUMENTS_IN_MEMORY.filter(len))
def test_bits_are_those_of_convert_like(known, documents):
    path, folder, rows_of = known
    _, like = made(folder, "jsonl", documents, "like", like=path)
    fields = rows_of.settings.fields
    found = rows_of([[[document[field.name]] if document[field.name] else [] for field in fields] for document in documents])
    with DataFile(like) as dataset:
        expected = read_slab(dataset, np.arange(dataset.n_rows), 0, dataset.n_rows)
    assert found.indptr.tolist() == expected.indptr.tolist()
    assert found.indices.tolist() == expected.indices.tolist() and found.indices.dtype == expected.indices.dtype
    assert np.asarray(found.data, np.float32).tobytes() == np.asarray(expected.data, np.float32).tobytes()
    one_by_one = [rows_of([values]) for values in [[[d[f.name]] if d[f.name] else [] for f in fields] for d in documents]]
    assert b"".join(one.data.tobytes() for one in one_by_one) == found.data.tobytes()


SELF = mpi.self_comm()
DOCUMENTS_WITH_FIELDS = [
    {
        "title": "Quake in Haiti",
        "text": "the quake, the quake. Haiti",
        "journal": "Disasters",
        "keys": ["New York", "quake"],
        "labels": [],
    },
    {"title": "New York", "text": "a quake", "journal": "New  York ", "keys": ["york city"], "labels": ["a"]},
    {"text": "york new york", "journal": ["Disasters", "T"], "keys": None, "labels": ["a", "b"]},
    {"title": "", "text": "no field but this", "keys": [], "labels": []},
]
FOUR_FIELDS = ("title=T", "text=A", "journal=J", "keys")
WHOLE = {"journal"}


def make_with_fields(folder, *documents_and_name, **options):
    return made(folder, "jsonl", *documents_and_name, **options)


@pytest.mark.parametrize(("pairs", "binary", "min_df"), [(False, False, 1), (True, False, 2), (True, True, 1)])
def test_rows_are_as_defined_with_fields(tmp_path, pairs, binary, min_df):
    report, path = make_with_fields(
        tmp_path,
        DOCUMENTS_WITH_FIELDS,
        pairs=pairs,
        binary=binary,
        min_df=min_df,
        fields=FOUR_FIELDS,
        whole_fields=("journal",),
    )
    names, rows = slow_rows(DOCUMENTS_WITH_FIELDS, parse_fields(FOUR_FIELDS, WHOLE), pairs, (), min_df, binary)
    with h5py.File(path, locking=False) as file:
        found, X = list(file["feature_names"].asstr()[:]), read_elem(file["X"]).toarray()
        assert file["text"].attrs["fields"] == "title=T,text=A,journal=J,keys=keys"
        assert file["text"].attrs["whole_fields"] == "journal"
    assert (sorted(found), report.features) == (names, len(names))
    np.testing.assert_allclose(X, rows[:, [names.index(name) for name in found]], rtol=3e-7, atol=0)


@pytest.mark.parametrize("pairs", [True])
def test_new_documents_have_the_same_fields(tmp_path, pairs):
    (tmp_path / "stop").write_text("the\na\n")
    options = {"fields": FOUR_FIELDS, "whole_fields": ("journal",), "pairs": pairs, "stop_words": tmp_path / "stop"}
    _, path = make_with_fields(tmp_path, DOCUMENTS_WITH_FIELDS, **options)
    _, again = make_with_fields(tmp_path, DOCUMENTS_WITH_FIELDS, "again", like=path)
    with DataFile(path) as one, DataFile(again) as two:
        assert one.strings("feature_names") == two.strings("feature_names")
        assert not {"the A", "a A"} & set(one.strings("feature_names"))
        for name in ("X/indptr", "X/indices", "X/data"):
            assert np.array_equal(one.map(name), two.map(name))
    report, few = make_with_fields(
        tmp_path, [{"title": "Unheard york", "journal": "York"}, {"journal": "Disasters"}], "few", like=path
    )
    assert report.dropped_values == 2
    with DataFile(few) as dataset:
        names = dataset.strings("feature_names")
        assert [names[j] for j in dataset.map("X/indices")] == ["york T", "Disasters J"]
    assert "fields title=T,text=A,journal=J,keys=keys" in info(SELF, path, [1])


def test_fields_are_parsed():
    given = ("title=T", "text", "a b=x.y")
    fields = parse_fields(given, ("text",))
    assert fields == (Field("title", "T"), Field("text", "text", True), Field("a b", "x.y"))
    assert as_texts(fields) == ("title=T,text=text,a b=x.y", "text")
    quoted = parse_fields(split_record('" a, ""b""=T", c=U', strip=True), (' a, "b"',))
    assert quoted == (Field(' a, "b"', "T", True), Field("c", "U"))
    assert parse_fields(*(split_record(text, strip=True) for text in as_texts(quoted))) == quoted
    assert parse_fields(*map(split_record, as_texts(fields))) == fields


@pytest.mark.parametrize(
    "fields",
    [
        ["title", "", "text"],
        [""],
        ["title="],
        ["labels"],
        ["a b"],
        ["a=x=y"],
        ["a=b\u2003c"],
        ["title", "text=title"],
        ["title=A", "title=B"],
    ],
)
def test_ambiguous_fields_are_refused(tmp_path, fields):
    check_refusal(lambda: make_with_fields(tmp_path, DOCUMENTS_WITH_FIELDS, fields=fields), "--fields")
    check_refusal(
        lambda: make_with_fields(tmp_path, DOCUMENTS_WITH_FIELDS, fields=["title"], whole_fields=["titel"]),
        "--whole-fields titel",
        "'title'",
    )


def test_fields_without_values_and_fields_of_other_sources_are_refused(tmp_path):
    check_refusal(
        lambda: make_with_fields(tmp_path, DOCUMENTS_WITH_FIELDS, fields=("text", "jurnal")), "--fields jurnal", "journal"
    )
    _, path = make_with_fields(tmp_path, DOCUMENTS_WITH_FIELDS, "like")
    check_refusal(lambda: make_with_fields(tmp_path, DOCUMENTS_WITH_FIELDS, fields=("text",), like=path), "--fields text", "--like")
    check_refusal(lambda: converted("docstrings", [], tmp_path / "x.h5", fields=("text", "journal")), "--fields journal")


def test_new_documents_without_a_field_cause_a_warning(tmp_path, capsys):
    _, path = make_with_fields(tmp_path, DOCUMENTS_WITH_FIELDS, fields=("title", "text"))
    make_with_fields(tmp_path, [{"title": "wheat", "Text": "corn"}, {"title": "corn"}], "new", like=path, told=True)
    assert "field text of --like" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["title=T,text=A,journal=J", "title=T,,", "x=y", 3])
def test_damaged_list_of_fields_is_refused(tmp_path, damage):
    _, path = make_with_fields(tmp_path, DOCUMENTS_WITH_FIELDS, fields=FOUR_FIELDS)
    edit(path, attributes({"fields": damage}, "text"))
    check_refusal(lambda: make_with_fields(tmp_path, DOCUMENTS_WITH_FIELDS, "again", like=path), str(path))
