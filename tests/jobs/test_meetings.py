"""Commands that meet: from documents to the last figure by commands alone, beside what follows from the documents themselves."""

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
    """Runs a command on 2 ranks, or on as many as `ranks` says, and gives what it prints."""

    def one(*tokens, ranks=2):
        result = done(standing(ranks, *tokens))
        return result.stdout

    return one


@pytest.fixture(scope="module")
def first(run, tmp_path_factory):
    """A folder with documents and the dataset that is made of them; and later documents with headings that it does not have."""
    folder = tmp_path_factory.mktemp("meetings")
    docs = meetings.documents(1, 360)
    later = meetings.documents(2, 90, {"Algae": 0.3, "Zoos": 0.05}, splits=())
    run("convert", "jsonl", meetings.write(folder / "docs.jsonl", docs), "-o", folder / "docs.h5")
    run("convert", "jsonl", meetings.write(folder / "later.jsonl", later), "-o", folder / "later.h5", "--like", folder / "docs.h5")
    return folder, docs, later


@pytest.fixture(scope="module")
def trained(run, first):
    """The folder, where `dual` stands, which gives scores, and `logistic`, which gives log-odds."""
    folder = first[0]
    run("train", "dual", folder / "docs.h5", "-o", folder / "dual")
    run("train", "dual", folder / "docs.h5", "-o", folder / "logistic", "--loss", "logistic")
    return folder


def judge(run, model, data, split, docs, folder, ranks=2):
    """Hold every figure of `evaluate`, of BioASQ's measures, and what `predict` writes, against the twin's."""
    twin, file = Twin(model, data, docs, split), folder / "judged.json"
    run("evaluate", model, data, "--split", split, "--json", file, "--force", ranks=ranks)
    found = json.loads(file.read_text())
    assert found["precision_at"] == pytest.approx({str(k): value for k, value in twin.precision_at().items()}, **CLOSE)
    assert found["ndcg_at"] == pytest.approx({str(k): value for k, value in twin.ndcg_at().items()}, **CLOSE)
    # there, ties are averaged over
    assert found["micro"]["average_precision"] == pytest.approx(twin.micro_average_precision(), rel=2e-3)
    assert found["macro"]["average_precision"]["value"] == pytest.approx(twin.macro_average_precision(), rel=2e-3)
    assert {name: found["micro"][name] for name in ("precision", "recall", "f1")} == pytest.approx(twin.micro(), **CLOSE)
    assert found["macro"]["f1"]["value"] == pytest.approx(twin.macro_f1(), **CLOSE)
    assert found["instance_f1"] == pytest.approx(twin.instance_f1(), **CLOSE)
    bioasq(run, model, data, split, twin, file)
    predictions(run, model, data, split, twin, folder)
    return twin, found


def bioasq(run, model, data, split, twin, file):
    """BioASQ's measures of the labels above thresholds."""
    run("evaluate", model, data, "--split", split, "--measures", "bioasq", "--json", file, "--force")
    found = json.loads(file.read_text())["measures"]
    expected = flat(twin.true, twin.given)
    assert {name: found[name] for name in expected} == pytest.approx(expected, **CLOSE)


def predictions(run, model, data, split, twin, folder):
    """The best labels of each row, the labels above thresholds, BioASQ's answers."""
    file, answers = folder / "predicted.csv", folder / "answers.json"
    run("predict", model, data, "-o", file, "--split", split, "--top", 3, "--force")
    shown = [(row["id"], row["label"]) for row in table(file)]
    assert shown == [(name, twin.names[label]) for name, row in zip(twin.ids, twin.best(3), strict=True) for label in row]
    run("predict", model, data, "-o", file, "--split", split, "--force")
    assert {(row["id"], row["label"]) for row in table(file)} == {
        (name, label) for name, row in zip(twin.ids, twin.given, strict=True) for label in row
    }
    run("predict", model, data, "-o", answers, "--split", split, "--top", 2, "--force")
    given = {each["pmid"]: each["labels"] for each in json.loads(answers.read_text())["documents"]}
    assert given == {name: [twin.names[label] for label in row] for name, row in zip(twin.ids, twin.best(2), strict=True)}


def cells(text):
    """What stands between the semicolons of a list, still escaped."""
    return re.findall(r"(?:\\.|[^;\\])+", text)


