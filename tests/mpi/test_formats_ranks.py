"""Every format on any number of ranks: the same bytes, the same error on all ranks, and no files after an error."""

import atexit
import gzip
import re
import shutil
import tempfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from support import bad_records
from support.compressed import zipped, zstd
from support.converted import convert_on, converted_alike, options_of
from support.formats import as_arff, as_csv, as_h5ad, as_h5ad_of_07, as_xmc, frame, matrices
from support.make import by_one_rank
from support.pubmed_records import AWKWARD, deletion, document, record

import hpcml
from hpcml import mpi
from hpcml.conversion import arff, csv_file, parquet
from hpcml.conversion.convert import convert
from hpcml.errors import DataError, HpcmlError

pytestmark = pytest.mark.mpi
TEXT = {"text": ("title", "text"), "labels": ("topics",), "label_separator": ";", "id": "id", "split_column": "split"}
NUMBERS = {"features": ("a", "b", "long"), "indicators": ("toxic",), "test_share": 0.3, "seed": 2}
VALUES = {"labels": ("l", "m"), "indicators": ("on",), "features": ("x",), "id": "i"}
ARFF = {"labels": ("class",), "indicators": ("sea",)}


FOLDERS = []


def make_files(folder):
    import pandas as pd

    X, Y = matrices(1)
    data = frame(1, 41)
    as_csv(folder / "in.csv", data)
    as_csv(folder / "more.csv", data[:5])
    as_csv(folder / "in.tsv", data, "\t")
    for name, label in {"whole": "1", "float": "+1.0", "text": "one"}.items():
        rows = [
            f"{row / 7},{row % 3},{label if row == 9 else row % 2},{['True', '0', '1.0'][row % 3]},{row % 50}" for row in range(31)
        ]
        (folder / f"{name}.csv").write_text("\n".join(["x,l,m,on,i", *rows]) + "\n")
    (folder / "in.csv.gz").write_bytes(gzip.compress((folder / "in.csv").read_bytes()))
    (folder / "in.csv.zip").write_bytes(zipped((folder / "in.csv").read_bytes()))
    data.to_parquet(folder / "in.parquet", row_group_size=13)
    sp.save_npz(folder / "X.npz", X)
    sp.save_npz(folder / "Y.npz", Y)
    np.save(folder / "X.npy", X.toarray())
    (folder / "Y.txt").write_text("".join(f"{row % 3}\n" for row in range(X.shape[0])))
    obs = pd.DataFrame(
        {"kind": pd.Categorical(["T", "B", "C"] * 13)[: X.shape[0]], "b": 1}, index=[f"c{k}" for k in range(X.shape[0])]
    )
    as_h5ad(folder / "in.h5ad", X, obs, [f"gene {k}" for k in range(X.shape[1])])
    as_h5ad_of_07(folder / "old.h5ad", X, {"kind": (["T", "B"], np.arange(X.shape[0]) % 3 - 1), "b": (None, np.arange(37) % 2)})
    for form in ("csc", "coo"):
        sp.save_npz(folder / f"{form}.npz", X.asformat(form))
    as_xmc(folder / "in.txt", X, Y)
    as_arff(folder / "in.arff", False)
    as_arff(folder / "sparse.arff", True)
    for row, text in enumerate(data.text):
        place = folder / "docs" / ("test" if row % 3 else "train") / f"l{row % 4}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{row}.txt").write_text(text)
        texts = folder / "texts"
        texts.mkdir(exist_ok=True)
        (texts / f"{row}.txt").write_text(text)
        (texts / f"{row}.key").write_text(f"label {row % 4}\n<http://ex.org/{row % 3}>\n")
    lines = [f"{text.replace(chr(10), ' ')}\t<http://ex.org/{row % 3}>" for row, text in enumerate(data.text)]
    (folder / "short.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    columns = data[["text"]].assign(subject_uris=[f"http://ex.org/{row % 3}" if row % 5 else "" for row in range(len(data))])
    columns.to_csv(folder / "short.csv", index=False)
    (folder / "short.zip").write_bytes(zipped((folder / "short.csv").read_bytes(), "short.csv"))
    names = "".join(f"<http://ex.org/{k}>\tsubject {k}\n" for k in (0, 1))
    (folder / "vocabulary.tsv").write_text(names + "<http://ex.org/9>\tlabel 2\n")


@pytest.fixture
def files(comm):
    if not FOLDERS:
        FOLDERS.append(Path(comm.bcast(tempfile.mkdtemp() if comm.rank == 0 else None)))
        if comm.rank == 0:
            atexit.register(shutil.rmtree, FOLDERS[0])
            make_files(FOLDERS[0])
        comm.Barrier()
    return FOLDERS[0]


CASES = {
    "csv": ("csv", ["in.csv", "more.csv"], TEXT),
    "csv zip": ("csv", ["in.csv.zip", "more.csv"], TEXT),
    "csv zst, by content": ("csv", ["zst.csv"], TEXT),
    "csv numbers": ("csv", ["in.csv"], NUMBERS),
    "tsv": ("tsv", ["in.tsv"], TEXT | {"quotes": True}),
    "csv values": ("csv", ["whole.csv", "float.csv"], VALUES),
    "parquet": ("parquet", ["in.parquet"], TEXT),
    "npz": ("npz", ["X.npz", "Y.npz"], {"test_share": 0.3}),
    "npy": ("npz", ["X.npy", "Y.txt"], {}),
    "h5ad": ("h5ad", ["in.h5ad"], {"labels": ("kind",), "indicators": ("b",)}),
    "h5ad of anndata 0.7": ("h5ad", ["old.h5ad"], {"labels": ("kind",), "indicators": ("b",)}),
    "npz csc": ("npz", ["csc.npz", "Y.npz"], {}),
    "xmc": ("xmc", ["in.txt"], {}),
    "arff": ("arff", ["in.arff"], ARFF),
    "sparse arff": ("arff", ["sparse.arff"], ARFF),
    "folder": ("folder", ["docs"], {"folder_splits": True, "min_df": 2}),
    "annif": ("annif", ["short.tsv.gz", "texts", "short.zip"], {"pairs": True, "min_df": 2}),
    "annif with a vocabulary": ("annif", ["short.csv", "texts"], {"vocabulary": "vocabulary.tsv", "test_share": 0.3}),
}


@pytest.mark.parametrize("case", sorted(CASES))
def test_same_bytes_on_any_number_of_ranks(comm, files, mpi_tmp_path, case, monkeypatch):
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 100)
    monkeypatch.setattr(parquet, "ROWS", 4)
    source, names, options = CASES[case]
    inputs = [files / name for name in names]
    if "zst.csv" in names:  # on all ranks, which skip it together
        content = zstd((files / "in.csv").read_bytes())
        (mpi_tmp_path / f"{comm.rank}.zst.csv").write_bytes(content)
        inputs = [mpi_tmp_path / "0.zst.csv"]
        comm.Barrier()
    if "vocabulary" in options:
        options = options | {"vocabulary": files / options["vocabulary"]}
    converted_alike(comm, source, inputs, mpi_tmp_path, **options)


