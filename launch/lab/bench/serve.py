"""Measure `hpcml serve` under load, with bad requests, and as a backend of Annif.

usage: python -m launch.lab bench serve RUN DATA --texts FILE.jsonl [--requests N] [--clients N...] [--bad N] [--annif PROGRAM]

RUN is a run with probabilities, DATA the dataset of its texts (with the model's features), FILE its source as JSON lines (plain or
.xz). The server is a separate process; the clients are threads of this one. With --annif, the program of an Annif installation (in
a separate virtual environment because of its requirements), its commands `suggest` and `eval` ask the server by the backend `http`.
The headings and scores of `suggest`, to Annif's four digits, and the true and false positives of `eval` are compared with `hpcml
predict`.
"""

from __future__ import annotations

import csv
import http.client
import json
import lzma
import os
import random
import re
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import h5py
import numpy as np

import hpcml
from launch.lab.core.bench import Failed, rounded
from launch.lab.core.tables import read_json
from launch.lab.core.timing import hpcml_command, run_hpcml

SUGGEST = "/v1/projects/hpcml/suggest"
FORM, JSON = {"content-type": "application/x-www-form-urlencoded"}, {"content-type": "application/json"}
NEAR = 1e-6  # Annif keeps scores as float32 and writes four digits
CONFIG = "[served]\nname=served\nlanguage=en\nbackend=http\nvocab=v\nendpoint={endpoint}\nlimit={limit}\n"


class Served:
    def __init__(self, run: Path, folder: Path) -> None:
        self.errors = folder / "serve.err"
        with self.errors.open("w") as errors, (folder / "serve.log").open("w") as log:
            command = hpcml_command(("serve", run, "--port", 0))
            self.process = subprocess.Popen(command, stderr=errors, stdout=log)
        while not (match := re.search(r"ready after .*: http://([\d.]+):(\d+)/ ", self.errors.read_text())):
            if self.process.poll() is not None:
                raise Failed(self.errors.read_text().strip())
            time.sleep(0.05)
        self.host, self.port = match[1], int(match[2])

    @property
    def mib(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, self.port, timeout=60)


class Document(NamedTuple):
    text: str
    labels: list[str]


def read_documents(path: Path, most: int) -> list[Document]:
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as lines:
        objects = [json.loads(line) for line in islice(lines, most)]
    return [
        Document(" ".join(f"{each.get('title') or ''} . {each.get('text') or ''}".split()), each.get("labels") or [])
        for each in objects
    ]


def load(served: Served, texts: list[str], n_requests: int, n_clients: int, n_together: int = 1) -> dict[str, Any]:
    """Return requests per second and latency percentiles (ms) of `n_clients` that send one request after another."""
    if n_together == 1:
        address, head, bodies = SUGGEST, FORM, [urlencode({"text": text, "limit": 10}).encode() for text in texts]
    else:
        address, head = f"{SUGGEST}-batch?limit=10", JSON
        bodies = [json.dumps(texts[k : k + n_together]).encode() for k in range(0, len(texts) - n_together + 1, n_together)]
    own = threading.local()

    def ask(number: int) -> float:
        if not hasattr(own, "wire"):
            own.wire = served.connect()
        begin = time.perf_counter()
        own.wire.request("POST", address, bodies[number % len(bodies)], head)
        reply = own.wire.getresponse()
        reply.read()
        if reply.status != 200:
            raise Failed(f"a good request was answered by {reply.status}")
        return 1000 * (time.perf_counter() - begin)

    cpu, begin = served.cpu, time.perf_counter()
    with ThreadPoolExecutor(n_clients) as pool:
        times = list(pool.map(ask, range(n_requests)))
    seconds, n_texts = time.perf_counter() - begin, n_requests * n_together
    line = {"what": "load", "clients": n_clients, "texts_a_request": n_together}
    line |= {"requests_per_s": n_requests / seconds, "texts_per_s": n_texts / seconds}
    line |= {f"p{q}_ms": float(np.percentile(times, q)) for q in (50, 99)}
    return rounded(3, **line, server_cpu_ms_a_text=1000 * (served.cpu - cpu) / n_texts, server_mib=served.mib)


def bad_request(draw: random.Random) -> bytes:
    noise, kind = draw.randbytes(draw.randrange(200)), draw.randrange(9)
    close = "HTTP/1.1\r\nhost: a\r\nconnection: close\r\n"
    head = f"POST {SUGGEST} {close}"
    form = f"{head}content-type: application/x-www-form-urlencoded\r\n"
    documents = draw.choice([b"{", b"[" * 50_000, b"[3]", b'{"documents": 1}', b'[{"text": []}]', b"9" * 5000])
    fields = draw.choice([b"text=a&limit=-1", b"text=%ff", b"text=a&text=b", b"a=1&" * 500, b"text=a&threshold=nan", b"limit=1"])
    batch = f"POST {SUGGEST}-batch {close}content-type: application/json\r\ncontent-length: {len(documents)}\r\n\r\n"
    return (
        noise + b"\r\n\r\n",
        f"GET /no/{noise.hex()} {close}\r\n".encode(),
        f"{form}content-length: {len(noise)}\r\n\r\n".encode() + noise,
        f"{form}content-length: 100000000\r\n\r\n".encode() + noise,  # and then nothing
        f"{head}x: {'a' * 70000}\r\n\r\n".encode(),
        batch.encode() + documents,
        f"{form}content-length: {len(fields)}\r\n\r\n".encode() + fields,
        f"{head}transfer-encoding: chunked\r\n\r\nzz\r\n".encode() + noise,
        f"{draw.choice(['DELETE', 'PUT', 'BREW'])} {SUGGEST} {close}\r\n".encode(),
    )[kind]