def served(run_folder, twin, docs):
    """The server gives the same headings, in the same order, with the same probabilities, for the documents of the twin's rows."""
    app, by_id = app_of(run_folder), {doc["id"]: doc for doc in docs}
    for row in range(0, len(twin.ids), 7):
        doc = by_id[twin.ids[row]]
        reply = ask(app, "POST", SUGGEST, {"text": f"{doc['title']} {doc['text']}", "limit": "3"}).json["results"]
        best = twin.best(3)[row]
        assert [each["uri"] for each in reply] == [twin.names[label] for label in best]
        assert [each["score"] for each in reply] == pytest.approx(twin.probabilities[row, best].tolist(), rel=1e-5)


def reported(run, run_folder, found, folder, *more):
    """The page shows the figures of `evaluate`."""
    page = folder / "page.html"
    run("report", run_folder, "-o", page, "--force", *more)
    text = page.read_text()
    for value in (found["macro"]["average_precision"]["value"], found["micro"]["f1"], found["precision_at"]["1"]):
        assert re.search(rf"\b{value:.3f}", text), value


def test_convert_train_judge(run, first, trained, tmp_path):
    folder, docs, _ = first
    _, found = judge(run, folder / "dual", folder / "docs.h5", "test", docs, tmp_path, ranks=3)
    reported(run, folder / "dual", found, tmp_path)


def test_log_odds_judge_serve(run, first, trained, tmp_path):
    folder, docs, _ = first
    twin, found = judge(run, folder / "logistic", folder / "docs.h5", "test", docs, tmp_path)
    served(folder / "logistic", twin, docs)
    reported(run, folder / "logistic", found, tmp_path)


def test_labels_that_the_model_does_not_know_are_missed(run, first, trained, tmp_path):
    folder, _, later = first
    twin, found = judge(run, folder / "dual", folder / "later.h5", "all", later, tmp_path, ranks=3)
    assert {"Algae", "Zoos"} <= set().union(*twin.true) and "Algae" not in twin.names
    reported(run, folder / "dual", found, tmp_path, "--data", folder / "later.h5")


def test_tune_judge_serve(run, first, tmp_path):
    folder, docs, later = first
    run("tune", folder / "docs.h5", "-o", tmp_path / "tuned")
    twin, found = judge(run, tmp_path / "tuned", folder / "docs.h5", "test", docs, tmp_path, ranks=3)
    assert (np.argsort(-twin.odds, axis=1) != np.argsort(-twin.scores, axis=1)).any()
    served(tmp_path / "tuned", twin, docs)
    reported(run, tmp_path / "tuned", found, tmp_path)
    judge(run, tmp_path / "tuned", folder / "later.h5", "all", later, tmp_path)
    run("threshold", tmp_path / "tuned", folder / "docs.h5", "--measure", "micro", "-o", tmp_path / "micro.h5")
    twin, _ = judge(run, tmp_path / "micro.h5", folder / "docs.h5", "valid", docs, tmp_path)
    assert twin.micro()["f1"] == pytest.approx(twin.best_micro_f1(), **CLOSE)
    run("prune", tmp_path / "tuned", folder / "docs.h5", "--below", 0.02, "-o", tmp_path / "pruned.h5")
    judge(run, tmp_path / "pruned.h5", folder / "docs.h5", "test", docs, tmp_path)


@pytest.mark.parametrize("name", ["dual", "logistic"])
@pytest.mark.parametrize("measure", ["micro", "instance"])
def test_one_threshold_for_all_labels(run, first, trained, tmp_path, name, measure):
    folder, docs, later = first
    for data, split, those in (("docs.h5", "valid", docs), ("later.h5", "all", later)):
        model = tmp_path / f"{split}.h5"
        run("threshold", folder / name, folder / data, "--measure", measure, "--split", split, "-o", model)
        twin = Twin(model, folder / data, those, split)
        if measure == "micro":
            assert twin.micro()["f1"] == pytest.approx(twin.best_micro_f1(), **CLOSE)
        else:
            bounds = np.unique(twin.odds) - 1e-12
            given = ([{twin.names[label] for label in np.nonzero(row > bound)[0]} for row in twin.odds] for bound in bounds)
            assert twin.instance_f1() == pytest.approx(max(map(twin.instance_f1, given)), **CLOSE)
    judge(run, model, folder / "docs.h5", "test", docs, tmp_path)


