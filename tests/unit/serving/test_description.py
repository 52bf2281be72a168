"""/openapi.json against answers and docs, and /metrics against requests."""

import json
import re
import time
from pathlib import Path

import pytest
from support.served import BATCH, SUGGEST, app_of, ask, run_of

from hpcml import __version__

DOCS = Path(__file__).parents[3] / "docs" / "do" / "serve.md"
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_of(tmp_path_factory.mktemp("served"))[1]


@pytest.fixture(scope="module")
def app(run):
    return app_of(run)


@pytest.fixture(scope="module")
def spec(app):
    return ask(app, "GET", "/openapi.json").json


def resolved(spec, value):
    if set(value) == {"$ref"}:
        assert value["$ref"].startswith("#/")
        part = spec
        for name in value["$ref"][2:].split("/"):
            part = part[name]
        return resolved(spec, part)
    return value


def faults(spec, value, schema):
    schema = resolved(spec, schema)
    if "type" in schema and not isinstance(value, TYPES[schema["type"]]):
        yield f"{value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        known = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        unknown = {name for name in value.keys() - known.keys() if not any(re.search(each, name) for each in patterns)}
        yield from set(schema.get("required", ())) - value.keys()
        yield from unknown if schema.get("additionalProperties") is False else ()
        for name in known.keys() & value.keys():
            yield from faults(spec, value[name], known[name])
    elif isinstance(value, list):
        for each in value[len(schema.get("prefixItems", [])) :]:
            yield from faults(spec, each, schema.get("items", {}))
    elif value not in schema.get("enum", [value]):
        yield f"{value!r} is none of {schema['enum']}"


def addresses(spec):
    projects = spec["components"]["parameters"]["project_id"]["schema"]["enum"]
    return {path.replace("{project_id}", name): path for path in spec["paths"] for name in projects}


def test_document_has_all_addresses_and_methods(app, spec):
    paths = addresses(spec)
    assert paths.keys() == app.addresses
    in_docs = re.findall(r"`(GET|POST) (/[^` ]*)`", DOCS.read_text())
    assert len(in_docs) >= 6
    for method, address in in_docs:
        assert method.lower() in spec["paths"][paths[address]], address
    for address, path in [*paths.items(), ("/v1/projects/other/suggest", None), ("/v1/vocabs", None)]:
        for method in METHODS:
            status = ask(app, method, address).status
            expected = (
                404 if path is None else 405 if method.lower() not in spec["paths"][path] else {"GET": 200, "POST": 415}[method]
            )
            assert status == expected, (method, address)


def test_document_has_all_parameters(app, spec):
    item = spec["paths"]["/v1/projects/{project_id}/suggest"]["post"]["requestBody"]["content"]
    batch = spec["paths"]["/v1/projects/{project_id}/suggest-batch"]["post"]
    in_form, in_json = set(item[FORM]["schema"]["properties"]), set(item[JSON]["schema"]["properties"])
    in_query = {each["name"] for each in batch["parameters"] if each["in"] == "query"}
    for target, body, kind, expected in (
        (SUGGEST, b"text=a&unknown=1", FORM, in_form | {"metadata_NAME"}),
        (SUGGEST, b'{"text": "a", "unknown": 1}', JSON, in_json),
        (f"{BATCH}?unknown=1", b"[]", JSON, in_query),
    ):
        reply = ask(app, "POST", target, body, kind)
        assert reply.status == 400 and set(reply.json["detail"].partition("; expected one of ")[2].split(", ")) == expected
    values = {
        "text": "wheat",
        "limit": 2,
        "threshold": 0.25,
        "words": 1,
        "project": "p",
        "language": "en",
        "metadata": {"title": "x"},
        "document_id": "1",
    }
    assert in_form | in_json | in_query == values.keys()
    for name in in_form:
        assert ask(app, "POST", SUGGEST, {"text": "a", name: values[name]}).status == 200
    for name in in_json:
        content = {"text": "a", name: values[name]}
        assert not list(faults(spec, content, item[JSON]["schema"]))
        assert ask(app, "POST", SUGGEST, json.dumps(content).encode(), JSON).status == 200
    for name in in_query:
        assert ask(app, "POST", f"{BATCH}?{name}={values[name]}", ["a"]).status == 200
    own_default = ask(app, "POST", SUGGEST, {"text": "wheat"}).json
    schemas = {name: resolved(spec, each) for name, each in item[JSON]["schema"]["properties"].items()}
    defaults = {name: each["default"] for name, each in schemas.items() if "default" in each}
    assert defaults.keys() == {"limit", "threshold", "words"}
    stated = ask(app, "POST", SUGGEST, json.dumps({"text": "wheat"} | defaults).encode(), JSON).json
    assert [line | {"words": []} for line in own_default["results"]] == [line | {"words": []} for line in stated["results"]]