class Lines(list):
    def __call__(self, message, has_lines=False):
        self.append(message)

    detail = __call__


def test_log_counts_the_values_of_all_ranks(comm, mpi_tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 50)
    path, lines, text = Path(mpi_tmp_path) / "in", Lines(), {"text": ("t",), "labels": ("l",)}
    if comm.rank == 0:
        rows = [f'{row % 35}\t{row}\t"text{row}"\t{"Sea" if row % 2 else "sea"}\n' for row in range(60)]
        path.with_suffix(".tsv").write_text("".join(["i\ta\tt\tl\n", *rows]))
        quoted = ['1,"x,y,z\n', *["2,x,y,z\n"] * 4, '3,x",y,z\n']
        path.with_suffix(".csv").write_text("".join(["i,t,a,l\n", *["4,x,5,z\n"] * 30, *quoted, *["4,x,5,z\n"] * 30, *quoted]))
    comm.Barrier()
    for source, options in (("tsv", text | {"id": "i"}), ("csv", text)):
        convert(comm, source, [path.with_suffix(f".{source}")], path.with_suffix(".h5"), options_of(source, options), True, lines)
    if comm.rank == 0:
        log = "\n".join(lines)
        assert "in.tsv: row 36: id '0'" in log and "25 rows" in log and "in.tsv: 60 values" in log
        assert "'Sea' and 'sea'" in log and "in.csv: line 32: " in log and "(2 such values in all)" in log


def csr(**changes):
    X = sp.csr_matrix([[1.0, 0], [0, 2], [3, 0]])
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape, "format": b"csr", "y": [0, 1, 0]} | changes
    return lambda path: np.savez(path.open("wb"), **{name: value for name, value in parts.items() if value is not None})


def text(content):
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


def half(make):
    def write(path):
        make(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])

    return write


def in_parquet(**columns):
    def write(path):
        import pandas as pd

        pd.DataFrame(columns).to_parquet(path)

    return write