def abuse(served: Served, n_requests: int, seed: int = 1) -> dict[str, Any]:
    """Return the statuses of invalid requests, the memory of the server meanwhile, and its health."""
    draw, statuses, memory = random.Random(seed), Counter[str](), []
    for number in range(n_requests):
        if number % max(1, n_requests // 10) == 0:
            memory.append(round(served.mib, 1))
        answer = b""
        with socket.create_connection((served.host, served.port), timeout=20) as wire, suppress(OSError):
            wire.sendall(bad_request(draw))
            wire.shutdown(socket.SHUT_WR)
            while more := wire.recv(1 << 16):
                answer += more
        statuses[answer.split(b" ")[1].decode() if answer.startswith(b"HTTP/1.1 ") else "closed"] += 1
    wire = served.connect()
    wire.request("GET", "/health")
    line = {"what": "bad requests", "requests": n_requests, "statuses": statuses, "mib": [*memory, round(served.mib, 1)]}
    return line | {"tracebacks": served.errors.read_text().count("Traceback"), "health": wire.getresponse().status}


def compare_annif(
    program: Path, served: Served, model: Path, data: Path, sample: list[Document], folder: Path
) -> Iterator[dict[str, Any]]:
    """Yield the differences of `annif suggest` and `annif eval` through the server from `hpcml predict`."""
    texts, like, scores, vocabulary = (folder / name for name in ("texts.jsonl", "like.h5", "scores.h5", "v.csv"))
    texts.write_text("".join(json.dumps(document._asdict()) + "\n" for document in sample))
    run_hpcml("convert", "jsonl", texts, "--like", data, "-o", like)
    hpcml.predict(model, like, scores, all_scores=True)
    with h5py.File(scores) as file:
        slope, offset = (file[f"labels/{name}"][:] for name in ("sigmoid_slope", "sigmoid_offset"))
        expected, labels = 1 / (1 + np.exp(-slope * file["scores"][:] - offset)), list(file["label_names"].asstr()[:])
    with hpcml.Dataset(data) as dataset:
        names = dataset.label_names()
    known = {name for name in names if not any(letter.isspace() for letter in name)}  # a URI in a corpus ends at a blank
    # Annif knows subjects by URI: the server gives the labels' names, so the vocabulary has them in that place
    with vocabulary.open("w", newline="") as file:
        csv.writer(file).writerows([["uri", "label_en"], *([name, name] for name in names)])
    corpus = "".join(f"{text}\t{' '.join(f'<{x}>' for x in of if x in known)}\n" for text, of in sample)
    (folder / "corpus.tsv").write_text(corpus)
    endpoint = f"http://{served.host}:{served.port}{SUGGEST}"
    (folder / "projects.cfg").write_text(CONFIG.format(endpoint=endpoint, limit=len(labels)))

    def call(*words: object, **options: str) -> str:
        command = [str(program), *map(str, words)]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=900, **options).stdout

    call("load-vocab", "v", vocabulary, "--force")
    order, differ = np.argsort(-expected.astype(np.float32), axis=1, kind="stable"), 0
    for row, document in enumerate(sample[:20]):
        lines = [line.split("\t") for line in call("suggest", "served", "--limit", 10, input=document.text).splitlines()]
        suggested = {line[0].strip("<>"): float(line[-1]) for line in lines}
        want = {labels[k]: float(expected[row, k]) for k in order[row, :10].tolist() if expected[row, k] >= 5e-5}
        last = min(want.values(), default=1.0)
        same = all(abs(suggested.get(name, -1) - p) <= 1e-4 for name, p in want.items() if p > last + NEAR)
        differ += not same or len(suggested) != min(10, len(labels))
    yield {"what": "annif suggest", "texts": min(20, len(sample)), "differ": differ}
    call("eval", "served", "corpus.tsv", "--limit", 5, "--metrics-file", folder / "metrics.json")
    index = {name: k for k, name in enumerate(labels)}
    gold = [{index[x] for x in document.labels if x in index and x in known} for document in sample]
    top = [set(order[row, :5].tolist()) for row in range(len(sample))]
    hits = sum(len(a & b) for a, b in zip(top, gold, strict=True))
    own = {"True_positives": hits, "False_positives": sum(map(len, top)) - hits}
    theirs = {name: read_json(folder / "metrics.json")[name] for name in own}
    yield {"what": "annif eval", "texts": len(sample), "annif": theirs, "hpcml_predict": own, "same": theirs == own}
    if differ or theirs != own:
        raise Failed("Annif's headings are not those of hpcml predict")


def run(
    scratch: Path,
    model: Path,
    data: Path,
    *,
    texts: Path,
    requests: int = 2000,
    clients: tuple[int, ...] = (1, 4, 16),
    bad: int = 10_000,
    annif: Path | None = None,
    documents: int = 200,
) -> Iterator[dict[str, Any]]:
    sample = read_documents(texts, documents)
    contents = [document.text for document in sample]
    served = Served(model, scratch)
    try:
        for n_clients in clients:
            yield load(served, contents, requests, n_clients)
        if len(contents) >= 32:
            yield load(served, contents, max(1, requests // 32), 1, 32)
        if bad:
            line = abuse(served, bad)
            yield line
            if line["tracebacks"] or line["health"] != 200 or {"200", "500"} & line["statuses"].keys():
                raise Failed("a bad request was answered, or broke something")
        if annif is None or shutil.which(annif) is None:
            how = "name its program with --annif (python -m venv V; V/bin/pip install annif)"
            yield {"what": "annif", "skipped": f"no Annif: {how}"}
        else:
            yield from compare_annif(annif, served, model, data, sample, scratch)
    finally:
        begin = time.monotonic()
        served.process.terminate()
        code = served.process.wait(30)
    yield {"what": "end", "seconds": round(time.monotonic() - begin, 2), "exit_code": code}
