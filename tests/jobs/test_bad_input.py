"""Every error that a user can make: one sentence, exit code 2, on 1 and 3 ranks, and nothing half-written left behind."""

import gzip
import json

import h5py
import numpy as np
import pytest
from support.jobs import done, refused
from support.make import dataset, model, random_data

BAD = {  # what else a line may be is in tests/unit/conversion
    "malformed": ("in.svm", "1 1:1\n1 2:x\n", r"line 2: .*2:x"),
    "empty": ("in.svm", "", r"empty"),
    "no labels": ("in.svm", "1:1 2:1\n 1:1\n", r"no label"),
    "not json": ("in.jsonl", '{"id": "1", "text": "a", "labels": ["x"]}\n{"id": \n', r"line 2"),
    "empty json": ("in.jsonl", "", r"empty"),
    "no labels of json": ("in.jsonl", '{"id": "1", "text": "a b", "labels": []}\n', r"no label"),
}


def left(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.fixture(params=[1, 3])
def ranks(request):
    return request.param


@pytest.mark.parametrize("case", sorted(BAD))
def test_bad_lines(standing, ranks, tmp_path, case):
    name, text, pattern = BAD[case]
    (tmp_path / name).write_text(text)
    source = "svmlight" if name == "in.svm" else "jsonl"
    refused(standing(ranks, "convert", source, tmp_path / name, "-o", tmp_path / "out.h5"), name, pattern)
    assert left(tmp_path) == [name]


def test_damaged_compression(standing, ranks, tmp_path):
    whole = gzip.compress(b"1 1:1\n" * 5000)
    (tmp_path / "in.svm.gz").write_bytes(whole[: len(whole) // 2])
    refused(
        standing(ranks, "convert", "svmlight", tmp_path / "in.svm.gz", "-o", tmp_path / "out.h5"),
        "in.svm.gz: ",
        "truncated|damaged",
    )
    assert left(tmp_path) == ["in.svm.gz"]


@pytest.fixture
def good(tmp_path):
    return dataset(tmp_path / "good.h5", *random_data(7, 60, 20, 4))


def damage(kind, path, good):
    """Make a bad dataset of a good one."""
    raw = good.read_bytes()
    path.write_bytes(raw[: len(raw) // 2] if kind == "truncated" else b"" if kind == "empty" else raw)
    if kind == "text":
        path.write_text("hello\n")
    elif kind == "foreign":
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(3)
    elif kind == "newer":
        with h5py.File(path, "r+") as file:
            file.attrs["hpcml-version"] = 99
    elif kind == "absent":
        path.unlink()


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("truncated", "truncated or damaged"),
        ("empty", "empty"),
        ("text", "not an HDF5 file"),
        ("foreign", "not made by hpcml"),
        ("newer", "another version of hpcml .format 99"),
        ("absent", "No such file"),
    ],
)
def test_bad_dataset(standing, ranks, good, tmp_path, kind, pattern):
    damage(kind, tmp_path / "bad.h5", good)
    before = left(tmp_path)
    for command in (("train", "probe", tmp_path / "bad.h5", "-o", tmp_path / "run"), ("info", tmp_path / "bad.h5")):
        refused(standing(ranks, *command), "bad.h5: ", pattern)
    assert left(tmp_path) == before


def test_model_of_another_vocabulary(standing, ranks, good, tmp_path):
    wide = model(tmp_path / "wide.h5", np.ones((4, 21)))
    for command in (("evaluate", wide, good), ("predict", wide, good, "-o", tmp_path / "out.csv")):
        refused(standing(ranks, *command), "good.h5: has 20 features but ", "21")
    assert left(tmp_path) == ["good.h5", "wide.h5"]


def test_dataset_in_place_of_a_model_and_the_reverse(standing, ranks, good, tmp_path):
    scorer = model(tmp_path / "model.h5", np.ones((4, 20)))
    refused(standing(ranks, "evaluate", good, good), "good.h5: this is an hpcml dataset; expected a model")
    refused(standing(ranks, "split", scorer), "model.h5: this is an hpcml model; expected a dataset")
    assert done(standing(ranks, "info", scorer)).stdout.count("a model of") == 1


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        (("trian",), "Did you mean .*train"),
        (("train", "probe", "x.h5", "-o", "y", "--lamda", "1"), "--lambda"),
        (("train", "prob", "x.h5", "-o", "y"), "did you mean 'probe'"),
        (("train", "probe", "x.h5"), "--output"),
        (("train", "probe", "x.h5", "-o", "y", "--epsilon", "abc"), "--epsilon"),
        (("train", "probe", "x.h5", "-o", "y", "--epsilon", "3"), "--epsilon 3"),
        (("train", "probe", "x.h5", "-o", "y", "--loss", "hing"), "--loss hing"),
        (("train", "--config", "absent.toml"), "absent.toml"),
        (("convert", "svmligth", "x.svm", "-o", "y.h5"), "svmlight"),
        (("convert", "svmlight", "absent.svm", "-o", "y.h5"), "absent.svm"),
        (
            ("convert", "svmlight", "absent.svm", "-o", "y.h5", "--rows", "9"),
            "Unknown option: --rows. `hpcml convert svmlight --help` lists",
        ),
        (("convert", "synthetic", "-o", "y.h5", "--rows", "9"), "synthetic takes one of checkerboard, .* but got none"),
        (("convert", "synthetic", "circle", "-o", "y.h5", "--rows", "0"), "--rows 0: expected at least 1"),
    ],
)
def test_bad_options(standing, ranks, arguments, pattern):
    refused(standing(ranks, *arguments), pattern=pattern)


def test_bad_lambda_and_absent_split_touch_nothing(standing, ranks, good, tmp_path):
    for extra, pattern in ((("--lambda", "X/q"), "--lambda X/q"), (("--split", "tran"), "no split named 'tran'")):
        refused(standing(ranks, "train", "probe", good, "-o", tmp_path / "run", *extra), pattern)
    assert left(tmp_path) == ["good.h5"]


def test_outputs_that_exist_are_kept(standing, ranks, good, tmp_path):
    (tmp_path / "in.svm").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "out.h5").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes").write_text("mine")
    for how in ("--force", "--resume"):
        refused(standing(ranks, "train", "probe", good, "-o", tmp_path / "run", how), "run contains other files and no hpcml run")
    refused(
        standing(ranks, "convert", "svmlight", tmp_path / "in.svm", "-o", tmp_path / "out.h5"), "out.h5 exists already", "--force"
    )
    refused(standing(ranks, "train", "probe", good, "-o", tmp_path / "run"), "run exists already", "--force")
    refused(standing(ranks, "convert", "svmlight", tmp_path / "in.svm", "-o", tmp_path / "no" / "out.h5"), "no does not exist")
    assert (tmp_path / "out.h5").read_text() == "mine"
    assert left(tmp_path / "run") == ["notes"]