def test_calibrate_threshold_judge_serve(run, first, trained, tmp_path):
    folder, docs, _ = first
    model = tmp_path / "calibrated.h5"
    run("calibrate", folder / "dual", folder / "docs.h5", "-o", model)
    twin, _ = judge(run, model, folder / "docs.h5", "test", docs, tmp_path)
    assert (np.argsort(-twin.odds, axis=1) != np.argsort(-twin.scores, axis=1)).any()
    run("threshold", model, folder / "docs.h5", "--measure", "micro")
    assert Twin(model, folder / "docs.h5", docs, "valid").micro()["f1"] == pytest.approx(
        Twin(model, folder / "docs.h5", docs, "valid").best_micro_f1(), **CLOSE
    )
    twin, _ = judge(run, model, folder / "docs.h5", "test", docs, tmp_path)


def test_label_thresholds_judge(run, first, trained, tmp_path):
    folder, docs, later = first
    run("threshold", folder / "dual", folder / "docs.h5", "--measure", "label", "-o", tmp_path / "label.h5")
    judge(run, tmp_path / "label.h5", folder / "docs.h5", "test", docs, tmp_path)
    judge(run, tmp_path / "label.h5", folder / "later.h5", "all", later, tmp_path)


def test_prune_calibrate_judge(run, first, trained, tmp_path):
    folder, docs, _ = first
    said = run("prune", folder / "dual", folder / "docs.h5", "--below", 0.05, "-o", tmp_path / "pruned.h5")
    _, found = judge(run, tmp_path / "pruned.h5", folder / "docs.h5", "test", docs, tmp_path)
    assert f"{found['macro']['average_precision']['value']:.4f}" in said
    run("calibrate", tmp_path / "pruned.h5", folder / "docs.h5")
    judge(run, tmp_path / "pruned.h5", folder / "docs.h5", "test", docs, tmp_path)


def test_parts_merge_judge(run, first, trained, tmp_path):
    folder, docs, _ = first
    for part in ("1/2", "2/2"):
        run("train", "dual", folder / "docs.h5", "-o", tmp_path / f"part{part[0]}", "--label-part", part)
    run("merge", tmp_path / "part1", tmp_path / "part2", "-o", tmp_path / "whole")
    assert (tmp_path / "whole" / "model.h5").read_bytes() == (folder / "dual" / "model.h5").read_bytes()
    judge(run, tmp_path / "whole", folder / "docs.h5", "test", docs, tmp_path)
    run("calibrate", tmp_path / "whole", folder / "docs.h5")
    twin, found = judge(run, tmp_path / "whole", folder / "docs.h5", "test", docs, tmp_path)
    served(tmp_path / "whole", twin, docs)
    reported(run, tmp_path / "whole", found, tmp_path)


def test_select_like_train_judge(run, first, tmp_path):
    folder, docs, later = first
    run("select", folder / "docs.h5", "-o", tmp_path / "few.h5", "--by", "chi2", "--features", 30)
    run("select", folder / "later.h5", "-o", tmp_path / "few-later.h5", "--like", tmp_path / "few.h5")
    run("train", "dual", tmp_path / "few.h5", "-o", tmp_path / "run")
    judge(run, tmp_path / "run", tmp_path / "few.h5", "test", docs, tmp_path)
    judge(run, tmp_path / "run", tmp_path / "few-later.h5", "all", later, tmp_path)


def test_split_keeps_what_is_unknown(run, first, trained, tmp_path):
    folder, _, later = first
    run("split", folder / "later.h5", "-o", tmp_path / "halves.h5", "--test-share", 0.5)
    judge(run, folder / "dual", tmp_path / "halves.h5", "test", later, tmp_path)


def test_a_pass_select_judge(run, first, tmp_path):
    folder, docs, _ = first
    run("train", "mbw", folder / "docs.h5", "-o", tmp_path / "pass")
    judge(run, tmp_path / "pass", folder / "docs.h5", "test", docs, tmp_path)
    run("select", tmp_path / "pass" / "model.h5", "-o", tmp_path / "few.h5", "--features", 40)
    judge(run, tmp_path / "few.h5", folder / "docs.h5", "test", docs, tmp_path)


