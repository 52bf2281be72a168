"""Records have the same labels on any number of ranks and for all block sizes."""

import json

import pandas as pd
import pytest
from support.converted import made
from support.make import by_one_rank

import hpcml
from hpcml import mpi
from hpcml.errors import DataError
from hpcml.prediction import records

pytestmark = pytest.mark.mpi
TEXTS = [f'{"ship port" if n % 3 else "corn, wheat"} {"storm" * (n % 5)}\n"no {n}"' for n in range(200)]
DOCUMENTS = [{"id": f"d{n}", "text": text, "labels": ["sea" if n % 3 else "farm"]} for n, text in enumerate(TEXTS)]


def test_records_have_the_same_labels(comm, mpi_tmp_path, monkeypatch):
    folder = mpi_tmp_path

    def prepare():
        data = made(folder, "jsonl", DOCUMENTS, "train")[1]
        hpcml.train("dual", data, folder / "run", loss="logistic")
        frame = pd.DataFrame(DOCUMENTS).drop(columns="labels")
        frame.to_csv(folder / "new.csv", index=False)
        frame.to_parquet(folder / "new.parquet", row_group_size=7)
        (folder / "new.jsonl").write_text("".join(json.dumps(each) + "\n" for each in DOCUMENTS))
        (folder / "bad.jsonl").write_text("".join(json.dumps(each) + "\n" for each in DOCUMENTS[:150]) + "{}\n" * 3)

    by_one_rank(comm, prepare)
    for bytes_of_block in (200, 1 << 20):
        monkeypatch.setattr(records, "BLOCK_BYTES", bytes_of_block)
        monkeypatch.setattr(records, "MAX_BLOCK_BYTES", bytes_of_block)
        for name in ("new.jsonl", "new.csv", "new.parquet"):
            hpcml.predict(folder / "run", folder / name, folder / "together.csv", top=2, force=True, comm=comm)
            by_one_rank(comm, lambda: hpcml.predict(folder / "run", folder / "train.h5", folder / "alone.csv", top=2, force=True))
            assert (folder / "together.csv").read_bytes() == (folder / "alone.csv").read_bytes()
            comm.Barrier()
    with pytest.raises(DataError, match=r"bad.jsonl: line 151: "):
        hpcml.predict(folder / "run", folder / "bad.jsonl", folder / "bad.csv", comm=comm)
    assert not (folder / "bad.csv").exists()
    assert mpi.self_comm().size == 1