def in_h5ad(change=None, **obs):
    def write(path):
        import pandas as pd

        X = sp.csr_matrix(np.float32([[1, 0], [0, 2], [3, 0]]))
        as_h5ad(path, X, pd.DataFrame({"l": ["x", "y", "x"]} | obs, index=["a", "b", "c"]), ["u", "v"])
        if change is not None:
            with h5py.File(path, "r+") as file:
                change(file)

    return write


def put(name, place, value):
    def change(file):
        file[name][place] = value

    return change


ROWS = "a,l\n" + "1,x\n" * 30
L = {"labels": ("l",)}
IDS = L | {"id": "a", "features": ("a",), "unique_ids": True}
HEAD = "@relation r\n@attribute a numeric\n@attribute l {x,y}\n@data\n"
BAD = {  # source, how to write the input, options, words of the error
    "svmlight": ("svmlight", text("1 1:1\n" * 20 + "1 2:1 1:1\n" + "1 1:1\n" * 20), {}, "in: line 21: "),
    "svmlight without labels": ("svmlight", text("1:1\n" * 9), {}, "in: no label"),
    "jsonl": ("jsonl", text('{"text": "a", "labels": ["x"]}\n' * 30 + "{]\n"), {}, "in: line 31: "),
    "jsonl empty": ("jsonl", text(""), {}, "in: the file is empty"),
    "csv column": ("csv", text(ROWS), {"labels": ("m",)}, "--labels m"),
    "csv number": ("csv", text(ROWS + "one,x\n" + ROWS[4:]), L, "line 32: column 'a'"),
    "csv short": ("csv", text(ROWS + "3\n"), L, "line 32"),
    "csv quote": ("csv", text(ROWS + '1,"x\n' * 1 + "1,x\n" * 9), L, "line 32"),
    "csv utf16": ("csv", text(ROWS.encode("utf-16")), L, "UTF-8"),
    "csv gz": ("csv", text(gzip.compress(ROWS.encode())[:-9]), L, ".gz"),
    "csv split": ("csv", text("a,l,s\n" + '1,x,"u,v"\n' * 3), L | {"split_column": "s"}, "line 2: column 's'"),
    "csv fraction": ("csv", text("a,l\n" + "1,1\n" * 20 + "1,2.5\n1,3.5\n" * 9), L, "line 22: column 'l'"),
    "csv id": ("csv", text("a,l\n" + "".join(f"{k % 25},x\n" for k in range(40))), IDS, "line 27: id '0'"),
    "csv rows in a value": ("csv", text(ROWS + '"1,x\n' + "1,x\n" * 5 + '1,x"\n'), L, "line 32"),
    "parquet half": ("parquet", half(in_parquet(a=[1.0] * 999, l=["x"] * 999)), L, "Parquet"),
    "parquet nan": ("parquet", in_parquet(a=[1.0] * 9 + [np.nan], l=["x"] * 10), L, "row 10: column 'a'"),
    "parquet type": ("parquet", in_parquet(a=["u", "v"], l=["x", "y"]), L, "column 'a'"),
    "npz large": ("npz", csr(indices=[0, 1, 2]), {}, "row 3: index 2"),
    "npz indptr": ("npz", csr(indptr=[0, 2, 1, 3]), {}, "row 2"),
    "npz claimed size": ("npz", csr(shape=[2**39, 2]), {}, "indptr"),
    "npz csc row": ("npz", csr(format=b"csc", shape=(2, 3), indices=[0, 5, 1], y=[0, 1]), {}, "entry 2: row 5"),
    "npz objects": ("npz", csr(y=np.array([{}, 1, 2], dtype=object)), {}, "array y"),
    "h5ad half": ("h5ad", half(in_h5ad()), L, "in: "),
    "h5ad indptr": ("h5ad", in_h5ad(put("X/indptr", 3, 9)), L, "X: rows"),
    "h5ad other": ("h5ad", lambda path: h5py.File(path, "w").close(), L, "no obs"),
    "xmc short": ("xmc", text("3 2 2\n0 0:1\n1 1:1\n"), {}, "line 1"),
    "xmc label": ("xmc", text("3 2 2\n0 0:1\n1 1:1\n2 0:1\n"), {}, "line 4: label 2"),
    "arff nominal": ("arff", text(HEAD + "1,x\n" * 9 + "1,z\n"), L, "line 14: attribute 'l'"),
    "arff number": ("arff", text(HEAD + "1,x\n" * 9 + "q,x\n"), L, "line 14: attribute 'a'"),
    "folder empty": ("folder", lambda path: path.mkdir(), {}, "in: no files"),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_input_gives_the_same_error_on_every_rank(comm, mpi_tmp_path, case):
    source, write, options, words = BAD[case]
    path = Path(mpi_tmp_path) / "in"
    if comm.rank == 0:
        write(path)
    comm.Barrier()
    with pytest.raises(HpcmlError, match=re.escape(words)) as caught:
        convert_on(comm, source, [path], path.with_name("out.h5"), **options)
    assert caught.value.exit_code == 2
    assert len(set(comm.allgather(str(caught.value)))) == 1
    comm.Barrier()  # rank 0 removes its files
    assert [entry.name for entry in path.parent.iterdir()] == ["in"]
    comm.Barrier()


def test_rows_in_memory_of_all_ranks(comm, mpi_tmp_path):
    X, Y = matrices(9)
    folder, data = Path(mpi_tmp_path), frame(9, X.shape[0])
    bounds = [*np.linspace(0, X.shape[0], max(2, comm.size)).astype(int), X.shape[0]][: comm.size + 1]
    bounds = bounds if comm.size > 1 else [0, X.shape[0]]
    mine = slice(bounds[comm.rank], bounds[comm.rank + 1])
    parts = data.split.to_numpy()
    options = {"text": ["title", "text"], "labels": "topics", "label_separator": ";", "min_df": 2}
    hpcml.Dataset.from_sparse(X[mine], Y[mine], folder / "a.h5", splits=parts[mine], comm=comm).file.close()
    hpcml.Dataset.from_frame(data[mine], folder / "b.h5", comm=comm, **options).file.close()
    if comm.rank == 0:
        hpcml.Dataset.from_sparse(X, Y, folder / "c.h5", splits=parts).file.close()
        hpcml.Dataset.from_frame(data, folder / "d.h5", **options).file.close()
        assert (folder / "a.h5").read_bytes() == (folder / "c.h5").read_bytes()
        assert (folder / "b.h5").read_bytes() == (folder / "d.h5").read_bytes()
    comm.Barrier()
    with pytest.raises(HpcmlError, match="feature_names has 1 names") as caught:
        names = ["one"] if comm.rank == comm.size - 1 else None
        hpcml.Dataset.from_sparse(X[mine], Y[mine], folder / "x.h5", feature_names=names, comm=comm)
    assert len(set(comm.allgather(str(caught.value)))) == 1
    outside = Y[mine].copy()
    if comm.rank == 0:
        outside.indices[0] = -1
    with pytest.raises(HpcmlError, match=r"^Y: row \d+: index -1, but expected 0 to") as caught:
        hpcml.Dataset.from_sparse(X[mine], outside, folder / "x.h5", comm=comm)
    assert len(set(comm.allgather(str(caught.value)))) == 1 and not (folder / "x.h5").exists()


def write_numbering(folder):
    import pandas as pd

    rng = np.random.default_rng(5)
    n = 61
    data = pd.DataFrame({"a": rng.standard_normal(n), "n": np.arange(n), "id": rng.permutation(n) * 10, "b": rng.integers(0, 2, n)})
    data["repeated"], data["Id"] = np.arange(n) % 60, np.where(np.arange(n) == n - 1, 0, np.arange(n) + 2)
    data.loc[0, "Id"] = 0  # in the first row and the last: of other ranks
    data["l"] = np.where(np.arange(n) % 3, "x", "y")
    data.to_csv(folder / "whole.csv")
    for number, part in enumerate((data[:20], data[20:21], data[21:])):
        part.assign(n=np.arange(len(part)) + 1).to_csv(folder / f"part{number}.csv", index=False)
    head = ["@relation r", *(f"@attribute {name} numeric" for name in data.columns[:-1]), "@attribute l {x,y}", "@data"]
    rows = [",".join(map(str, row)) for row in data.itertuples(index=False)]
    (folder / "whole.arff").write_text("\n".join([*head, *rows]) + "\n")


@pytest.mark.parametrize("names", [["whole.csv"], ["part0.csv", "part1.csv", "part2.csv"], ["whole.arff"]])
def test_columns_that_number_rows_are_excluded(comm, mpi_tmp_path, names, monkeypatch):
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 100)
    monkeypatch.setattr(parquet, "ROWS", 4)
    folder = Path(mpi_tmp_path)
    if comm.rank == 0:
        write_numbering(folder)
    comm.Barrier()
    source, options = names[0].rpartition(".")[2], {"labels": ("l",)}
    _, _, path = converted_alike(comm, source, [folder / name for name in names], folder, **options)
    with h5py.File(path) as file:
        assert file["feature_names"].asstr()[:].tolist() == ["a", "b", "repeated", "Id"]
    options["indicators"] = ("b",)
    with pytest.raises(HpcmlError, match=r"column 'b' is missing, a feature of --like .*"):
        convert_on(comm, source, [folder / name for name in names], folder / "new.h5", like=path, **options)
    assert not (folder / "new.h5").exists()