def test_answers_satisfy_their_schemas(app, spec):
    known = json.dumps({"text": "wheat and corn", "words": 2, "document_id": "1"}).encode()
    requests = [("GET", address, b"", None) for address, path in addresses(spec).items() if "get" in spec["paths"][path]]
    requests += [("POST", SUGGEST, known, JSON), ("POST", SUGGEST, b"text=none", FORM), ("POST", SUGGEST, b"text=a", None)]
    requests += [
        ("POST", SUGGEST, b"", FORM),
        ("POST", BATCH, b'["wheat", {"text": "x", "document_id": "2"}]', JSON),
        ("DELETE", "/v1", b"", None),
    ]
    statuses = set()
    for method, target, body, kind in requests:
        reply = ask(app, method, target, body, kind)
        item = spec["paths"][addresses(spec)[target]]
        responses = item[next(iter(item.keys() & {"get", "post"}))]["responses"]
        statuses.add(reply.status)
        answer = resolved(spec, responses[str(reply.status) if str(reply.status) in responses else "default"])
        ((expected, content),) = answer["content"].items()
        assert reply.headers["content-type"].removesuffix("; charset=utf-8") == expected.removesuffix("; charset=utf-8")
        value = reply.json if expected.endswith("json") else reply.body.decode()
        assert not list(faults(spec, value, content["schema"])), target
    assert statuses == {200, 400, 405, 415}


def families(text):
    found, name = {}, None
    assert text.endswith("\n")
    for line in text.splitlines():
        if comment := re.fullmatch(r"# HELP (\w+) \S.*", line):
            name = comment[1]
            assert name not in found
            found[name] = [None, {}]
        elif comment := re.fullmatch(r"# TYPE (\w+) (counter|gauge|histogram)", line):
            assert comment[1] == name and found[name] == [None, {}]
            found[name][0] = comment[2]
        else:
            sample = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z]+="[^"\\\n]*",?)+)\})? ([0-9.e+-]+)', line)
            assert sample, line
            endings = ("_bucket", "_sum", "_count") if found[name][0] == "histogram" else ("",)
            assert sample[1] in [name + ending for ending in endings]
            key = sample[1], tuple(re.findall(r'([a-z]+)="([^"]*)"', sample[2] or ""))
            assert key not in found[name][1]
            found[name][1][key] = float(sample[3])
    assert all(kind for kind, _ in found.values())
    return found


def test_metrics_count_all_requests(run):
    lines, loaded_after = [], time.time() - 0.001
    app = app_of(run, lines=lines)
    reply = ask(app, "GET", "/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    before = families(reply.body.decode())
    assert before["hpcml_documents_total"] == ["counter", {("hpcml_documents_total", ()): 0}]
    for text in ("wheat", "corn"):
        assert ask(app, "POST", SUGGEST, {"text": text}).status == 200
    assert ask(app, "POST", BATCH, ["a", "b", "c"]).status == 200
    assert ask(app, "POST", SUGGEST, {"limit": 1}).status == 400
    for wrong in ("/no/such", '/"quoted"', "/other"):
        assert ask(app, "GET", wrong).status == 404
    found = families(ask(app, "GET", "/metrics").body.decode())
    expected = {("/metrics", 200): 1, (SUGGEST, 200): 2, (BATCH, 200): 1, (SUGGEST, 400): 1, ("other", 404): 3}
    name = "hpcml_requests_total"
    assert found[name] == [
        "counter",
        {(name, (("path", path), ("status", str(status)))): n for (path, status), n in expected.items()},
    ]
    assert found["hpcml_documents_total"][1] == {("hpcml_documents_total", ()): 5}
    assert found["hpcml_build_info"] == ["gauge", {("hpcml_build_info", (("version", __version__),)): 1}]
    (loaded,) = found["hpcml_model_loaded_timestamp_seconds"][1].values()
    assert loaded_after <= loaded <= time.time()
    name, (kind, samples) = "hpcml_request_duration_seconds", found["hpcml_request_duration_seconds"]
    assert kind == "histogram"
    counts = {dict(labels)["path"]: n for (each, labels), n in samples.items() if each == f"{name}_count"}
    assert counts == {path: sum(n for (other, _), n in expected.items() if other == path) for path, _ in expected}
    for path in counts:
        buckets = [n for (each, labels), n in samples.items() if each == f"{name}_bucket" and ("path", path) in labels]
        assert buckets == sorted(buckets) and buckets[-1] == counts[path] and len(buckets) > 10
        assert samples[f"{name}_sum", (("path", path),)] > 0