# The limit is set when MPI has started, for MPI needs files of its own.
LIMITED = """
import resource, sys
from mpi4py import MPI
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from hpcml.__main__ import main
main()
"""


@pytest.mark.parametrize(("ranks", "limit"), [(1, 300_000), (2, 20_000), (2, 300_000)])
def test_full_disk_while_converting(mpirun, ranks, tmp_path, limit):
    text = "".join(f"{row % 2} {' '.join(f'{1 + row % 7 + 9 * k}:{k + 0.5}' for k in range(20))}\n" for row in range(3000))
    (tmp_path / "in.svm").write_text(text)
    command = (limit, "convert", "svmlight", tmp_path / "in.svm", "-o", tmp_path / "out.h5")
    refused(mpirun(ranks, *command, program=("-c", LIMITED)), "File too large", r"out\.h5; raise")
    assert left(tmp_path) == ["in.svm"]


def test_full_disk_while_the_names_of_many_words_are_written(mpirun, tmp_path):
    """So many that HDF5 reads again what it could not write."""
    lines = ({"text": " ".join(f"word{100 * row + k}" for k in range(100)), "labels": [str(row % 3)]} for row in range(400))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = (300_000, "convert", "jsonl", tmp_path / "in.jsonl", "-o", tmp_path / "out.h5")
    refused(mpirun(2, *command, program=("-c", LIMITED)), "File too large", r"out\.h5; raise")
    assert left(tmp_path) == ["in.jsonl"]


def test_output_that_is_an_input_is_refused_even_by_force(standing, ranks, good, tmp_path):
    scorer = model(tmp_path / "model.h5", np.ones((4, 20)))
    (tmp_path / "in.svm").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "link.h5").symlink_to(good)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for command in (
        ("convert", "svmlight", tmp_path / "in.svm", "-o", tmp_path / "in.svm", "--force"),
        ("convert", "svmlight", tmp_path / "in.svm", "-o", good, "--like", tmp_path / "link.h5", "--force"),
        ("predict", scorer, good, "-o", scorer, "--force"),
        ("predict", scorer, good, "-o", tmp_path / "link.h5", "--force"),
        ("evaluate", scorer, good, "--csv", good, "--force"),
    ):
        refused(standing(ranks, *command), "is also an input")
    for command, pattern in (
        (("evaluate", scorer, good, "--csv", tmp_path / "in.svm"), "exists already"),
        (("evaluate", scorer, good, "--json", tmp_path), "is a folder"),
        (("evaluate", scorer, good, "--csv", "/dev/null", "--force"), "not a plain file"),
        (("evaluate", scorer, good, "--csv", tmp_path / "a", "--json", tmp_path / "a"), "names the same file as"),
    ):
        refused(standing(ranks, *command), pattern)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("ranks", "limit"), [(2, 1_000_000), (1, 1_600_000), (2, 1_600_000)])
def test_full_disk_while_training(mpirun, ranks, limit, tmp_path):
    """The results do not fit, and a checkpoint does not fit; with room, the run goes on."""
    data = dataset(tmp_path / "good.h5", *random_data(7, 60, 8000, 40, density=0.2))
    command = (limit, "train", "probe", data, "-o", tmp_path / "run", "--checkpoint-every", "1e-9", "--labels-per-pass", "40")
    refused(mpirun(ranks, *command, program=("-c", LIMITED)), "File too large", "; raise")
    assert not (tmp_path / "run" / "model.h5").exists()
    assert not list((tmp_path / "run").rglob("*part-*"))
    done(mpirun(ranks, *command[1:], "--resume"))
    assert (tmp_path / "run" / "model.h5").exists()


def test_file_that_one_rank_cannot_read(mpirun, good, tmp_path):
    for rank in range(2):
        (tmp_path / f"node{rank}").mkdir()
        if rank != 1:
            (tmp_path / f"node{rank}" / "good.h5").symlink_to(good)
            (tmp_path / f"node{rank}" / "in.jsonl").write_text(json.dumps({"id": "1", "text": "a b", "labels": ["x"]}) + "\n")
    code = f"import os; os.chdir({str(tmp_path)!r} + '/node' + os.environ['PMI_RANK']); from hpcml.__main__ import main; main()"
    for command in (
        ("train", "probe", "good.h5", "-o", tmp_path / "run"),
        ("convert", "jsonl", "in.jsonl", "-o", tmp_path / "out.h5"),
    ):
        refused(mpirun(2, *command, program=("-c", code), timeout=60), "No such file")
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "out.h5").exists()
