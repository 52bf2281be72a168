"""PubMed files on any number of ranks: the same bytes, and the same error without leftover files."""

from pathlib import Path

import pytest
from support.converted import convert_on, converted_alike
from support.pubmed_records import AWKWARD, deletion, document, record

from hpcml.conversion import pubmed
from hpcml.errors import DataError

pytestmark = pytest.mark.mpi


@pytest.fixture
def files(comm, mpi_tmp_path):
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
def test_same_bytes_on_any_number_of_ranks(comm, files, options, monkeypatch):
    monkeypatch.setattr(pubmed, "RANGE_KEYS", 7)
    converted_alike(comm, "pubmed", files, files[0].parent, **options)


def test_a_damaged_file(comm, files):
    folder = files[0].parent
    if comm.rank == 0:
        files[-1].write_bytes(files[-1].read_bytes()[:-40])
    comm.Barrier()
    with pytest.raises(DataError, match=r"4\.xml: record \d+: "):
        convert_on(comm, "pubmed", files, folder / "out.h5")
    comm.Barrier()
    assert sorted(path.name for path in folder.iterdir()) == [f"{number}.xml" for number in range(5)]
