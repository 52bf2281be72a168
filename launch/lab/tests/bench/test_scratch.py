"""The scratch folder of `bench ovr`: what a killed run left in TMPDIR is removed by the next one."""

import signal
import subprocess
import sys
import tempfile

import numpy as np
from support.make import dataset, random_data
from support.training import bench_ovr

from hpcml.bench.ovr import OvrOptions

WORKS = """
import sys, time
from hpcml.files.temporary import scratch_folder
with scratch_folder(sys.argv[1]) as folder:
    (folder / "data.h5").write_bytes(b"rows")
    print("READY", flush=True)
    time.sleep(60)
"""


def ovr(folder):
    data = dataset(folder / "data.h5", *random_data(3, 60, 12, 2), splits={"train": np.arange(40), "test": np.arange(40, 60)})
    bench_ovr(None, data, folder / "out", OvrOptions(("dual",), ("none",), (0.1,)), {})


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)  # it is looked up anew
    with subprocess.Popen([sys.executable, "-c", WORKS, "hpcml-peers"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "READY\n"
        (left,) = scratch.iterdir()
        assert left.name.startswith(".hpcml-peers.part-") and (left / "data.h5").read_bytes() == b"rows"
        process.send_signal(signal.SIGKILL)
    assert left.exists()
    ovr(tmp_path)
    assert not list(scratch.iterdir())
