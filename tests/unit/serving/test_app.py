"""The application without a network: Annif's protocol, the values of `hpcml predict`, and invalid requests."""

import asyncio
import json
import threading

import h5py
import numpy as np
import pytest
from support.judged import lines_of
from support.judged import predicted as write
from support.served import BATCH, SELF, SUBJECTS, SUGGEST, app_of, ask, exchange, run_of, texts
from support.training import train

from hpcml.data.dataset import DataFile
from hpcml.errors import ConfigError
from hpcml.evaluation.thresholds import calibrate
from hpcml.evaluation.top import SparseTop
from hpcml.model.open import open_model
from hpcml.prediction import loaded
from hpcml.serving.app import NO_KNOWN_WORD, Worker
from hpcml.serving.serve import open_suggester
from hpcml.serving.suggest import Question

KINDS = {"kept": {}, "pairs": {}, "sparse": {"drop": 0.4}, "calibrated": {"loss": "hinge"}}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    data, run = run_of(tmp_path_factory.mktemp("served"))
    return data, run, app_of(run)


def predicted(run, data, folder, n_labels):
    ids, labels, values = lines_of(write(run, data, folder / "all.h5", top=n_labels, force=True))
    rows = {name: number for number, name in enumerate(dict.fromkeys(ids))}
    probabilities = np.empty((len(rows), n_labels))
    probabilities[[rows[name] for name in ids], labels] = values
    given = [set() for _ in rows]
    ids, labels, _ = lines_of(write(run, data, folder / "given.h5", force=True))
    for name, label in zip(ids, labels.tolist(), strict=True):
        given[rows[name]].add(label)
    return probabilities, given


@pytest.mark.parametrize("kind", KINDS)
def test_labels_equal_those_of_predict_bit_for_bit(kind, tmp_path, monkeypatch):
    data, run = run_of(tmp_path, **KINDS[kind])
    if kind == "calibrated":
        with DataFile(data) as dataset:
            calibrate(SELF, open_model(run), dataset, "all")
    if kind == "pairs":
        monkeypatch.setattr(loaded, "can_keep_weights", lambda model: False)
    app = app_of(run)
    assert isinstance(app.suggester.loaded._best_labels, SparseTop) == (kind == "sparse")
    assert kind == "sparse" or app.suggester.loaded._best_labels.keeps == (kind != "pairs")
    expected, given = predicted(run, data, tmp_path, open_model(run).n_labels)
    names = open_model(run).label_names
    together = ask(app, "POST", f"{BATCH}?limit=9", [text for text, _ in texts(60)]).json
    assert len(together) == 60
    for row, (text, _) in enumerate(texts(60)):
        alone = ask(app, "POST", SUGGEST, {"text": text, "limit": 9}).json["results"]
        assert alone == together[row]["results"]
        order = np.argsort(-expected[row], kind="stable")
        assert [(line["uri"], line["score"]) for line in alone] == [(names[k], expected[row, k]) for k in order.tolist()]
        assert {names.index(line["uri"]) for line in alone if line["given"]} == given[row]


def test_annif_protocol(served):
    _, _, app = served
    reply = ask(app, "POST", SUGGEST, {"text": "wheat and corn", "project": "any", "limit": 2, "language": "en"})
    assert reply.status == 200 and reply.headers["content-type"].startswith("application/json")
    first, second = reply.json["results"]
    assert first["uri"] == "http://ex.org/farm" and first["label"] == "Farm" and first["given"] is True
    assert 1 >= first["score"] >= second["score"] >= 0 and "words" not in first
    about = ask(app, "GET", SUGGEST.replace("/suggest", "")).json  # requested by Annif's backend
    assert about["is_trained"] is True and about["modification_time"].endswith("Z")
    given = about | {"project_id": "hpcml-given"}
    assert ask(app, "GET", "/v1/projects/hpcml-given").json == given
    assert ask(app, "GET", "/v1/projects").json == {"projects": [about, given]}
    documents = {"documents": [{"text": "wheat", "document_id": "7"}, {"text": "court", "metadata": {"title": "ship"}}]}
    both = ask(app, "POST", f"{BATCH}?limit=1", json.dumps(documents).encode(), "application/json; charset=utf-8").json
    assert both[0]["document_id"] == "7" and "document_id" not in both[1]
    assert [line["results"][0]["uri"] for line in both] == ["http://ex.org/farm", "http://ex.org/law"]
    titled = ask(app, "POST", SUGGEST, {"text": "court", "metadata_title": "ship"}).json["results"]
    assert titled[0] == both[1]["results"][0]
    labels = {line["uri"]: line["label"] for line in titled}
    assert labels == {uri: title or "In the law" for uri, (title, _) in SUBJECTS.items()}
    assert ask(app, "POST", BATCH, []).json == []
    assert ask(app, "POST", SUGGEST, {"text": "wheat", "limit": 0}).json == {"results": []}
    likely = ask(app, "POST", SUGGEST, {"text": "wheat", "threshold": 0.5}).json["results"]
    assert [line["score"] >= 0.5 for line in likely] == [True] * len(likely) and len(likely) < 3
    assert ask(app, "HEAD", "/health").body == b""
    assert ask(app, "GET", "/health").json == {"status": "ok"}


