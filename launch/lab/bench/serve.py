"""`hpcml serve` under load and under Annif: requests a second, 99th percentile, bad requests, the headings of `hpcml predict`.

usage: python -m launch.lab bench serve RUN DATA --texts FILE.jsonl [--requests N] [--clients N...] [--bad N] [--annif PROGRAM]

RUN is a run with probabilities, DATA the dataset of its texts (with the model's features), FILE the JSON lines that it was made of
(plain or compressed). The server is a process of its own; the clients are threads of this one. With --annif, the program of an
Annif installation (in a virtual environment of its own: its packages do not fit hpcml's), its commands `suggest` and `eval` ask the
server by the backend `http`. The headings and scores of `suggest`, to Annif's four digits, and the true and false positives of
`eval` are compared with `hpcml predict --probabilities`. Prints lines of JSON.
"""

from __future__ import annotations

import csv
import http.client
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlencode

import h5py
import numpy as np

from hpcml.data.dataset import DataFile
from hpcml.files.lines import open_plain
from launch.lab.bench._common import parser_of

SUGGEST = "/v1/projects/hpcml/suggest"
FORM = {"content-type": "application/x-www-form-urlencoded"}
NEAR = 1e-6  # Annif keeps scores as float32 and writes four digits
CONFIG = "[served]\nname=served\nlanguage=en\nbackend=http\nvocab=v\nendpoint={endpoint}\nlimit={limit}\n"


def say(**line: object) -> None:
    """Print a line of JSON."""
    print(json.dumps(line), flush=True)


