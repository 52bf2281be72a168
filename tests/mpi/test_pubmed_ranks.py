"""PubMed's files on any number of ranks: the same bytes, and of a damaged file the same sentence, with nothing left."""

from pathlib import Path

import pytest
from support.pubmed_records import AWKWARD, deletion, document, record

from hpcml import mpi
from hpcml.conversion import revisions
from hpcml.conversion.convert import convert
from hpcml.conversion.options import ConvertOptions
from hpcml.errors import DataError
from hpcml.log import Log

pytestmark = pytest.mark.mpi


@pytest.fixture
def files(comm, mpi_tmp_path):
    """Files with revisions of each other's records."""
    folder, records = Path(mpi_tmp_path), list(AWKWARD.values())
    paths = [folder / f"{number}.xml" for number in range(5)]
    if comm.rank == 0:
        for number, path in enumerate(paths):
            again = [record(101 + pmid, f"again {number}", version=f' Version="{1 + pmid % 2}"') for pmid in range(number, 40, 7)]
            gone = deletion(*((101 + pmid, 1) for pmid in range(number, 50, 9)))
            path.write_bytes(document("".join([*records[number::5], *again, gone])))
    comm.Barrier()
    return paths


def run(comm, inputs, output, **options):
    return convert(comm, "pubmed", inputs, output, ConvertOptions(**options), False, Log(1))


@pytest.mark.parametrize("options", [{"test_years": ("2001",), "like": None, "pairs": True}, {"test_share": 0.3, "seed": 3}])
def test_same_bytes_on_any_number_of_ranks(comm, files, options, monkeypatch):
    monkeypatch.setattr(revisions, "RANGE_KEYS", 7)
    folder = files[0].parent
    options = {name: value for name, value in options.items() if value is not None}
    if "test_years" in options:
        options["test_years"] = ("1998,2011",)
    run(comm, files, folder / "together.h5", **options)
    if comm.rank == 0:
        run(mpi.self_comm(), files, folder / "alone.h5", **options)
        assert (folder / "together.h5").read_bytes() == (folder / "alone.h5").read_bytes()
    comm.Barrier()


def test_a_damaged_file(comm, files):
    folder = files[0].parent
    if comm.rank == 0:
        files[-1].write_bytes(files[-1].read_bytes()[:-40])
    comm.Barrier()
    with pytest.raises(DataError, match=r"4\.xml: record \d+: not XML that can be read"):
        run(comm, files, folder / "out.h5")
    comm.Barrier()
    assert sorted(path.name for path in folder.iterdir()) == [f"{number}.xml" for number in range(5)]
