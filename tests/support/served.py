"""A small text model for tests of the server, and requests without a network."""

import asyncio
import json
from pathlib import Path
from urllib.parse import urlencode

from hpcml import mpi
from hpcml.serving.app import PROJECT, App, RequestLimits
from hpcml.serving.serve import open_suggester
from support.converted import converted
from support.training import train

SELF = mpi.self_comm()
SUGGEST, BATCH = f"/v1/projects/{PROJECT}/suggest", f"/v1/projects/{PROJECT}/suggest-batch"
SUBJECTS = {
    "http://ex.org/sea?a=1&b=2": ("Sea <b>&amp;", "ship port grain sea harbour sailor"),
    "http://ex.org/farm": ("Farm", "wheat corn farm field grain harvest"),
    "http://ex.org/law": ("", "court judge law appeal ship verdict"),
}


def texts(n):
    documents = []
    for number in range(n):
        uris = [uri for place, uri in enumerate(SUBJECTS) if number % 3 == place or number % 7 == place]
        words = [word for uri in uris for word in SUBJECTS[uri][1].split()]
        documents.append((" ".join(words[(number * k + k) % len(words)] for k in range(1, 7 + number % 3)) + f", no{number}", uris))
    return documents


def corpus(folder, n=60):
    source, names = Path(folder, "docs.tsv"), Path(folder, "subjects.tsv")
    source.write_text("".join(f"{text}\t{' '.join(f'<{uri}>' for uri in uris)}\n" for text, uris in texts(n)))
    titles = {uri: title or "In the law" for uri, (title, _) in SUBJECTS.items()}
    names.write_text("".join(f"<{uri}>\t{title}\n" for uri, title in titles.items()))
    return source, names


def run_of(folder, **options):
    source, names = corpus(folder)
    data, run = Path(folder, "docs.h5"), Path(folder, "run")
    converted("annif", source, data, vocabulary=names, pairs=True)
    train("dual", SELF, data, run, **{"loss": "logistic"} | options)
    return data, run


def app_of(run, lines=None, **limits):
    suggester, about = open_suggester(SELF, run)
    return App(suggester, about, RequestLimits(**limits), (lambda line: None) if lines is None else lines.append)


class Reply:
    def __init__(self, messages):
        start, *rest = messages
        self.status = start["status"]
        self.headers = {name.decode(): value.decode() for name, value in start["headers"]}
        self.body = b"".join(message["body"] for message in rest)

    @property
    def json(self):
        return json.loads(self.body)


async def exchange(app, method, target, body=b"", kind=None, slow=False, pieces=1):
    path, _, query = target.partition("?")
    headers = [] if kind is None else [(b"content-type", kind.encode())]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": headers,
        "client": ("::1", 1),
    }
    size = -(-len(body) // pieces) or 1
    parts = [body[at : at + size] for at in range(0, max(1, len(body)), size)]
    sent = []

    async def receive():
        if parts:
            piece = parts.pop(0)
            return {"type": "http.request", "body": piece, "more_body": slow or bool(parts)}
        if slow:
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return Reply(sent) if sent else None


def ask(app, method, target, body=b"", kind=None, **options):
    if isinstance(body, dict):
        body, kind = urlencode(body).encode(), kind or "application/x-www-form-urlencoded"
    elif isinstance(body, list):
        body, kind = json.dumps(body).encode(), kind or "application/json"
    return asyncio.run(exchange(app, method, target, body, kind, **options))
