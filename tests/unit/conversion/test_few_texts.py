"""Texts in memory become the same bits as with `convert --like`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.converted import made

from hpcml.conversion.text import FewTexts
from hpcml.conversion.vocabulary import TextSettings
from hpcml.data.dataset import DataFile
from hpcml.data.shard import read_slab
from hpcml.model.raw_input import RawInput

FIELDS = {"fields": ("title=T", "text=A", "journal=J"), "whole_fields": ("journal",)}
KINDS = {
    "plain": {},
    "binary": {"binary": True, "pairs": True},
    "fields and pairs": FIELDS | {"pairs": True, "min_df": 2},
    "headings": {"headings_as_features": True},
}
WORDS = ["ship", "Ship", "port", "ÄÖ", "ß", "x_y", "1st", "İ", "the", "a", "-", ",", "\n", "\x00", "\u2028", "日本", "new", "york"]
TEXTS = st.one_of(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join), st.text(max_size=30))
DOCUMENTS = st.lists(
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
@given(documents=DOCUMENTS.filter(len))
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
