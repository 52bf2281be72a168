"""`hpcml serve` as a process: answers, access log and shutdown."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from support.jobs import done, refused
from support.served import run_of, texts

TOP = Path(__file__).parents[2]


def test_answers_and_stops_at_a_signal(mpirun, standing, tmp_path):
    _, run = run_of(tmp_path)
    refused(standing(2, "serve", run, "--port", 0), "without mpirun")
    for option in ("--max-body-mb", "--max-seconds"):
        refused(standing(1, "serve", run, "--port", 0, option, 0), option)
    job = mpirun.start(0, "serve", run, "--port", 0)
    url = job.until(lambda: re.search(r"ready after .*: (http://\S+) ", job.output()[1]))[1]
    with urllib.request.urlopen(f"{url}v1/projects/hpcml/suggest", b"text=wheat+and+corn&limit=1", timeout=30) as reply:
        assert json.load(reply)["results"][0]["uri"] == "http://ex.org/farm"
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection, connection.makefile("rb") as answers:
        form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 999\r\n\r\ntext=wheat"  # incomplete
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\nPOST /v1/projects/hpcml/suggest HTTP/1.1\r\nHost: a\r\n" + form)
        assert answers.readline() == b"HTTP/1.1 200 OK\r\n"  # the other request has started
        begin = time.monotonic()
        job.process.send_signal(signal.SIGTERM)
        assert re.search(rb"HTTP/1.1 503 .*server is shutting down", answers.read(), re.DOTALL)
    ended = job.wait(30)
    seconds = time.monotonic() - begin
    assert ended.returncode == 0, ended.stderr
    assert seconds < 10  # about 4 on an idle machine
    lines = list(map(json.loads, ended.stdout.splitlines()))
    assert [line["status"] for line in lines] == [200, 200, 503] and "wheat" not in ended.stdout
    assert lines[0]["texts"] == 1 and "shutting down" in lines[2]["problem"]
    assert "Traceback" not in ended.stderr


@pytest.mark.more("lab")
def test_benchmark_script(tmp_path):
    data, run = run_of(tmp_path)
    documents = tmp_path / "docs.jsonl"
    documents.write_text("".join(json.dumps({"text": text, "labels": uris}) + "\n" for text, uris in texts(40)))
    script = [sys.executable, "-m", "launch.lab", "bench", "serve", run, data, "--texts", documents]
    result = done(
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
    lines = {line["what"]: line for line in map(json.loads, result.stdout.splitlines())}
    assert lines["bad requests"]["tracebacks"] == 0 and lines["bad requests"]["health"] == 200
    assert "--annif" in lines["annif"]["skipped"] and lines["end"]["exit_code"] == 0
