"""The addresses of the server, as Annif has them (REST API, backend `http`): an ASGI application.

Every request has an answer, in JSON where something is wrong ("problem details", RFC 9457), and a line of JSON in the access log.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from hpcml.errors import HpcmlError
from hpcml.evaluation.probabilities import probabilities
from hpcml.log import visible
from hpcml.serving.metrics import METRICS, Metrics
from hpcml.serving.requests import FORM, JSON, Refused, form_of, question_of_form, question_of_json, questions_of_json
from hpcml.serving.suggest import Suggester, Suggestion
from hpcml.serving.worker import Worker
from hpcml.version import version

PROJECT, GIVEN = "hpcml", "hpcml-given"  # all headings, and those that the model gives: Annif does not ask which they are
HERE = Path(__file__).parent
FILES = {"/": ("page.html", "text/html"), "/page.css": ("page.css", "text/css"), "/page.js": ("page.js", "text/javascript")}
NOTHING = ("default-src", "base-uri", "form-action", "frame-ancestors")
RULES = "; ".join(
    [*(f"{each} 'none'" for each in NOTHING), *(f"{each}-src 'self'" for each in ("script", "style", "connect")), "img-src data:"]
)
ALWAYS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store"}
NO_WORDS = "no known words: the model has none of the words of this text"
LONGEST_PATH = 200  # letters of a path in the log

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class RequestLimits:
    """A request's bytes, the seconds that it may take, those to its answer; texts that may wait."""

    body_bytes: int = 8 << 20
    body_seconds: float = 10.0
    answer_seconds: float = 30.0
    waiting: int = 256


@dataclass
class Answer:
    """An answer, and its line in the log."""

    status: int
    content: bytes
    kind: str
    headers: dict[str, str]
    n_texts: int = 0
    problem: str = ""


class Gone(Exception):
    """The client has left."""


