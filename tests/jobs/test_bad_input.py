"""User errors: one line, exit code 2 on 1 and 3 ranks, and no partial files."""

import json

import h5py
import numpy as np
import pytest
from support.jobs import done, refused
from support.make import dataset, model, random_data


def left(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.fixture(params=[1, 3])
def ranks(request):
    return request.param


@pytest.fixture
def good(tmp_path):
    return dataset(tmp_path / "good.h5", *random_data(7, 60, 20, 4))


DAMAGE = {"cut": lambda raw: raw[: len(raw) // 2], "empty": lambda raw: b"", "text": lambda raw: b"hello\n"}


def test_bad_files_are_refused(standing, ranks, good, tmp_path):
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["x"] = np.arange(3)
    (tmp_path / "newer.h5").write_bytes(good.read_bytes())
    with h5py.File(tmp_path / "newer.h5", "r+") as file:
        file.attrs["hpcml-version"] = 99
    for name, change in DAMAGE.items():
        (tmp_path / f"{name}.h5").write_bytes(change(good.read_bytes()))
    before = left(tmp_path)
    for name in (*DAMAGE, "foreign", "newer", "absent"):
        for command in (("train", "probe", tmp_path / f"{name}.h5", "-o", tmp_path / "run"), ("info", tmp_path / f"{name}.h5")):
            refused(standing(ranks, *command), f"{name}.h5: ")
    assert left(tmp_path) == before


def test_files_that_do_not_fit_are_refused(standing, ranks, good, tmp_path):
    wide = model(tmp_path / "wide.h5", np.ones((4, 21)))
    for command, words in (
        (("evaluate", wide, good), "good.h5: "),
        (("predict", wide, good, "-o", tmp_path / "out.csv"), "good.h5: "),
        (("evaluate", good, good), "good.h5: "),
        (("split", wide), "wide.h5: "),
        (("train", "probe", good, "-o", tmp_path / "run", "--lambda", "X/q"), "--lambda X/q"),
        (("train", "probe", good, "-o", tmp_path / "run", "--split", "tran"), "'tran'"),
    ):
        refused(standing(ranks, *command), words)
    assert left(tmp_path) == ["good.h5", "wide.h5"]


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [
        (("trian",), "train"),
        (("train", "probe", "x.h5", "-o", "y", "--lamda", "1"), "--lambda"),
        (("train", "prob", "x.h5", "-o", "y"), "'probe'"),
        (("train", "probe", "x.h5"), "--output"),
        (("train", "probe", "x.h5", "-o", "y", "--epsilon", "3"), "--epsilon 3"),
        (("train", "--config", "absent.toml"), "absent.toml"),
        (("convert", "svmligth", "x.svm", "-o", "y.h5"), "svmlight"),
        (("convert", "svmlight", "absent.svm", "-o", "y.h5", "--rows", "9"), "--rows"),
        (("convert", "synthetic", "-o", "y.h5", "--rows", "9"), "synthetic"),
    ],
)
def test_bad_options_are_refused(standing, ranks, arguments, pattern):
    refused(standing(ranks, *arguments), pattern=pattern)


def test_existing_outputs_are_not_replaced(standing, ranks, good, tmp_path):
    (tmp_path / "in.svm").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "out.h5").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes").write_text("mine")
    for how in ("--force", "--resume"):
        refused(standing(ranks, "train", "probe", good, "-o", tmp_path / "run", how), "run")
    refused(
        standing(ranks, "convert", "svmlight", tmp_path / "in.svm", "-o", tmp_path / "out.h5"), "out.h5 exists already", "--force"
    )
    refused(standing(ranks, "train", "probe", good, "-o", tmp_path / "run"), "run exists already", "--force")
    refused(standing(ranks, "convert", "svmlight", tmp_path / "in.svm", "-o", tmp_path / "no" / "out.h5"), "no")
    assert (tmp_path / "out.h5").read_text() == "mine"
    assert left(tmp_path / "run") == ["notes"]


# The limit is set after MPI has started, because MPI needs files.
LIMITED = """
import resource, sys
from mpi4py import MPI
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
from hpcml.__main__ import main
main()
"""


@pytest.mark.parametrize(("ranks", "limit"), [(2, 20_000), (2, 300_000)])
def test_full_disk_while_converting(mpirun, ranks, tmp_path, limit):
    text = "".join(f"{row % 2} {' '.join(f'{1 + row % 7 + 9 * k}:{k + 0.5}' for k in range(20))}\n" for row in range(3000))
    (tmp_path / "in.svm").write_text(text)
    command = (limit, "convert", "svmlight", tmp_path / "in.svm", "-o", tmp_path / "out.h5")
    refused(mpirun(ranks, *command, program=("-c", LIMITED)), "File too large", r"out\.h5; raise")
    assert left(tmp_path) == ["in.svm"]


def test_output_that_is_an_input_is_refused(standing, ranks, good, tmp_path):
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
        refused(standing(ranks, *command), "also an input")
    for command, pattern in (
        (("evaluate", scorer, good, "--csv", tmp_path / "in.svm"), "exists already"),
        (("evaluate", scorer, good, "--json", tmp_path), "is a folder"),
        (("evaluate", scorer, good, "--csv", "/dev/null", "--force"), "not a plain file"),
        (("evaluate", scorer, good, "--csv", tmp_path / "a", "--json", tmp_path / "a"), "names the same file as"),
    ):
        refused(standing(ranks, *command), pattern)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(("ranks", "limit"), [(2, 1_000_000), (2, 1_600_000)])
def test_full_disk_while_training(mpirun, ranks, limit, tmp_path):
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
