"""Conversion on any number of ranks: the same bytes, the same errors, and no files after a failure."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.converted import convert_on, converted_alike

from hpcml.conversion import convert as convert_module
from hpcml.conversion import docstrings
from hpcml.conversion import text as text_module
from hpcml.conversion import vocabulary as terms_module
from hpcml.conversion.split import split
from hpcml.data.info import info
from hpcml.data.row_keys import flag_repeats
from hpcml.files import lines as lines_module
from hpcml.log import Log
from hpcml.mpi import self_comm

pytestmark = pytest.mark.mpi


def svmlight_text(seed, n_rows, binary):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n_rows):
        labels = rng.choice(["-1", "1"]) if binary else ",".join(map(str, np.flatnonzero(rng.random(7) < 0.2)))
        columns = np.flatnonzero(rng.random(20) < 0.3) + 1
        values = np.ones(columns.size) if binary else rng.standard_normal(columns.size).round(3)
        lines.append(labels + "".join(f" {column}:{value:g}" for column, value in zip(columns, values, strict=True)))
    return "".join(line + "\n" if line else "3\n" for line in lines)


def jsonl_text(seed, n_rows, splits=True):
    rng = np.random.default_rng(seed)
    words = ["alpha", "beta", "gamma", "délta", "x1", "the", "and", "omega", "Ωmega", "zz"]
    lines = []
    for row in range(n_rows):
        text = "".join(word + rng.choice([" ", ", ", "\n"], p=[0.8, 0.1, 0.1]) for word in rng.choice(words, rng.integers(1, 30)))
        document = {
            "title": str(rng.choice(words)),
            "text": text + f"rare{row // 2}",
            "labels": rng.choice(list("abcd"), 2).tolist(),
        }
        document |= {"id": f"doc {row}"} if row % 3 else {}
        document |= {"split": str(rng.choice(["train", "train", "test", ""]))} if splits else {}
        lines.append(json.dumps(document) + "\n")
    return "".join(lines)


def fields_text(seed, n_rows):
    rng = np.random.default_rng(seed)
    lines = []
    for line in jsonl_text(seed, n_rows).splitlines():
        journals, names = (rng.choice(["New York", "Disasters", "alpha", "T"], size).tolist() for size in (1, rng.integers(0, 3)))
        lines.append(json.dumps(json.loads(line) | {"journal": journals[0], "names": names}) + "\n")
    return "".join(lines)


def documents_text(n_rows):
    return "".join(f'{{"text": "one text", "labels": ["l{row}"]}}\n' for row in range(n_rows))


CASES = {
    "svmlight": ("svmlight", svmlight_text(0, 101, False), {}),
    "binary ones": ("svmlight", svmlight_text(1, 50, True), {"test_share": 0.3, "seed": 4}),
    "one row": ("svmlight", "1 3:1 # the only one", {}),
    "text": ("jsonl", jsonl_text(2, 40), {}),
    "pairs": ("jsonl", jsonl_text(3, 60), {"pairs": True, "min_df": 2}),
    "binary": ("jsonl", jsonl_text(4, 40, splits=False), {"binary": True, "test_share": 0.5}),
    "fields": ("jsonl", fields_text(7, 70), {"fields": ("title=T", "text=A", "journal=J", "names"), "whole_fields": ("journal",)}),
    "equal documents": ("jsonl", documents_text(9), {}),
}


def write(comm, path, text):
    if comm.rank == 0:
        path.write_text(text, encoding="utf-8")
    comm.Barrier()
    return path


def both(comm, source, inputs, folder, **options):
    report, expected, together = converted_alike(comm, source, inputs, folder, **options)
    for name in ("rows", "features", "labels", "nnz", "splits", "dropped_values", "unknown_entries"):
        assert getattr(report, name) == getattr(expected, name)
    return report, together


@pytest.mark.parametrize("case", sorted(CASES))
def test_same_bytes_on_any_number_of_ranks(comm, mpi_tmp_path, case, monkeypatch):
    monkeypatch.setattr(convert_module.hdf5, "NAME_CHUNK", 7)
    monkeypatch.setattr(text_module, "BLOCK_TOKENS", 50)
    monkeypatch.setattr(terms_module, "RUN_WORDS", 40)
    for name, size in {"RANGE_WORDS": 16, "CHUNK_WORDS": 3, "SAMPLE": 2, "RUN_KEYS": 20, "RANGE_KEYS": 16}.items():
        monkeypatch.setattr(terms_module, name, size)
    source, text, options = CASES[case]
    report, path = both(comm, source, [write(comm, mpi_tmp_path / "in", text)], mpi_tmp_path, **options)
    found = info(comm, path, [1, 2, 50])
    assert f"{report.rows:,} row" in found and f"× {report.features:,} feature" in found and f"× {report.labels:,} label" in found
    if comm.rank == 0:
        assert found == info(self_comm(), path, [1, 2, 50])


def test_synthetic_corpus_does_not_depend_on_the_ranks(comm, mpi_tmp_path):
    options = {"rows": 101, "features": ("900",), "labels": ("12",), "test_share": 0.3, "seed": 4}
    report, path = both(comm, "synthetic", [Path("text")], mpi_tmp_path, **options)
    assert (report.rows, report.features, report.labels) == (101, 900, 12)
    assert f"{path}: 101 rows × 900 features × 12 labels, " in info(comm, path, [1])


@pytest.mark.parametrize("kind", ["svmlight", "pairs"])
def test_like(comm, mpi_tmp_path, kind):
    source, text, options = CASES[kind]
    convert_on(comm, source, [write(comm, mpi_tmp_path / "train", text)], mpi_tmp_path / "train.h5", **options)
    other = svmlight_text(9, 30, False).replace("\n", " 33:1\n") if source == "svmlight" else jsonl_text(9, 30)
    report, path = both(comm, source, [write(comm, mpi_tmp_path / "test", other)], mpi_tmp_path, like=mpi_tmp_path / "train.h5")
    assert report.dropped_values > 0
    with h5py.File(path, locking=False) as file, h5py.File(mpi_tmp_path / "train.h5", locking=False) as train:
        assert file.attrs["vocabulary"] == train.attrs["vocabulary"]


def test_splits_do_not_depend_on_the_ranks(comm, mpi_tmp_path):
    text = write(comm, mpi_tmp_path / "in", svmlight_text(7, 60, False))
    convert_on(comm, "svmlight", [text], mpi_tmp_path / "data.h5")
    split(comm, mpi_tmp_path / "data.h5", mpi_tmp_path / "together.h5", 0.3, True, 5, False, Log(1))
    if comm.rank == 0:
        split(self_comm(), mpi_tmp_path / "data.h5", mpi_tmp_path / "alone.h5", 0.3, True, 5, False, Log(1))
        assert (mpi_tmp_path / "together.h5").read_bytes() == (mpi_tmp_path / "alone.h5").read_bytes()
    comm.Barrier()


def test_docstrings_of_a_few_modules(comm, mpi_tmp_path, monkeypatch):
    everything = docstrings.find_modules()
    monkeypatch.setattr(docstrings, "find_modules", lambda: [s for s in everything if s.module.startswith(("email", "json"))])
    report, path = both(comm, "docstrings", [], mpi_tmp_path, min_df=2, test_share=0.3)
    with h5py.File(path, locking=False) as file:
        assert {"email", "email.message", "json"} <= set(file["label_names"].asstr())
        ids = list(file["row_ids"].asstr())
        assert len(set(ids)) == len(ids) == report.rows
        assert file.attrs["source"] == "docstrings"


def test_repeated_keys_over_ranks(comm):
    keys = np.array([7, 100 + comm.rank, 7, 200 + comm.rank // 2], np.uint64)
    assert flag_repeats(comm, keys).tolist() == [comm.rank > 0, False, True, comm.rank % 2 == 1]
    without_rank_0 = [comm.rank > 1, False, True, comm.rank > 1 and comm.rank % 2 == 1]
    assert flag_repeats(comm, keys if comm.rank else keys[:0]).tolist() == (without_rank_0 if comm.rank else [])


def test_compressed_input_on_any_number_of_ranks(comm, mpi_tmp_path, monkeypatch):
    import lzma

    kinds, unpacked = [], lines_module.unpacked
    text = svmlight_text(0, 101, False)
    if comm.rank == 0:
        (mpi_tmp_path / "in.xz").write_bytes(lzma.compress(text.encode()))
    convert_on(comm, "svmlight", [write(comm, mpi_tmp_path / "in", text)], mpi_tmp_path / "plain.h5")
    _, path = both(comm, "svmlight", [mpi_tmp_path / "in.xz"], mpi_tmp_path)
    assert path.read_bytes() == (mpi_tmp_path / "plain.h5").read_bytes()
    comm.Barrier()
    monkeypatch.setattr(lines_module, "unpacked", lambda file, kind: kinds.append(kind) or unpacked(file, kind))
    convert_on(comm, "svmlight", [mpi_tmp_path / "in.xz"], mpi_tmp_path / "again.h5")
    assert [kind for kind in kinds if kind] == [".xz"] * (comm.rank == 0)
    assert not any("unpacked" in file.name for file in mpi_tmp_path.iterdir())