def test_second_project_returns_only_labels_above_thresholds(served):
    _, _, app = served
    address = SUGGEST.replace("hpcml", "hpcml-given")
    texts_of = ["wheat and corn", "court", "the ship and the court", "nothing that is known"]
    counts = set()
    for text in texts_of:
        every = ask(app, "POST", SUGGEST, {"text": text, "limit": 100}).json["results"]
        given = [line for line in every if line["given"]]
        assert ask(app, "POST", address, {"text": text, "limit": 100}).json["results"] == given
        assert ask(app, "POST", address, {"text": text, "limit": 1}).json["results"] == given[:1]
        counts.add((len(given), len(every)))
    assert {n < total for n, total in counts} != {False} and max(counts)[0] > 0
    (batch,) = ask(app, "POST", f"{address}-batch", ["wheat and corn"]).json
    assert batch["results"] == ask(app, "POST", address, {"text": "wheat and corn"}).json["results"]


def test_limit_applies_after_thresholds(served, monkeypatch):
    suggester = served[2].suggester
    values = [["wheat and corn"] if field.name == "text" else [] for field in suggester.fields]
    first, second, *_ = suggester([Question(values, limit=9)])[0]
    thresholds = np.full(suggester.model.n_labels, np.inf)
    thresholds[second.label] = -np.inf
    monkeypatch.setattr(suggester.model, "thresholds", thresholds)
    assert [each.label for each in suggester([Question(values, limit=1, only_given=True)])[0]] == [second.label] != [first.label]


@pytest.mark.parametrize("text", ["", "nothing that is known"])
def test_texts_without_known_words_get_no_labels(served, text):
    _, _, app = served
    expected = {"results": [], "warning": NO_KNOWN_WORD}
    assert ask(app, "POST", SUGGEST, {"text": text}).json == expected
    both = ask(app, "POST", BATCH, [text, "wheat"]).json
    assert both[0] == expected and both[1]["results"] and "warning" not in both[1]


def test_word_contributions_sum_to_the_log_odds(served):
    _, run, app = served
    model = open_model(run)
    for text in ("wheat corn, the farm and the ship", "nothing that is known"):
        for line in ask(app, "POST", SUGGEST, {"text": text, "words": 100}).json["results"]:
            added = [value for _, value in line["words"]]
            assert added == sorted(added, key=lambda value: -abs(value))
            odds = sum(added) + float(model.bias[model.label_names.index(line["uri"])])
            assert line["score"] == pytest.approx(1 / (1 + np.exp(-odds)), rel=1e-9)
    best = ask(app, "POST", SUGGEST, {"text": "wheat corn, the farm", "words": 2}).json["results"][0]
    assert {word for word, _ in best["words"]} <= {"wheat", "corn", "farm", "wheat corn"} and len(best["words"]) == 2


