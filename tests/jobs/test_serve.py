"""`hpcml serve` as a user starts it: one process, a line for each request, and an end within a second of the signal."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from support.jobs import done, refused
from support.served import run_of, texts

TOP = Path(__file__).parents[2]


def test_it_answers_and_ends_at_a_signal(mpirun, standing, tmp_path):
    data, run = run_of(tmp_path)
    refused(standing(2, "serve", run, "--port", 0), "serve answers from one process, but MPI has started 2; run it without mpirun")
    for expected, command in {
        "--max-body-mb 0: expected at least 1": ("--max-body-mb", 0),
        "--max-seconds 0.0: expected at least 0.001": ("--max-seconds", 0),
        "a folder of runs; name one of them: run": ("--data", data),
    }.items():
        refused(standing(1, "serve", run if "--data" not in command else tmp_path, "--port", 0, *command), expected)
    job = mpirun.start(0, "serve", run, "--port", 0)
    url = job.until(lambda: re.search(r"ready after .*: (http://\S+) ", job.output()[1]))[1]
    with urllib.request.urlopen(f"{url}v1/projects/hpcml/suggest", b"text=wheat+and+corn&limit=1", timeout=30) as reply:
        assert json.load(reply)["results"][0]["uri"] == "http://ex.org/farm"
    begin = time.monotonic()
    job.process.send_signal(signal.SIGTERM)
    ended = job.wait(30)
    seconds = time.monotonic() - begin
    assert ended.returncode == 0, ended.stderr
    assert seconds < 10  # about 0.5 on a machine with nothing else to do
    (line,) = map(json.loads, ended.stdout.splitlines())
    assert line["status"] == 200 and line["texts"] == 1 and "wheat" not in ended.stdout
    assert "Traceback" not in ended.stderr and ended.stderr.rstrip().endswith("have a moment")


def test_the_script_that_measures_it(tmp_path):
    data, run = run_of(tmp_path)
    documents = tmp_path / "docs.jsonl"
    documents.write_text("".join(json.dumps({"text": text, "labels": uris}) + "\n" for text, uris in texts(40)))
    script = [sys.executable, "-m", "launch.lab", "bench", "serve", run, data, "--texts", documents]
    found = done(
        subprocess.run(
            [*map(str, script), "--requests", "64", "--clients", "2", "--bad", "60"],
            cwd=TOP,
            env=os.environ | {"PYTHONPATH": str(TOP)},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    )
    lines = {line["what"]: line for line in map(json.loads, found.stdout.splitlines())}
    assert lines["bad requests"]["tracebacks"] == 0 and lines["bad requests"]["health"] == 200
    assert "--annif" in lines["annif"]["skipped"] and lines["end"]["exit_code"] == 0