@pytest.fixture
def pubmed_files(comm, mpi_tmp_path):
    folder, records = Path(mpi_tmp_path), list(AWKWARD.values())
    paths = [folder / f"{number}.xml" for number in range(5)]
    if comm.rank == 0:
        for number, path in enumerate(paths):
            again = [record(101 + pmid, f"again {number}", version=f' Version="{1 + pmid % 2}"') for pmid in range(number, 40, 7)]
            gone = deletion(*((101 + pmid, 1) for pmid in range(number, 50, 9)))
            path.write_bytes(document("".join([*records[number::5], *again, gone])))
    comm.Barrier()
    return paths


@pytest.mark.parametrize("options", [{"test_years": ("1998,2011",), "pairs": True}, {"test_share": 0.3, "seed": 3}])
def test_same_bytes_of_pubmed_on_any_number_of_ranks(comm, pubmed_files, options):
    converted_alike(comm, "pubmed", pubmed_files, pubmed_files[0].parent, **options)


def test_a_damaged_file(comm, pubmed_files):
    folder = pubmed_files[0].parent
    if comm.rank == 0:
        pubmed_files[-1].write_bytes(pubmed_files[-1].read_bytes()[:-40])
    comm.Barrier()
    with pytest.raises(DataError, match=r"4\.xml: record \d+: "):
        convert_on(comm, "pubmed", pubmed_files, folder / "out.h5")
    comm.Barrier()
    assert sorted(path.name for path in folder.iterdir()) == [f"{number}.xml" for number in range(5)]


