"""Bad records on any number of ranks: the same error and the same dataset of the other records."""

from pathlib import Path

import pytest
from support.bad_records import CASES
from support.converted import convert_on, converted_alike
from support.make import by_one_rank

from hpcml import mpi
from hpcml.conversion import arff, csv_file
from hpcml.errors import DataError

pytestmark = pytest.mark.mpi
PLACES = [0, 3, 3, 44, 45, 89]


@pytest.fixture
def case(comm, mpi_tmp_path, request, monkeypatch):
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 300)
    monkeypatch.setattr(arff, "BATCH", 16)
    name, places = request.param
    path = Path(mpi_tmp_path) / ("in.csv" if "csv" in name else "in.jsonl")
    expected = comm.bcast(CASES[name].write(path, places) if comm.rank == 0 else None)
    return CASES[name], path, expected


@pytest.mark.parametrize("case", [(name, PLACES) for name in CASES], indirect=True, ids=CASES)
def test_the_same_dataset(comm, case, capsys):
    made, path, _ = case
    report, alone, _ = converted_alike(comm, made.source, [path], path.parent, skip_bad=6, **made.options)
    assert report.skipped_records == alone.skipped_records == 6


ERRORS = {"several": (PLACES, 5), "many": (list(range(0, 88, 4)), 12)}


@pytest.mark.parametrize(
    ("case", "most"),
    [((name, places), most) for places, most in ERRORS.values() for name in CASES],
    indirect=["case"],
    ids=[f"{name}, {kind}" for kind in ERRORS for name in CASES],
)
def test_the_same_error(comm, case, most):
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
