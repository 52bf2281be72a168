"""The page in a browser at two widths, light and dark, with hostile names; limits and errors of the server."""

import json
import socket
import urllib.request

import numpy as np
import pytest
from support import hostile
from support.served import SELF, SUGGEST, run_of

from hpcml.errors import ConfigError
from hpcml.serving.app import App, RequestLimits
from hpcml.serving.serve import Server, listen, open_suggester

TEXT = "the wheat, corn and grain of a farm by the sea: </textarea><script>document.title = 'broken'</script>"

LINES = """lines => lines.map(line => line.querySelector(".name").textContent + (line.classList.contains("given") ? " ✓|" : "|")
    + line.querySelector(".decision").textContent)"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    _, run = run_of(tmp_path_factory.mktemp("served"))
    suggester, about = open_suggester(SELF, run)
    suggester.titles = [hostile.NAMES[0], hostile.NAMES[4], hostile.NAMES[5]]
    app = App(suggester, about | {"name": hostile.NAMES[1]}, RequestLimits(body_bytes=1 << 20), lambda line: None)
    with listen("127.0.0.1", 0) as listening, Server(app, listening) as running:
        yield running


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
def test_page_shows_labels_with_words(server, browser, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    view, trouble = context.new_page(), []
    view.on("console", lambda message: trouble.append(message.text))
    view.on("pageerror", lambda error: trouble.append(str(error)))
    view.on("request", lambda request: None if request.url.startswith((server.url, "data:")) else trouble.append(request.url))
    view.goto(server.url)
    view.wait_for_selector("html[data-ready=yes]")
    view.click("#ask")
    assert view.text_content("#problem") == "Enter a text first."
    view.fill("textarea[data-field=text]", TEXT)
    view.click("#ask")
    view.wait_for_selector("html[data-answers='1']")
    lines = view.locator("li.result")
    assert lines.count() == 3 and view.locator("li.given").count() >= 1
    names = view.eval_on_selector_all("li.result .name", "cells => cells.map(c => c.textContent)")
    assert hostile.NAMES[0] in names and "\\u{202e}right to left, forced" in names
    words = view.eval_on_selector_all("#given li:first-child ul.words bdi", "all => all.map(w => w.textContent)")
    assert words and {"wheat", "corn", "farm", "grain", "sea"} & set(words)
    assert view.title() == "Labels for a text" and not view.query_selector_all("main script, main img, header img")
    wide, page = view.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide <= page, "wider than the window"
    ink, paper = view.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    brightness = [sum(int(part) for part in colour.strip("rgb()").split(",")) for colour in (ink, paper)]
    assert (brightness[0] < brightness[1]) == (scheme == "light") and abs(brightness[0] - brightness[1]) > 400
    view.fill("textarea[data-field=text]", "a" * (1 << 20))
    view.click("#ask")
    view.wait_for_selector("html[data-answers='2']")
    assert "bytes; at most" in view.text_content("#problem") and not view.is_visible("#found")
    assert ["413" in each for each in trouble] == [True] * 2  # the browser reports both failed requests
    context.close()


def test_page_shows_predicted_labels_first(tmp_path, browser):
    """The most probable label has the highest threshold and is not predicted; the others have low ones."""
    _, run = run_of(tmp_path)
    suggester, about = open_suggester(SELF, run)
    farm = suggester.model.label_names.index("http://ex.org/farm")
    suggester.model.thresholds = np.full(3, -9.0)
    suggester.model.thresholds[farm] = 9.0
    app = App(suggester, about, RequestLimits(), lambda line: None)
    with listen("127.0.0.1", 0) as listening, Server(app, listening) as running:
        request = urllib.request.Request(
            f"{running.url}{SUGGEST[1:]}", json.dumps({"text": TEXT}).encode(), {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as reply:
            best = json.load(reply)["results"]
        assert best[0]["uri"] == "http://ex.org/farm"
        expected = [f"{each['label']} ✓|{each['score']:.2f}, above this label’s threshold < 0.01" for each in best[1:]]
        expected.append(f"Farm|{best[0]['score']:.2f}, not above this label’s threshold > 0.99")
        view = browser.new_page()
        view.goto(running.url)
        view.wait_for_selector("html[data-ready=yes]")
        view.fill("textarea[data-field=text]", TEXT)
        for n, limit in enumerate(("1", "3"), 1):
            view.fill("#limit", limit)
            view.click("#ask")
            view.wait_for_selector(f"html[data-answers='{n}']")
            shown = view.eval_on_selector_all("li.result", LINES)
            assert shown == (expected[:2] if limit == "1" else expected)  # all predicted labels are shown
        assert view.text_content("#given-title") == "Predicted labels (2)"
        assert view.text_content("#others-title") == "Most probable other labels (1)"
        texts = view.evaluate(
            "[decimals(0.31, 0.24), decimals(0.3121, 0.3119), decimals(0.5, 0.5), decimals(1, 0.99999), decimals(0, 0.001)]"
        )
        assert texts == [
            ["0.31", "0.24"],
            ["0.3121", "0.3119"],
            ["0.500000", "0.500000"],
            ["1.00", "> 0.99"],
            ["0.00", "< 0.01"],
        ]
        view.fill("textarea[data-field=text]", "nothing that is known")
        view.click("#ask")
        view.wait_for_selector("html[data-answers='3']")
        assert view.text_content("#given-title").startswith("The text contains no word") and not view.is_visible("#others-title")
        view.close()


def talk(server, *parts, seconds=10):
    host, port = server.url.removeprefix("http://").strip("/").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as wire:
        for part in parts:
            wire.sendall(part)
        out = b""
        while more := wire.recv(1 << 16):
            out += more
    return out


def test_rejects_invalid_http(server):
    for wrong in (b"\0\1\2\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 100_000):
        assert talk(server, wrong).startswith(b"HTTP/1.1 400 ")
    assert b" 200 OK" in talk(server, b"GET /health HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")


def test_rejects_unusable_addresses(server):
    port = int(server.url.rsplit(":", 1)[1].strip("/"))
    with pytest.raises(ConfigError, match=f"--host 127.0.0.1 --port {port}: .*in use"):
        listen("127.0.0.1", port)
    with pytest.raises(ConfigError, match=r"--host no\.such\.host\.invalid: "):
        listen("no.such.host.invalid", 0)