FORM, JSON = "application/x-www-form-urlencoded", "application/json"
BAD = {
    "no address": (404, "GET", "/nothing", b"", None),
    "a way up": (404, "GET", "/../page.html", b"", None),
    "method": (405, "DELETE", SUGGEST, b"", None),
    "no kind": (415, "POST", SUGGEST, b"text=a", None),
    "form as JSON": (415, "POST", BATCH, b"text=a", FORM),
    "kind": (415, "POST", SUGGEST, b"text=a", "multipart/form-data; boundary=\xff"),
    "no text": (400, "POST", SUGGEST, b"limit=3", FORM),
    "no form": (400, "POST", SUGGEST, b"text", FORM),
    "bytes": (400, "POST", SUGGEST, b"text=\xff\xfe", FORM),
    "not UTF-8": (400, "POST", SUGGEST, b"text=%ff", FORM),
    "twice": (400, "POST", SUGGEST, b"text=a&text=b", FORM),
    "many": (400, "POST", SUGGEST, b"&".join(b"a%d=1" % k for k in range(1000)), FORM),
    "unknown": (400, "POST", SUGGEST, b"text=a&limits=3", FORM),
    "limit": (400, "POST", SUGGEST, b"text=a&limit=-1", FORM),
    "limit long": (400, "POST", SUGGEST, b"text=a&limit=" + b"9" * 5000, FORM),
    "threshold": (400, "POST", SUGGEST, b"text=a&threshold=nan", FORM),
    "no JSON": (400, "POST", BATCH, b"{", JSON),
    "deep": (400, "POST", BATCH, b"[" * 60_000, JSON),
    "no list": (400, "POST", BATCH, b'"text"', JSON),
    "number": (400, "POST", BATCH, b"[3]", JSON),
    "text": (400, "POST", BATCH, b'[{"text": 3}]', JSON),
    "metadata": (400, "POST", BATCH, b'[{"metadata": []}]', JSON),
    "query name": (400, "POST", BATCH + "?text=x", b"[]", JSON),
    "too many": (413, "POST", BATCH, b"[" + b'"",' * 1000 + b'""]', JSON),
    "query of a form": (400, "POST", SUGGEST + "?limit=3", b"text=a", FORM),
    "JSON documents": (400, "POST", SUGGEST, b'{"documents": [{"text": "a"}]}', JSON),
    "JSON without text": (400, "POST", SUGGEST, b'{"limit": 3}', JSON),
    "JSON limit of a fraction": (400, "POST", SUGGEST, b'{"text": "a", "limit": 3.5}', JSON),
    "JSON limit that is true": (400, "POST", SUGGEST, b'{"text": "a", "limit": true}', JSON),
    "JSON threshold": (400, "POST", SUGGEST, b'{"text": "a", "threshold": NaN}', JSON),
    "too long": (413, "POST", SUGGEST, b"text=" + b"a" * (1 << 17), FORM),
}


def test_json_and_forms_get_the_same_answers(served):
    address = SUGGEST
    for content in (
        {"text": "wheat and corn"},
        {"text": "court", "metadata": {"title": "ship"}, "limit": 2, "threshold": 0.01, "words": 3},
        {"text": "court", "limit": 0, "language": "en", "project": "any"},
        {"metadata": {"title": "ship"}},
        {"text": "nothing that is known"},
    ):
        metadata = {f"metadata_{name}": value for name, value in content.get("metadata", {}).items()}
        form = {"text": ""} | {name: value for name, value in content.items() if name != "metadata"} | metadata
        expected = ask(served[2], "POST", address, form).json
        body = json.dumps(content | {"document_id": "7"}).encode()
        assert ask(served[2], "POST", address, body, "Application/JSON;charset=utf-8").json == expected | {"document_id": "7"}


def test_thresholds_are_probabilities(served, tmp_path):
    data, _, _ = served
    train("dual", SELF, data, tmp_path / "hinge")
    with DataFile(data) as dataset:
        calibrate(SELF, open_model(tmp_path / "hinge"), dataset, "all")
    with h5py.File(tmp_path / "hinge" / "model.h5", "r+") as file:
        file["labels/threshold"][...] = np.array([-0.3, 0.2, 0.05])
        slope, offset = (file[f"labels/sigmoid_{name}"][:] for name in ("slope", "offset"))
    app = app_of(tmp_path / "hinge")
    results = ask(app, "POST", SUGGEST, {"text": "the ship and the court"}).json["results"]
    assert len(results) == 3 and {line["given"] for line in results} == {True, False}
    names = app.suggester.model.label_names
    for line in results:
        label = names.index(line["uri"])
        score = [-0.3, 0.2, 0.05][label]
        assert line["threshold"] == pytest.approx(1 / (1 + np.exp(-slope[label] * score - offset[label])), rel=1e-12)
        assert line["given"] == (line["score"] > line["threshold"])


