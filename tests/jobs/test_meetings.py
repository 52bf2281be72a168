"""Chains of commands, from documents to measures: every number equals the one that follows from the documents by definition."""

import csv
import json
import re

import numpy as np
import pytest
from support import meetings
from support.converted import label_sets, strings
from support.jobs import done
from support.meetings import Twin
from support.oracles_bioasq import flat
from support.served import SUGGEST, app_of, ask
from support.tables import table

CLOSE = {"rel": 1e-6, "abs": 1e-9}


@pytest.fixture(scope="module")
def run(standing):
    return lambda *words, ranks=2: done(standing(ranks, *words)).stdout


@pytest.fixture(scope="module")
def first(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("meetings")
    docs = meetings.documents(1, 360)
    later = meetings.documents(2, 90, {"Algae": 0.3, "Zoos": 0.05}, splits=())
    run("convert", "jsonl", meetings.write(folder / "docs.jsonl", docs), "-o", folder / "docs.h5")
    run("convert", "jsonl", meetings.write(folder / "later.jsonl", later), "-o", folder / "later.h5", "--like", folder / "docs.h5")
    return folder, docs, later


@pytest.fixture(scope="module")
def trained(run, first):
    """The first folder with the runs `dual`, which gives scores, and `logistic`, which gives log-odds."""
    run("train", "dual", first[0] / "docs.h5", "-o", first[0] / "dual")
    run("train", "dual", first[0] / "docs.h5", "-o", first[0] / "logistic", "--loss", "logistic")
    return first


def check_evaluate(run, model, data, split, docs, folder, ranks=2):
    twin, file = Twin(model, data, docs, split), folder / "measures.json"
    run("evaluate", model, data, "--split", split, "--json", file, "--force", ranks=ranks)
    measures = json.loads(file.read_text())
    assert measures["precision_at"] == pytest.approx({str(k): value for k, value in twin.precision_at().items()}, **CLOSE)
    assert measures["ndcg_at"] == pytest.approx({str(k): value for k, value in twin.ndcg_at().items()}, **CLOSE)
    # evaluate averages over ties
    assert measures["micro"]["average_precision"] == pytest.approx(twin.micro_average_precision(), rel=2e-3)
    assert measures["macro"]["average_precision"]["value"] == pytest.approx(twin.macro_average_precision(), rel=2e-3)
    assert {name: measures["micro"][name] for name in ("precision", "recall", "f1")} == pytest.approx(twin.micro(), **CLOSE)
    assert measures["instance_f1"] == pytest.approx(twin.instance_f1(), **CLOSE)
    return twin, measures


def check_predict(run, model, data, split, twin, folder):
    measures, labels, answers = folder / "bioasq.json", folder / "labels.csv", folder / "answers.json"
    run("evaluate", model, data, "--split", split, "--measures", "bioasq", "--json", measures)
    expected = flat(twin.true, twin.given)
    reported = json.loads(measures.read_text())["measures"]
    assert {name: reported[name] for name in expected} == pytest.approx(expected, **CLOSE)
    run("predict", model, data, "-o", labels, "--split", split, "--top", 3)
    best = [(name, twin.names[label]) for name, row in zip(twin.ids, twin.best(3), strict=True) for label in row]
    assert [(row["id"], row["label"]) for row in table(labels)] == best
    run("predict", model, data, "-o", labels, "--split", split, "--force")
    predicted = {(name, label) for name, row in zip(twin.ids, twin.given, strict=True) for label in row}
    assert {(row["id"], row["label"]) for row in table(labels)} == predicted
    run("predict", model, data, "-o", answers, "--split", split, "--top", 2)
    answered = {each["pmid"]: each["labels"] for each in json.loads(answers.read_text())["documents"]}
    assert answered == {name: [twin.names[label] for label in row] for name, row in zip(twin.ids, twin.best(2), strict=True)}


def check_serve(run_folder, twin, docs):
    app, by_id = app_of(run_folder), {doc["id"]: doc for doc in docs}
    for row in range(0, len(twin.ids), 20):
        doc = by_id[twin.ids[row]]
        reply = ask(app, "POST", SUGGEST, {"text": f"{doc['title']} {doc['text']}", "limit": "3"}).json["results"]
        best = twin.best(3)[row]
        assert [each["uri"] for each in reply] == [twin.names[label] for label in best]
        assert [each["score"] for each in reply] == pytest.approx(twin.probabilities[row, best].tolist(), rel=1e-5)


def check_report(run, run_folder, measures, folder, *more):
    run("report", run_folder, "-o", folder / "page.html", *more)
    text = (folder / "page.html").read_text()
    for value in (measures["macro"]["average_precision"]["value"], measures["micro"]["f1"], measures["precision_at"]["1"]):
        assert re.search(rf"\b{value:.3f}", text), value


def test_train(run, trained, tmp_path):
    folder, docs, _ = trained
    twin, measures = check_evaluate(run, folder / "dual", folder / "docs.h5", "test", docs, tmp_path, ranks=3)
    check_predict(run, folder / "dual", folder / "docs.h5", "test", twin, tmp_path)
    check_report(run, folder / "dual", measures, tmp_path)


def test_unknown_labels_count_as_missed(run, trained, tmp_path):
    folder, _, later = trained
    twin, measures = check_evaluate(run, folder / "dual", folder / "later.h5", "all", later, tmp_path, ranks=3)
    assert {"Algae", "Zoos"} <= set().union(*twin.true) and "Algae" not in twin.names
    check_predict(run, folder / "dual", folder / "later.h5", "all", twin, tmp_path)
    check_report(run, folder / "dual", measures, tmp_path, "--data", folder / "later.h5")
    run("split", folder / "later.h5", "-o", tmp_path / "halves.h5", "--test-share", 0.5)
    check_evaluate(run, folder / "dual", tmp_path / "halves.h5", "test", later, tmp_path)


def test_tune(run, first, tmp_path):
    folder, docs, later = first
    run("tune", folder / "docs.h5", "-o", tmp_path / "tuned")
    twin, measures = check_evaluate(run, tmp_path / "tuned", folder / "docs.h5", "test", docs, tmp_path, ranks=3)
    assert (np.argsort(-twin.odds, axis=1) != np.argsort(-twin.scores, axis=1)).any()
    check_predict(run, tmp_path / "tuned", folder / "docs.h5", "test", twin, tmp_path)
    check_serve(tmp_path / "tuned", twin, docs)
    check_report(run, tmp_path / "tuned", measures, tmp_path)
    run("prune", tmp_path / "tuned", folder / "docs.h5", "--below", 0.02, "-o", tmp_path / "pruned.h5")
    check_evaluate(run, tmp_path / "pruned.h5", folder / "later.h5", "all", later, tmp_path)


@pytest.mark.parametrize(("name", "measure"), [("dual", "micro"), ("logistic", "micro"), ("dual", "instance")])
def test_one_threshold_for_all_labels(run, trained, tmp_path, name, measure):
    folder, docs, later = trained
    for data, split, truth in (("docs.h5", "valid", docs), ("later.h5", "all", later)):
        model = tmp_path / f"{split}.h5"
        run("threshold", folder / name, folder / data, "--measure", measure, "--split", split, "-o", model)
        twin = Twin(model, folder / data, truth, split)
        if measure == "micro":
            assert twin.micro()["f1"] == pytest.approx(twin.best_micro_f1(), **CLOSE)
        else:
            bounds = np.unique(twin.odds) - 1e-12
            predicted = ([{twin.names[label] for label in np.nonzero(row > bound)[0]} for row in twin.odds] for bound in bounds)
            assert twin.instance_f1() == pytest.approx(max(map(twin.instance_f1, predicted)), **CLOSE)
    check_evaluate(run, model, folder / "docs.h5", "test", docs, tmp_path)


def test_calibrate_and_threshold(run, trained, tmp_path):
    folder, docs, _ = trained
    model = tmp_path / "calibrated.h5"
    run("calibrate", folder / "dual", folder / "docs.h5", "-o", model)
    twin, _ = check_evaluate(run, model, folder / "docs.h5", "test", docs, tmp_path)
    assert (np.argsort(-twin.odds, axis=1) != np.argsort(-twin.scores, axis=1)).any()
    run("threshold", model, folder / "docs.h5", "--measure", "label")
    twin, _ = check_evaluate(run, model, folder / "docs.h5", "test", docs, tmp_path)
    check_predict(run, model, folder / "docs.h5", "test", twin, tmp_path)


def test_train_parts_prune_and_calibrate(run, trained, tmp_path):
    folder, docs, _ = trained
    for part in ("1/2", "2/2"):
        run("train", "dual", folder / "docs.h5", "-o", tmp_path / f"part{part[0]}", "--label-part", part)
    run("merge", tmp_path / "part1", tmp_path / "part2", "-o", tmp_path / "joined")
    assert (tmp_path / "joined" / "model.h5").read_bytes() == (folder / "dual" / "model.h5").read_bytes()
    printed = run("prune", tmp_path / "joined", folder / "docs.h5", "--below", 0.05, "-o", tmp_path / "pruned.h5")
    _, measures = check_evaluate(run, tmp_path / "pruned.h5", folder / "docs.h5", "test", docs, tmp_path)
    assert f"{measures['macro']['average_precision']['value']:.4f}" in printed
    run("calibrate", tmp_path / "pruned.h5", folder / "docs.h5")
    check_evaluate(run, tmp_path / "pruned.h5", folder / "docs.h5", "test", docs, tmp_path)


def test_select_features(run, first, tmp_path):
    folder, docs, later = first
    run("select", folder / "docs.h5", "-o", tmp_path / "few.h5", "--by", "chi2", "--features", 30)
    run("select", folder / "later.h5", "-o", tmp_path / "few-later.h5", "--like", tmp_path / "few.h5")
    run("train", "dual", tmp_path / "few.h5", "-o", tmp_path / "run")
    check_evaluate(run, tmp_path / "run", tmp_path / "few.h5", "test", docs, tmp_path)
    check_evaluate(run, tmp_path / "run", tmp_path / "few-later.h5", "all", later, tmp_path)
    run("train", "mbw", folder / "docs.h5", "-o", tmp_path / "pass")
    run("select", tmp_path / "pass" / "model.h5", "-o", tmp_path / "fewer.h5", "--features", 40)
    check_evaluate(run, tmp_path / "fewer.h5", folder / "docs.h5", "test", docs, tmp_path)


def test_retrain_with_new_and_renamed_labels(run, trained, tmp_path):
    folder, docs, _ = trained
    for doc in (new := [dict(doc, labels=list(doc["labels"])) for doc in docs]):
        doc["labels"] = ["Oceans" if name == "Sea" else name for name in doc["labels"]]
        if "ofshi" in doc["text"]:
            doc["labels"].append("Vessels")
    file = meetings.write(tmp_path / "new.jsonl", new)
    like = ("--like", folder / "docs.h5", "--new-labels", "--renamed", "Sea=Oceans")
    run("convert", "jsonl", file, "-o", tmp_path / "new.h5", *like)
    run("retrain", folder / "dual", tmp_path / "new.h5", "-o", tmp_path / "retrained")
    run("train", "dual", tmp_path / "new.h5", "-o", tmp_path / "trained")
    assert (tmp_path / "retrained" / "model.h5").read_bytes() == (tmp_path / "trained" / "model.h5").read_bytes()
    run("calibrate", tmp_path / "retrained", tmp_path / "new.h5")
    twin, _ = check_evaluate(run, tmp_path / "retrained", tmp_path / "new.h5", "test", new, tmp_path)
    assert {"Oceans", "Vessels"} <= set(twin.names) and "Sea" not in twin.names
    check_serve(tmp_path / "retrained", twin, new)


NAMES = ["Meer; See", 'say "x"', "a,b", "two\nlines", "back\\slash", "end\\", "=1+2", "-x", "'=y", "-1.5", "C:\\;x", "plain"]
STARTS = ["=", "+", "-", "@", "\t", "\r", "'", "'=", "", " ", "-1.5 ", "x\n", '"']


def test_csv_tables_keep_any_id_and_label(run, tmp_path):
    """Ids and labels that spreadsheets take for formulas, separators, quotes and line ends survive convert, predict and convert."""

    def cell(text):  # docs/lookup/formats.md
        return f"'{text}" if re.match(r"'*[=+\-@\t\r]", text) and not re.fullmatch(r"[+-][0-9.]+", text) else text

    rows = [[row, f"{STARTS[row % 13]}{row}", [name for n, name in enumerate(NAMES) if row >= 4 * n + 8]] for row in range(60)]
    with (tmp_path / "in.csv").open("w", newline="") as file:
        csv.writer(file).writerow(["row", "id", "labels"])
        for row, name, labels in rows:
            joined = ";".join(re.sub(r"[\\;]", r"\\\g<0>", label) for label in labels)
            csv.writer(file).writerow([row, cell(name), cell(joined)])
    options = ("--features", "row", "--id", "id", "--labels", "labels", "--label-separator", ";", "--empty-labels", "none")
    run("convert", "csv", tmp_path / "in.csv", "-o", tmp_path / "in.h5", *options)
    assert strings(tmp_path / "in.h5", "row_ids") == [name for _, name, _ in rows]
    assert [set(labels) for labels in label_sets(tmp_path / "in.h5")] == [set(labels) for *_, labels in rows]
    run("train", "dual", tmp_path / "in.h5", "-o", tmp_path / "run", "--scale", "standard")
    run("predict", tmp_path / "run", tmp_path / "in.h5", "-o", tmp_path / "labels.csv", "--top", 12, ranks=3)
    options = ("--features", "score", "--id", "id", "--labels", "label", "--labels-as-text")
    run("convert", "csv", tmp_path / "labels.csv", "-o", tmp_path / "back.h5", *options, ranks=3)
    assert {*strings(tmp_path / "back.h5", "row_ids")} == {name for _, name, _ in rows}
    assert {label for labels in label_sets(tmp_path / "back.h5") for label in labels} == {*NAMES}