class Served:
    """A server process; its memory, its CPU seconds, and what it has said."""

    def __init__(self, run: Path, data: Path, folder: str) -> None:
        self.errors, self.log = Path(folder, "serve.err"), Path(folder, "serve.log")
        command = [sys.executable, "-m", "hpcml", "serve", str(run), "--data", str(data), "--port", "0"]
        with self.errors.open("w") as errors, self.log.open("w") as log:
            self.process = subprocess.Popen(command, stderr=errors, stdout=log)
        while not (found := re.search(r"ready after .*: http://([\d.]+):(\d+)/ ", self.errors.read_text())):
            if self.process.poll() is not None:
                raise SystemExit(self.errors.read_text())
            time.sleep(0.05)
        self.host, self.port = found[1], int(found[2])

    @property
    def mib(self) -> float:
        """Resident memory."""
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[1]) / 1024

    @property
    def cpu(self) -> float:
        """Seconds of the processor."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connect(self) -> http.client.HTTPConnection:
        """A connection."""
        return http.client.HTTPConnection(self.host, self.port, timeout=60)

    def end(self) -> tuple[float, int]:
        """The seconds until it has ended after SIGTERM, and its exit code."""
        begin = time.monotonic()
        self.process.terminate()
        code = self.process.wait(30)
        return round(time.monotonic() - begin, 2), code


def documents(path: Path, most: int) -> list[tuple[str, str, list[str]]]:
    """(id, text, labels) of up to `most` documents; the title is the first line of the text."""
    found = []
    with open_plain(Path(path)) as file:
        for line in file:
            each = json.loads(line)
            text = " ".join(f"{each.get('title') or ''} . {each.get('text') or ''}".split())
            found.append((str(each.get("id") or len(found) + 1), text, each.get("labels") or []))
            if len(found) == most:
                break
    return found


def load(served: Served, texts: list[str], n_requests: int, n_clients: int, n_together: int = 1) -> None:
    """Print requests a second, and percentiles of milliseconds, of so many clients that ask one request after another."""
    times, left, lock = [], iter(range(n_requests)), threading.Lock()
    bodies = [urlencode({"text": text, "limit": 10}).encode() for text in texts]
    batches = [json.dumps(texts[k : k + n_together]).encode() for k in range(0, len(texts) - n_together + 1, n_together)]

    def client() -> None:
        wire, own = served.connect(), []
        while True:
            with lock:
                number = next(left, None)
            if number is None:
                break
            begin = time.perf_counter()
            if n_together == 1:
                wire.request("POST", SUGGEST, bodies[number % len(bodies)], FORM)
            else:
                body = batches[number % len(batches)]
                wire.request("POST", f"{SUGGEST}-batch?limit=10", body, {"content-type": "application/json"})
            reply = wire.getresponse()
            reply.read()
            assert reply.status == 200, reply.status
            own.append(1000 * (time.perf_counter() - begin))
        with lock:
            times.extend(own)

    cpu, begin = served.cpu, time.perf_counter()
    threads = [threading.Thread(target=client) for _ in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begin
    shares = {f"p{q}_ms": round(float(np.percentile(times, q)), 2) for q in (50, 99)}
    rate = {"requests_per_s": round(n_requests / seconds, 1), "texts_per_s": round(n_requests * n_together / seconds, 1)}
    cost = round(1000 * (served.cpu - cpu) / (n_requests * n_together), 3)
    say(
        what="load",
        clients=n_clients,
        texts_a_request=n_together,
        **rate,
        **shares,
        server_cpu_ms_a_text=cost,
        server_mib=round(served.mib),
    )


def bad_request(draw: random.Random) -> bytes:
    """The bytes of a request that is wrong in some way."""
    kind = draw.randrange(9)
    noise = draw.randbytes(draw.randrange(200))
    head = f"POST {SUGGEST} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"
    form = head + "content-type: application/x-www-form-urlencoded\r\n"
    if kind == 0:
        return noise + b"\r\n\r\n"
    if kind == 1:
        return f"GET /no/{noise.hex()} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode()
    if kind == 2:
        return f"{form}content-length: {len(noise)}\r\n\r\n".encode() + noise
    if kind == 3:
        return f"{form}content-length: 100000000\r\n\r\n".encode() + noise  # and then nothing
    if kind == 4:
        return f"{head}x: {'a' * 70000}\r\n\r\n".encode()
    if kind == 5:
        body = draw.choice([b"{", b"[" * 50_000, b"[3]", b'{"documents": 1}', b'[{"text": []}]', b"9" * 5000])
        batch = head.replace("/suggest ", "/suggest-batch ")
        return f"{batch}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    if kind == 6:
        body = draw.choice([b"text=a&limit=-1", b"text=%ff", b"text=a&text=b", b"a=1&" * 500, b"text=a&threshold=nan", b"limit=1"])
        return f"{form}content-length: {len(body)}\r\n\r\n".encode() + body
    if kind == 7:
        return f"{head}transfer-encoding: chunked\r\n\r\nzz\r\n".encode() + noise
    return f"{draw.choice(['DELETE', 'PUT', 'BREW'])} {SUGGEST} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".encode()


def abuse(served: Served, n_requests: int, seed: int = 1) -> None:
    """Bad requests one after another: their statuses, the server's memory, and that it still answers."""
    draw, statuses, memory = random.Random(seed), {}, []
    for number in range(n_requests):
        if number % max(1, n_requests // 10) == 0:
            memory.append(round(served.mib, 1))
        with socket.create_connection((served.host, served.port), timeout=20) as wire:
            status = "closed"
            try:
                wire.sendall(bad_request(draw))
                wire.shutdown(socket.SHUT_WR)
                said = b""
                while more := wire.recv(1 << 16):
                    said += more
                status = said.split(b" ")[1].decode() if said.startswith(b"HTTP/1.1 ") else "closed"
            except OSError:
                pass
            statuses[status] = statuses.get(status, 0) + 1
    memory.append(round(served.mib, 1))
    tracebacks = served.errors.read_text().count("Traceback")
    wire = served.connect()
    wire.request("GET", "/health")
    health = wire.getresponse().status
    say(what="bad requests", requests=n_requests, statuses=statuses, tracebacks=tracebacks, mib=memory, health=health)
    if tracebacks or health != 200 or "200" in statuses or "500" in statuses:
        raise SystemExit("a bad request was answered, or broke something")


def annif(program: Path, served: Served, run: Path, data: Path, found: list[tuple[str, str, list[str]]], folder: str) -> None:
    """`annif suggest` and `annif eval` through the server beside `hpcml predict` on the same texts."""
    corpus, texts = Path(folder, "corpus.tsv"), Path(folder, "texts.jsonl")
    with DataFile(data) as dataset:
        names = dataset.label_names()
    known = {name for name in names if not any(letter.isspace() for letter in name)}  # a URI in a corpus ends at a blank
    texts.write_text("".join(json.dumps({"text": text, "labels": labels}) + "\n" for _, text, labels in found))
    hpcml = [sys.executable, "-m", "hpcml"]
    like, scores = Path(folder, "like.h5"), Path(folder, "scores.h5")
    subprocess.run([*hpcml, "convert", "jsonl", texts, "--like", data, "-o", like, "--quiet"], check=True)
    subprocess.run([*hpcml, "predict", run, like, "--probabilities", "-o", scores, "--quiet"], check=True)
    with h5py.File(scores) as file:
        expected, labels = file["probabilities"][:], list(file["label_names"].asstr()[:])
    # Annif knows subjects by URI: the server gives the labels' names, so the vocabulary has them in that place
    vocabulary = Path(folder, "v.csv")
    with vocabulary.open("w", newline="") as file:
        csv.writer(file).writerows([["uri", "label_en"], *([name, name] for name in names)])
    corpus.write_text("".join(f"{text}\t{' '.join(f'<{x}>' for x in of if x in known)}\n" for _, text, of in found))
    endpoint = f"http://{served.host}:{served.port}{SUGGEST}"
    Path(folder, "projects.cfg").write_text(CONFIG.format(endpoint=endpoint, limit=len(labels)))

    def call(*words: object, **options: str) -> str:
        command = [str(program), *map(str, words)]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=900, **options).stdout

    call("load-vocab", "v", vocabulary, "--force")
    order = np.argsort(-expected.astype(np.float32), axis=1, kind="stable")
    differ = 0
    for row, (_, text, _) in enumerate(found[:20]):
        lines = [line.split("\t") for line in call("suggest", "served", "--limit", 10, input=text).splitlines()]
        given = {line[0].strip("<>"): float(line[-1]) for line in lines}
        want = {labels[k]: float(expected[row, k]) for k in order[row, :10].tolist() if expected[row, k] >= 5e-5}
        last = min(want.values(), default=1.0)
        same = all(abs(given.get(name, -1) - p) <= 1e-4 for name, p in want.items() if p > last + NEAR)
        differ += not same or len(given) != min(10, len(labels))
    say(what="annif suggest", texts=min(20, len(found)), differ=differ)
    out = Path(folder, "metrics.json")
    call("eval", "served", corpus, "--limit", 5, "--metrics-file", out)
    metrics = json.loads(out.read_text())
    place = {name: k for k, name in enumerate(labels)}
    gold = [{place[x] for x in of if x in place and x in known} for _, _, of in found]
    top = [set(order[row, :5].tolist()) for row in range(len(found))]
    hits = [len(a & b) for a, b in zip(top, gold, strict=True)]
    own = {"True_positives": sum(hits), "False_positives": sum(map(len, top)) - sum(hits)}
    of_annif = {name: metrics[name] for name in own}
    say(what="annif eval", texts=len(found), annif=of_annif, hpcml_predict=own, same=of_annif == own)
    if differ or of_annif != own:
        raise SystemExit("Annif's headings are not those of hpcml predict")


def main(words: list[str]) -> None:
    """Run what the command line asks for."""
    parser = parser_of("serve", __doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--bad", type=int, default=10_000)
    parser.add_argument("--annif", type=Path)
    parser.add_argument("--documents", type=int, default=200)
    options = parser.parse_args(words)
    found = documents(options.texts, options.documents)
    texts = [text for _, text, _ in found]
    with tempfile.TemporaryDirectory() as folder:
        served = Served(options.run, options.data, folder)
        try:
            for n_clients in options.clients:
                load(served, texts, options.requests, n_clients)
            if len(texts) >= 32:
                load(served, texts, max(1, options.requests // 32), 1, 32)
            if options.bad:
                abuse(served, options.bad)
            if options.annif is None or shutil.which(options.annif) is None:
                say(what="annif", skipped="no Annif: name its program with --annif (python -m venv V; V/bin/pip install annif)")
            else:
                annif(options.annif, served, options.run, options.data, found, folder)
        finally:
            seconds, code = served.end()
        say(what="end", seconds=seconds, exit_code=code)