def as_json(value: object, status: int = 200, **headers: str) -> Answer:
    """An answer in JSON; a number that is none is an error of ours."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Answer(status, text.encode(errors="backslashreplace"), f"{JSON}; charset=utf-8", headers)


def as_problem(status: int, detail: str, **headers: str) -> Answer:
    """An answer that says what is wrong."""
    about = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": visible(detail)}
    answer = as_json(about, status, **headers)
    answer.kind, answer.problem = "application/problem+json", about["detail"]  # type: ignore[assignment]
    return answer


class App:
    """Answers requests about one model."""

    def __init__(self, suggester: Suggester, about: dict[str, Any], limits: RequestLimits, log: Callable[[str], None]) -> None:
        """`about`: what is said of the model; `log` takes the lines of the access log."""
        self.suggester, self.limits, self.log = suggester, limits, log
        self.worker, self.metrics = Worker(suggester, limits.waiting), Metrics(version())
        self.thresholds = probabilities(suggester.model.thresholds[None], *suggester.sigmoids)[0].tolist()
        names = (PROJECT, GIVEN)
        api = json.loads((HERE / "openapi.json").read_bytes())
        api["info"]["version"] = version()
        title = as_json({"title": "hpcml serve, with Annif's REST API", "version": version()})
        self.pages = {
            "/v1": title,
            "/v1/": title,
            "/v1/projects": as_json({"projects": [about | {"project_id": name} for name in names]}),
            **{f"/v1/projects/{name}": as_json(about | {"project_id": name}) for name in names},
            "/openapi.json": as_json(api),
        }
        for path, (name, kind) in FILES.items():
            headers = {"content-security-policy": RULES}
            self.pages[path] = Answer(200, (HERE / name).read_bytes(), f"{kind}; charset=utf-8", headers)
        self.forms = {f"/v1/projects/{name}/suggest": name == GIVEN for name in names}  # whether only what the model gives
        self.batches = {f"{path}-batch": only_given for path, only_given in self.forms.items()}
        dead = as_problem(503, "it does not score texts any more")
        self.calls = {
            "/health": lambda: as_json({"status": "ok"}) if self.worker.lives else dead,
            "/metrics": lambda: Answer(200, "".join(f"{line}\n" for line in self.metrics.lines()).encode(), METRICS, {}),
        }
        self.addresses = {*self.pages, *self.calls, *self.forms, *self.batches}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        begin = time.perf_counter()
        try:
            answer = await self._answer(scope, receive)
        except Gone:
            self._note(scope, begin, 499, 0, 0, "the client left")
            return
        except asyncio.CancelledError:  # uvicorn cancels requests that are in progress when the server has no more time
            answer = as_problem(503, "the server is shutting down; try again later", connection="close", **{"retry-after": "5"})
        headers = {**ALWAYS, **answer.headers, "content-type": answer.kind, "content-length": str(len(answer.content))}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._note(scope, begin, answer.status, answer.n_texts, len(answer.content), answer.problem)
        await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.content})

    def _note(self, scope: Scope, begin: float, status: int, n_texts: int, size: int, problem: str) -> None:
        """Count the request, and write a line of the access log; texts are not in it."""
        client, seconds = scope.get("client") or ("", 0), time.perf_counter() - begin
        self.metrics.add(scope["path"] if scope["path"] in self.addresses else "other", status, seconds, n_texts)
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "client": client[0],
            "method": scope["method"][:20],
            "path": scope["path"][:LONGEST_PATH],
            "status": status,
            "texts": n_texts,
            "bytes": size,
            "ms": round(1000 * seconds, 1),
        }
        self.log(json.dumps(line | ({"problem": problem} if problem else {})))

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path, method = scope["path"], "GET" if scope["method"] == "HEAD" else scope["method"]
        allowed = "POST" if path in self.forms or path in self.batches else "GET"
        try:
            if path not in self.addresses:
                raise Refused(404, "there is no such address")
            if method != allowed:
                raise Refused(405, f"{scope['method'][:20]}: not here", allow=allowed)
            if path in self.pages:
                return self.pages[path]
            if path in self.calls:
                return self.calls[path]()
            return await self.suggest(scope, receive)
        except Refused as refused:
            return as_problem(refused.status, refused.detail, **refused.headers)
        except HpcmlError as error:
            return as_problem(500, str(error))
        except Gone:
            raise
        except Exception as error:  # noqa: BLE001 - the server goes on
            traceback.print_exc(file=sys.stderr)
            return as_problem(500, f"failed unexpectedly: {type(error).__name__}")

    async def body(self, scope: Scope, receive: Receive) -> bytes:
        """The body of a request. Raises Refused for one that is too long or too slow, Gone."""
        parts, size, most = [], 0, self.limits.body_bytes
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Gone
                    size += len(message.get("body", b""))
                    if size <= most:
                        parts.append(message.get("body", b""))
                    else:
                        parts.clear()  # the rest is read and dropped, for else the client would not hear why
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise Refused(408, f"the request was not here after {self.limits.body_seconds:g} s", connection="close") from None
        if size > most:
            raise Refused(413, f"a body of {size:,} bytes, but at most {most:,}", connection="close")
        return b"".join(parts)

    async def suggest(self, scope: Scope, receive: Receive) -> Answer:
        """The headings of one text, or of several. Raises Refused, also if too many wait or that takes too long."""
        path, fields, seconds = scope["path"], self.suggester.fields, self.limits.answer_seconds
        expected = (FORM, JSON) if path in self.forms else (JSON,)
        header = next((value for name, value in scope["headers"] if name == b"content-type"), b"").decode("latin-1")
        kind = header.partition(";")[0].strip().lower()
        if kind not in expected:
            raise Refused(415, f"content-type {header[:60]!r}, but expected {' or '.join(expected)}", connection="close")
        body, query, names = await self.body(scope, receive), form_of(scope["query_string"], "the query"), [""]
        if path in self.batches:
            questions, names = questions_of_json(body, query, fields, self.batches[path])
        elif query:
            raise Refused(400, f"{next(iter(query))[:60]}: parameters of suggest are in the body, not in the address")
        elif kind == JSON:
            questions, names = question_of_json(body, fields, self.forms[path])
        else:
            questions = [question_of_form(form_of(body, "the body"), fields, self.forms[path])]
        headings: Sequence[list[Suggestion] | None] = []
        if questions:
            future = self.worker.submit(questions)
            if future is None:
                raise Refused(503, "too many texts wait; come again later", **{"retry-after": "1"})
            try:
                async with asyncio.timeout(seconds):
                    headings = await asyncio.wrap_future(future)
            except TimeoutError:
                raise Refused(503, f"no answer after {seconds:g} s; come again later", **{"retry-after": "5"}) from None
        lines, label_names, titles = list[dict[str, Any]](), self.suggester.model.label_names, self.suggester.titles
        for name, question, suggestions in zip(names, questions, headings, strict=True):
            results = [
                {"uri": label_names[each.label], "label": titles[each.label], "score": each.probability}
                | {"threshold": self.thresholds[each.label], "given": each.given}
                | ({"words": each.words} if question.n_words > 0 else {})
                for each in suggestions or ()
            ]
            warning = {"warning": NO_WORDS} if suggestions is None else {}
            lines.append({"results": results} | warning | ({"document_id": name} if name else {}))
        answer = as_json(lines[0] if path in self.forms else lines)
        answer.n_texts = len(lines)
        return answer