def test_new_labels_retrain_judge(run, first, trained, tmp_path):
    """New headings and a renamed one are learnt, without a file edited by hand; the others keep their models."""
    folder, docs, _ = first
    for doc in (new := [dict(doc, labels=list(doc["labels"])) for doc in docs]):
        doc["labels"] = ["Oceans" if name == "Sea" else name for name in doc["labels"]]
        if "ofshi" in doc["text"]:
            doc["labels"].append("Vessels")
    file = meetings.write(tmp_path / "new.jsonl", new)
    like = ("--like", folder / "docs.h5", "--new-labels", "--renamed", "Sea=Oceans")
    run("convert", "jsonl", file, "-o", tmp_path / "new.h5", *like)
    run("retrain", folder / "dual", tmp_path / "new.h5", "-o", tmp_path / "retrained")
    run("train", "dual", tmp_path / "new.h5", "-o", tmp_path / "anew")
    assert (tmp_path / "retrained" / "model.h5").read_bytes() == (tmp_path / "anew" / "model.h5").read_bytes()
    twin, _ = judge(run, tmp_path / "retrained", tmp_path / "new.h5", "test", new, tmp_path)
    assert {"Oceans", "Vessels"} <= set(twin.names) and "Sea" not in twin.names
    run("calibrate", tmp_path / "retrained", tmp_path / "new.h5")
    twin, found = judge(run, tmp_path / "retrained", tmp_path / "new.h5", "test", new, tmp_path)
    served(tmp_path / "retrained", twin, new)
    reported(run, tmp_path / "retrained", found, tmp_path)


NAMES = ["Meer; See", 'say "x"', "a,b", "two\nlines", "back\\slash", "end\\", "\\e", "=1+2", "-x", "'=y", "-1.5", "C:\\;x", "plain"]
STARTS = ["=", "+", "-", "@", "\t", "\r", "'", "'=", "", " ", "-1.5 ", "x\n", '"']


def test_labels_of_predict_are_read_back(run, tmp_path):
    """The row number is the only feature, which the file of labels has, too. So the model is perfect on what it said itself."""
    names = {name: re.sub(r"[\\;]", r"\\\g<0>", name) for name in NAMES}
    rows = [[row, f"{STARTS[row % 13]}{row}", [name for n, name in enumerate(NAMES) if row >= 4 * n + 8]] for row in range(60)]
    with (tmp_path / "in.csv").open("w", newline="") as file:
        rule = re.compile(r"'*[=+\-@\t\r]")  # docs/lookup/formats.md

        def cell(text):
            return f"'{text}" if rule.match(text) and not re.fullmatch(r"[+-][0-9.]+", text) else text

        csv.writer(file).writerow(["row", "id", "labels"])
        for row, name, labels in rows:
            csv.writer(file).writerow([row, cell(name), cell(";".join(names[label] for label in labels))])
    options = ("--features", "row", "--id", "id", "--labels", "labels", "--label-separator", ";", "--empty-labels", "none")
    run("convert", "csv", tmp_path / "in.csv", "-o", tmp_path / "in.h5", *options)
    assert strings(tmp_path / "in.h5", "row_ids") == [name for _, name, _ in rows]
    assert [set(labels) for labels in label_sets(tmp_path / "in.h5")] == [set(labels) for *_, labels in rows]
    run("train", "dual", tmp_path / "in.h5", "-o", tmp_path / "run", "--scale", "standard")
    for what in ("h5", "csv"):
        run("predict", tmp_path / "run", tmp_path / "in.h5", "--labels", "-o", tmp_path / f"labels.{what}", ranks=3)
    back = tmp_path / "back.h5"
    run("convert", "csv", tmp_path / "labels.csv", "-o", back, *options, "--like", tmp_path / "in.h5", ranks=3)
    assert strings(back, "row_ids") == [name for _, name, _ in rows]
    given = label_sets(tmp_path / "labels.h5")
    assert label_sets(back) == given and {len(labels) for labels in given} >= {0, 1, 12}
    run("evaluate", tmp_path / "run", back, "--json", tmp_path / "judged.json")
    found = json.loads((tmp_path / "judged.json").read_text())
    assert found["micro"]["f1"] == found["macro"]["f1"]["value"] == 1
    run("predict", tmp_path / "run", back, "--labels", "-o", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "labels.csv").read_bytes()
