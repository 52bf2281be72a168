import os
import subprocess
import sys

import pytest
from support.make import dataset, random_data

import hpcml
from hpcml.errors import DataError

# Every way to open a file twice, in a process in which nothing has told HDF5 of locks yet.
OPEN_TWICE = """
import sys, h5py, hpcml
from hpcml.model.open import kind_of
data, model = sys.argv[1:]
alone = str(hpcml.evaluate(model, data))
for mode in ("r", "r+", "a"):
    for more in ({}, {"locking": False}, {"locking": True}, {"locking": "best-effort"}):
        with h5py.File(data, mode, **more) as file, h5py.File(model, mode, **more):
            assert str(hpcml.evaluate(model, data)) == alone
            assert kind_of(model) == "model"
            assert file["X/indptr"].shape == (41,)  # it is as it was
"""
HOLDER = """
import sys, h5py
file = h5py.File(sys.argv[1], sys.argv[2], locking=eval(sys.argv[3]))
if sys.argv[2] == "w":
    file["X"] = range(1000)  # of which nothing may be on disk yet
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def files(tmp_path):
    data = dataset(tmp_path / "docs.h5", *random_data(1, 40, 12, 2, 0.4))
    return data, hpcml.train("dual", data, tmp_path / "run").model


def locks(setting):
    others = {name: value for name, value in os.environ.items() if name != "HDF5_USE_FILE_LOCKING"}
    return others | ({} if setting is None else {"HDF5_USE_FILE_LOCKING": setting})


@pytest.mark.parametrize("setting", [None, *(pytest.param(each, marks=pytest.mark.more("files")) for each in ("FALSE", "TRUE"))])
def test_reads_files_open_in_this_process(files, setting):
    subprocess.run([sys.executable, "-c", OPEN_TWICE, *map(str, files)], check=True, env=locks(setting), timeout=120)


def holder(path, mode, locking):
    command = [sys.executable, "-c", HOLDER, str(path), mode, repr(locking)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=locks(None))
    assert process.stdout.readline() == "open\n"
    return process


@pytest.mark.parametrize("locking", [None, False])
def test_reads_files_open_in_another_process(files, locking):
    data, model = files
    alone = str(hpcml.evaluate(model, data))
    with holder(data, "r", locking):
        assert str(hpcml.evaluate(model, data)) == alone
    with holder(data, "r+", locking), pytest.raises(DataError, match=r"docs\.h5: another program has it open for writing; wait"):
        hpcml.evaluate(model, data)


def test_distinguishes_unfinished_from_damaged_file(tmp_path):
    new, work = tmp_path / "new.h5", "import sys, hpcml; hpcml.Dataset(sys.argv[1])"
    with holder(new, "w", None):
        told = subprocess.run([sys.executable, "-c", work, str(new)], env=locks(None), capture_output=True, text=True, timeout=60)
    assert "DataError" in told.stderr and "new.h5: another program has it open for writing; wait" in told.stderr
    (tmp_path / "cut.h5").write_bytes(new.read_bytes()[:1000])
    with pytest.raises(DataError, match=r"cut\.h5: truncated or damaged HDF5 file; expected one created with"):
        hpcml.Dataset(tmp_path / "cut.h5")
