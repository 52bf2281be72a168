"""The ASGI application with the addresses of Annif's REST API (for Annif's backend `http`).

Every request is answered, errors as JSON problem details (RFC 9457), and logged as a line of JSON.
"""

import asyncio
import json
import sys
import threading
import time
import traceback
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from hpcml.errors import HpcmlError
from hpcml.evaluation.probabilities import probabilities
from hpcml.log import visible
from hpcml.serving.requests import FORM, JSON, RequestError, parse_form, parse_form_question, parse_json_batch, parse_json_question
from hpcml.serving.suggest import Suggester, Suggestion
from hpcml.version import version

# Project names in addresses: all labels, and only labels above their thresholds (a client of Annif cannot request these).
PROJECT, GIVEN = "hpcml", "hpcml-given"
FOLDER = Path(__file__).parent
FILES = {"/": ("page.html", "text/html"), "/page.css": ("page.css", "text/css"), "/page.js": ("page.js", "text/javascript")}
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:"
)
COMMON_HEADERS = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-store"}
NO_KNOWN_WORD = "the text contains no word of the model's vocabulary"
MAX_LOGGED_PATH = 200  # characters
# Texts scored together (faster than one by one), unless a single request has more.
BATCH_SIZE = 32
METRICS = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # upper bounds of buckets in seconds

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class RequestLimits:
    body_bytes: int = 8 << 20
    body_seconds: float = 10.0  # to receive a body
    answer_seconds: float = 30.0
    waiting: int = 256  # texts that wait for the scoring thread


@dataclass
class Answer:
    """An HTTP response, with the number of texts and the problem for the log."""

    status: int
    content: bytes
    kind: str
    headers: dict[str, str]
    n_texts: int = 0
    problem: str = ""


class ClientDisconnected(Exception):
    """The client closed the connection before its request was complete."""