@pytest.mark.parametrize("problem", sorted(BAD))
def test_rejects_invalid_requests(served, problem, capfd):
    status, method, target, body, kind = BAD[problem]
    lines = []
    app = app_of(served[1], lines=lines, body_bytes=1 << 16)
    reply = ask(app, method, target, body, kind, pieces=3)
    assert reply.status == status == reply.json["status"] and reply.json["detail"]
    assert reply.headers["content-type"] == "application/problem+json"
    assert "Traceback" not in "".join(capfd.readouterr())
    (line,) = map(json.loads, lines)
    assert line["status"] == status and line["problem"] == reply.json["detail"] and "text" not in line


def test_slow_bodies_and_disconnected_clients(served):
    lines = []
    app = app_of(served[1], lines=lines, body_seconds=0.05)
    assert ask(app, "POST", SUGGEST, b"text=a", FORM, slow=True).status == 408

    async def leave():
        async def receive():
            return {"type": "http.disconnect"}

        scope = {"method": "POST", "path": SUGGEST, "query_string": b"", "headers": [(b"content-type", FORM.encode())]}
        await app(scope, receive, None)

    asyncio.run(leave())
    assert [json.loads(line)["status"] for line in lines] == [408, 499]


def test_too_many_waiting_texts_and_slow_answers(served):
    app = app_of(served[1], answer_seconds=0.2, waiting=2)
    begun, go = threading.Event(), threading.Event()
    real = app.worker.work

    def work(questions):
        begun.set()
        assert go.wait(30)
        return real(questions)

    app.worker.work = work

    async def many():
        first = asyncio.create_task(exchange(app, "POST", SUGGEST, b"text=a", FORM))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(exchange(app, "POST", SUGGEST, b"text=a", FORM)) for _ in range(3)]
        await asyncio.sleep(0)
        health = await exchange(app, "GET", "/health")
        return [await first, *[await other for other in others]], health

    replies, health = asyncio.run(many())
    go.set()
    assert health.status == 200
    assert [reply.status for reply in replies] == [503] * 4 and all("retry-after" in reply.headers for reply in replies)
    assert sorted("wait" in reply.json["detail"] for reply in replies) == [False, False, False, True]
    app.limits = app.limits.__class__()
    assert ask(app, "POST", SUGGEST, {"text": "a"}).status == 200  # the server continues
    app.worker.stop()
    assert ask(app, "GET", "/health").status == 503 and ask(app, "POST", SUGGEST, {"text": "a"}).status == 503


def test_internal_errors_are_answered(served, capfd):
    app = app_of(served[1])

    def work(questions):
        raise ZeroDivisionError("of ours")

    app.worker.work = work
    reply = ask(app, "POST", SUGGEST, {"text": "a"})
    assert reply.status == 500 and "ZeroDivisionError" in reply.json["detail"]
    assert "of ours" in capfd.readouterr().err  # the traceback is logged


def test_worker_scores_waiting_texts_together():
    sizes, go = [], threading.Event()

    def work(items):
        assert go.wait(30)
        sizes.append(len(items))
        return [item + 1 for item in items]

    worker = Worker(work, 1000)
    futures = [worker.submit([n, n]) for n in range(40)]
    big = worker.submit(list(range(50)))
    go.set()
    assert [future.result(30) for future in futures] == [[n + 1, n + 1] for n in range(40)]
    assert big.result(30) == list(range(1, 51))
    assert sum(sizes) == 130 and max(sizes) == 50 and sizes[1] == 32
    worker.stop()


def test_rejects_models_without_probabilities(served, tmp_path):
    data, _, _ = served
    train("dual", SELF, data, tmp_path / "hinge")
    with pytest.raises(ConfigError, match="no probabilities"):
        open_suggester(SELF, tmp_path / "hinge")


def test_page_may_load_only_its_own_files(served):
    reply = ask(served[2], "GET", "/")
    assert b"<script src=" in reply.body and b"onclick" not in reply.body
    rules = reply.headers["content-security-policy"]
    assert "default-src 'none'" in rules and "script-src 'self'" in rules and "unsafe" not in rules
    assert ask(served[2], "GET", "/page.js").headers["content-type"].startswith("text/javascript")