PLACES = [0, 3, 3, 44, 45, 89]


@pytest.fixture
def case(comm, mpi_tmp_path, request, monkeypatch):
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 300)
    monkeypatch.setattr(arff, "BATCH", 16)
    name, places = request.param
    path = Path(mpi_tmp_path) / ("in.csv" if "csv" in name else "in.jsonl")
    expected = comm.bcast(bad_records.CASES[name].write(path, places) if comm.rank == 0 else None)
    return bad_records.CASES[name], path, expected


@pytest.mark.parametrize("case", [(name, PLACES) for name in bad_records.CASES], indirect=True, ids=bad_records.CASES)
def test_skipped_records_give_the_same_bytes(comm, case):
    made, path, _ = case
    report, alone, _ = converted_alike(comm, made.source, [path], path.parent, skip_bad=6, **made.options)
    assert report.skipped_records == alone.skipped_records == 6


ERRORS = {"several": (PLACES, 5), "many": (list(range(0, 88, 4)), 12)}


@pytest.mark.parametrize(
    ("case", "most"),
    [((name, places), most) for places, most in ERRORS.values() for name in bad_records.CASES],
    indirect=["case"],
    ids=[f"{name}, {kind}" for kind in ERRORS for name in bad_records.CASES],
)
def test_bad_records_give_the_same_error(comm, case, most):
    made, path, expected = case

    def message_on(ranks, name):
        with pytest.raises(DataError) as caught:
            convert_on(ranks, made.source, [path], path.with_name(name), skip_bad=most, **made.options)
        return str(caught.value)

    together = message_on(comm, "together.h5")
    alone = by_one_rank(comm, lambda: message_on(mpi.self_comm(), "alone.h5"))
    assert together == alone
    assert all(line.startswith(f"  {each}") for line, each in zip(together.splitlines()[1:], expected[:10], strict=True))


@pytest.mark.parametrize("n", [9, 10])
@pytest.mark.parametrize("end", ['"c,d\n', "z," + " " * (1 << 20) + "\n"], ids=["quote", "long"])
def test_fatal_error_comes_after_ten_earlier_bad_records(comm, mpi_tmp_path, n, end):
    path = Path(mpi_tmp_path) / "in.csv"
    if comm.rank == 0:
        path.write_text("text,l\n" + "a,b\n" * 40 + "x\n" * n + "a,b\n" * 9 + '"q",b\n' + end)
    comm.Barrier()
    with pytest.raises(DataError, match="at least 10 bad records" if n >= 10 else f"line {52 + n}: ") as caught:
        convert_on(comm, "csv", [path], path.with_name("out.h5"), text=("text",), labels=("l",), max_line_mb=1)
    assert len(set(comm.allgather(str(caught.value)))) == 1