def json_answer(value: object, status: int = 200, **headers: str) -> Answer:
    """Return a JSON response. Raises ValueError for NaN and infinity."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Answer(status, text.encode(errors="backslashreplace"), f"{JSON}; charset=utf-8", headers)


def problem_answer(status: int, detail: str, **headers: str) -> Answer:
    detail = visible(detail)
    problem = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    answer = json_answer(problem, status, **headers)
    answer.kind, answer.problem = "application/problem+json", detail
    return answer


class Worker:
    """A thread that calls `work` for items of other threads, in their order. An error goes to all requests of the batch."""

    def __init__(self, work: Callable[[Sequence[Any]], Sequence[Any]], max_waiting: int) -> None:
        self.work, self.max_waiting = work, max_waiting
        self._waiting: deque[tuple[Sequence[Any], Future[Any]]] = deque()
        self._stopping, self._changed = False, threading.Condition()
        self._thread = threading.Thread(target=self._run, name="scoring", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._stopping

    def submit(self, items: Sequence[Any]) -> Future[Any] | None:
        """Return the future results of items; None if too many are waiting."""
        with self._changed:
            self._waiting = deque((each, future) for each, future in self._waiting if not future.cancelled())
            n_waiting = sum(len(each) for each, _ in self._waiting)
            if self._stopping or (n_waiting > 0 and n_waiting + len(items) > self.max_waiting):
                return None
            self._waiting.append((items, future := Future[Any]()))
            self._changed.notify()
        return future

    def stop(self) -> None:
        """Accept no more items and cancel those that are waiting."""
        with self._changed:
            self._stopping = True
            for _, future in self._waiting:
                future.cancel()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if self._stopping:
                    return
                batch = [self._waiting.popleft()]
                size = len(batch[0][0])
                while self._waiting and size + len(self._waiting[0][0]) <= BATCH_SIZE:
                    batch.append(self._waiting.popleft())
                    size += len(batch[-1][0])
            batch = [(items, future) for items, future in batch if future.set_running_or_notify_cancel()]
            if not batch:
                continue
            try:
                results = self.work([item for items, _ in batch for item in items])
            except Exception as error:  # noqa: BLE001 - the error is raised where the result is awaited
                for _, future in batch:
                    future.set_exception(error)
                continue
            begin = 0
            for items, future in batch:
                future.set_result(results[begin : begin + len(items)])
                begin += len(items)


class Metrics:
    def __init__(self, version: str) -> None:
        self.version, self.loaded, self.n_documents = version, time.time(), 0
        self.requests: Counter[tuple[str, int]] = Counter()  # by path and status
        self.buckets: defaultdict[str, Counter[int]] = defaultdict(Counter)  # by path: requests per index into BOUNDS
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def add(self, path: str, status: int, seconds: float, n_documents: int) -> None:
        self.requests[path, status] += 1
        self.buckets[path][bisect_left(BOUNDS, seconds)] += 1
        self.seconds[path] += seconds
        self.n_documents += n_documents

    def lines(self) -> Iterator[str]:

        def describe(name: str, kind: str, text: str) -> str:
            return f"# HELP {name} {text}\n# TYPE {name} {kind}"

        yield describe("hpcml_build_info", "gauge", "Version of hpcml.")
        yield f'hpcml_build_info{{version="{self.version}"}} 1'
        yield describe("hpcml_model_loaded_timestamp_seconds", "gauge", "Time at which the model was loaded.")
        yield f"hpcml_model_loaded_timestamp_seconds {self.loaded:.3f}"
        yield describe("hpcml_documents_total", "counter", "Texts with labels returned.")
        yield f"hpcml_documents_total {self.n_documents}"
        yield describe("hpcml_requests_total", "counter", "Requests by path and status.")
        for (path, status), n in sorted(self.requests.items()):
            yield f'hpcml_requests_total{{path="{path}",status="{status}"}} {n}'
        name = "hpcml_request_duration_seconds"
        yield describe(name, "histogram", "Time from the header of a request to its response, by path.")
        for path, counts in sorted(self.buckets.items()):
            total = 0
            for index, bound in enumerate((*map(str, BOUNDS), "+Inf")):
                total += counts[index]
                yield f'{name}_bucket{{path="{path}",le="{bound}"}} {total}'
            yield f'{name}_sum{{path="{path}"}} {self.seconds[path]:.6f}'
            yield f'{name}_count{{path="{path}"}} {total}'


class App:
    """Answers requests for labels of texts; `about` describes the model to clients, `log` takes lines of the access log."""

    def __init__(self, suggester: Suggester, about: dict[str, Any], limits: RequestLimits, log: Callable[[str], None]) -> None:
        self.suggester, self.limits, self.log = suggester, limits, log
        self.worker, self.metrics = Worker(suggester, limits.waiting), Metrics(version())
        self.thresholds = probabilities(suggester.model.thresholds[None], *suggester.sigmoids)[0].tolist()
        names = (PROJECT, GIVEN)
        api = json.loads((FOLDER / "openapi.json").read_bytes())
        api["info"]["version"] = version()
        title = json_answer({"title": "hpcml serve, with Annif's REST API", "version": version()})
        self.pages = {
            "/v1": title,
            "/v1/": title,
            "/v1/projects": json_answer({"projects": [about | {"project_id": name} for name in names]}),
            **{f"/v1/projects/{name}": json_answer(about | {"project_id": name}) for name in names},
            "/openapi.json": json_answer(api),
        }
        for path, (name, kind) in FILES.items():
            headers = {"content-security-policy": CONTENT_SECURITY_POLICY}
            self.pages[path] = Answer(200, (FOLDER / name).read_bytes(), f"{kind}; charset=utf-8", headers)
        # by address: whether only labels above their thresholds are returned
        self.forms = {f"/v1/projects/{name}/suggest": name == GIVEN for name in names}
        self.batches = {f"{path}-batch": only_given for path, only_given in self.forms.items()}
        stopped = problem_answer(503, "the scoring thread has stopped; restart the server")
        self.calls = {
            "/health": lambda: json_answer({"status": "ok"}) if self.worker.is_alive else stopped,
            "/metrics": lambda: Answer(200, "".join(f"{line}\n" for line in self.metrics.lines()).encode(), METRICS, {}),
        }
        self.addresses = {*self.pages, *self.calls, *self.forms, *self.batches}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin = time.perf_counter()
        try:
            answer = await self._answer(scope, receive)
        except ClientDisconnected:
            self._log_request(scope, begin, 499, 0, 0, "the client closed the connection")
            return
        except asyncio.CancelledError:  # uvicorn cancels open requests when the shutdown takes too long
            answer = problem_answer(503, "the server is shutting down; try again later", connection="close", **{"retry-after": "5"})
        headers = {**COMMON_HEADERS, **answer.headers, "content-type": answer.kind, "content-length": str(len(answer.content))}
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._log_request(scope, begin, answer.status, answer.n_texts, len(answer.content), answer.problem)
        await send({"type": "http.response.start", "status": answer.status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.content})

    def _log_request(self, scope: Scope, begin: float, status: int, n_texts: int, size: int, problem: str) -> None:
        """Count a request and log it. The log never contains texts."""
        client, seconds = scope.get("client") or ("", 0), time.perf_counter() - begin
        self.metrics.add(scope["path"] if scope["path"] in self.addresses else "other", status, seconds, n_texts)
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "client": client[0],
            "method": scope["method"][:20],
            "path": scope["path"][:MAX_LOGGED_PATH],
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
                raise RequestError(404, "unknown address; see /openapi.json")
            if method != allowed:
                raise RequestError(405, f"method {scope['method'][:20]} is not allowed; use {allowed}", allow=allowed)
            if path in self.pages:
                return self.pages[path]
            if path in self.calls:
                return self.calls[path]()
            return await self._suggest(scope, receive)
        except RequestError as error:
            return problem_answer(error.status, error.detail, **error.headers)
        except HpcmlError as error:
            return problem_answer(500, str(error))
        except ClientDisconnected:
            raise
        except Exception as error:  # noqa: BLE001 - the server must stay available
            traceback.print_exc(file=sys.stderr)
            return problem_answer(500, f"unexpected error: {type(error).__name__}")

    async def _read_body(self, receive: Receive) -> bytes:
        """Receive the body of a request. Raises RequestError if it is too long or too slow, ClientDisconnected."""
        parts, size, limit = [], 0, self.limits.body_bytes
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise ClientDisconnected
                    size += len(message.get("body", b""))
                    if size <= limit:
                        parts.append(message.get("body", b""))
                    else:
                        parts.clear()  # read the rest without keeping it, because clients do not read the answer before
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            detail = f"the request was not complete after {self.limits.body_seconds:g} s"
            raise RequestError(408, detail, connection="close") from None
        if size > limit:
            raise RequestError(413, f"the body has {size:,} bytes; at most {limit:,} are allowed", connection="close")
        return b"".join(parts)

    async def _suggest(self, scope: Scope, receive: Receive) -> Answer:
        """Return the labels of one or several texts. Raises RequestError, also if too many texts wait or scoring takes too long."""
        path, fields, seconds = scope["path"], self.suggester.fields, self.limits.answer_seconds
        expected = (FORM, JSON) if path in self.forms else (JSON,)
        header = next((value for name, value in scope["headers"] if name == b"content-type"), b"").decode("latin-1")
        kind = header.partition(";")[0].strip().lower()
        if kind not in expected:
            raise RequestError(415, f"content-type {header[:60]!r}; expected {' or '.join(expected)}", connection="close")
        body, query, names = await self._read_body(receive), parse_form(scope["query_string"], "query"), [""]
        if path in self.batches:
            questions, names = parse_json_batch(body, query, fields, self.batches[path])
        elif query:
            raise RequestError(400, f"query parameter {next(iter(query))[:60]}: parameters of suggest belong in the body")
        elif kind == JSON:
            questions, names = parse_json_question(body, fields, self.forms[path])
        else:
            questions = [parse_form_question(parse_form(body, "body"), fields, self.forms[path])]
        suggestions: Sequence[list[Suggestion] | None] = []
        if questions:
            future = self.worker.submit(questions)
            if future is None:
                raise RequestError(503, "too many texts are waiting; try again later", **{"retry-after": "1"})
            try:
                async with asyncio.timeout(seconds):
                    suggestions = await asyncio.wrap_future(future)
            except TimeoutError:
                raise RequestError(503, f"no answer after {seconds:g} s; try again later", **{"retry-after": "5"}) from None
        out, label_names, titles = list[dict[str, Any]](), self.suggester.model.label_names, self.suggester.titles
        for name, question, labels in zip(names, questions, suggestions, strict=True):
            results = [
                {"uri": label_names[each.label], "label": titles[each.label], "score": each.probability}
                | {"threshold": self.thresholds[each.label], "given": each.is_given}
                | ({"words": each.words} if question.n_words > 0 else {})
                for each in labels or ()
            ]
            warning = {"warning": NO_KNOWN_WORD} if labels is None else {}
            out.append({"results": results} | warning | ({"document_id": name} if name else {}))
        answer = json_answer(out[0] if path in self.forms else out)
        answer.n_texts = len(out)
        return answer
