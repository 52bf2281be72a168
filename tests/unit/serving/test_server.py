"""The server on a real connection: pipelining, shutdown, slow clients, too many connections."""

import json
import socket
import threading
import time
from contextlib import contextmanager

import pytest
from support.served import SUGGEST, app_of, run_of

from hpcml.serving import serve
from hpcml.serving.serve import Server, listen

HEALTH = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
TEXT = b"text=wheat"
HEAD = f"POST {SUGGEST} HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n".encode()
POST = HEAD + b"Content-Length: %d\r\n\r\n" % len(TEXT) + TEXT


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("served"))[1]


@contextmanager
def started(app):
    with listen("127.0.0.1", 0) as listening:
        address = listening.getsockname()
        with Server(app, listening) as server:
            yield server, address


def answers(connection, n):
    received, file = [], connection.makefile("rb")
    for _ in range(n):
        if not (line := file.readline()):
            break
        headers = dict(iter(lambda: tuple(file.readline().strip().lower().split(b": ", 1)), (b"",)))
        received.append((int(line.split()[1]), file.read(int(headers[b"content-length"]))))
    return received


def test_answers_pipelined_requests_in_order(run):
    app = app_of(run)
    with started(app) as (_, address), socket.create_connection(address, timeout=30) as connection:
        connection.sendall(HEALTH + POST * 3 + HEALTH + POST.replace(SUGGEST.encode(), b"/none") + HEALTH)
        received = answers(connection, 7)
    assert [status for status, _ in received] == [200, 200, 200, 200, 200, 404, 200]
    bodies = [json.loads(body) for _, body in received]
    assert bodies[0] == bodies[4] == bodies[6] == {"status": "ok"}
    assert bodies[1] == bodies[2] == bodies[3] and bodies[1]["results"][0]["uri"] == "http://ex.org/farm"


def test_keep_alive_does_not_limit_open_requests(run, monkeypatch):
    monkeypatch.setattr(serve, "KEEP_ALIVE_SECONDS", 0)
    app, go = app_of(run), threading.Event()
    real, app.worker.work = app.worker.work, lambda questions: go.wait(30) and real(questions)
    with started(app) as (_, address), socket.create_connection(address, timeout=30) as connection:
        connection.sendall(HEALTH + POST)
        assert answers(connection, 1) == [(200, b'{"status":"ok"}')]
        for _ in range(3):  # other requests meanwhile, so the keep-alive time has passed
            with socket.create_connection(address, timeout=30) as other:
                other.sendall(HEALTH)
                assert answers(other, 1)
        go.set()
        ((status, body),) = answers(connection, 1)
    assert status == 200 and json.loads(body)["results"]


def test_answers_open_requests_before_shutdown(run):
    lines, begun = [], threading.Event()
    app = app_of(run, lines=lines)
    real = app.worker.work
    with started(app) as (server, address), socket.create_connection(address, timeout=30) as connection:

        def work(questions):
            begun.set()
            while not server._uvicorn.should_exit:
                time.sleep(0.01)
            return real(questions)

        app.worker.work = work
        connection.sendall(POST)
        assert begun.wait(30)
        server.__exit__()
        ((status, body),) = answers(connection, 1)
    assert status == 200 and json.loads(body)["results"]
    assert [json.loads(line)["status"] for line in lines] == [200]


@pytest.mark.parametrize("unfinished", ["body", "answer"])
def test_slow_requests_get_503_at_shutdown(run, monkeypatch, unfinished):
    monkeypatch.setattr(serve, "SHUTDOWN_SECONDS", 0)
    lines, begun, go = [], threading.Event(), threading.Event()
    app = app_of(run, lines=lines)
    app.worker.work = lambda questions: begun.set() or (go.wait(30) and [[]])
    with started(app) as (server, address), socket.create_connection(address, timeout=30) as connection:
        connection.sendall(HEALTH + (POST if unfinished == "answer" else POST[:-3]))
        answers(connection, 1)
        assert unfinished == "body" or begun.wait(30)
        server.__exit__()
        ((status, body),) = answers(connection, 1)
        assert connection.recv(1) == b"" and not server.is_alive
    go.set()
    assert status == 503 and json.loads(body)["detail"] == "the server is shutting down; try again later"
    assert [json.loads(line)["status"] for line in lines] == [200, 503]


def test_slow_clients_do_not_block_others(run, monkeypatch):
    monkeypatch.setattr(serve, "CONNECTIONS", 3)
    app = app_of(run, body_seconds=0.2)
    with started(app) as (_, address):
        slow = [socket.create_connection(address, timeout=30) for _ in range(2)]
        slow[0].sendall(b"GET /health HT")  # an endless header is limited only by the number of connections
        slow[1].sendall(HEAD + b"Content-Length: 99\r\n\r\n")
        with socket.create_connection(address, timeout=30) as other:
            other.sendall(POST)
            assert answers(other, 1)[0][0] == 200
            with socket.create_connection(address, timeout=30) as beyond:
                beyond.sendall(POST)
                assert answers(beyond, 1) == [(503, b"Service Unavailable")]
        assert answers(slow[1], 1)[0][0] == 408
        for each in slow:
            each.close()
