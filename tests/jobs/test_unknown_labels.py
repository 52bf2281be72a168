"""Labels that the training file lacks, from the first file to the last figure: counted as missed, or made labels and learnt.

The figures are calculated anew here, from the lines that go in and the scores that `predict` gives.
"""

import csv
import json

import h5py
import numpy as np
import pytest
from sklearn.metrics import average_precision_score

WORDS = {"Sea": "ship wave harbour", "Farms": "wheat field plough", "Towns": "street house tower", "Rare": "comet orbit moon"}


def corpus(seed, n, more=()):
    """Documents: a set of labels for each, and words of some of them."""
    rng, documents = np.random.default_rng(seed), []
    for number in range(n):
        labels = [name for name in WORDS if rng.random() < 0.4] or ["Sea"]
        words = [word for name in labels for word in WORDS[name].split() if rng.random() < 0.6] + ["and"]
        words += rng.choice(" ".join(WORDS.values()).split(), 2).tolist()
        labels += [name for name in more if rng.random() < 0.5]
        documents.append({"id": f"d{number}", "text": " ".join(words), "labels": labels})
    return documents


def write(path, documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    return path


def done(result):
    assert result.returncode == 0, result.stderr
    return result


def scores_of(path):
    """The table that `predict` writes: names of the labels, scores (rows × labels)."""
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    first = 2 if header[1] == "id" else 1
    return header[first:], np.array([[float(value) for value in row[first:]] for row in rows])


def ratio(a, b):
    return a / b if b else float("nan")


def figures(names, scores, truth):
    """What the measures are by their definitions, of the rows' sets of true labels and labels with a score above 0."""
    given = [{names[k] for k in np.flatnonzero(row > 0)} for row in scores]
    hits = [len(a & b) for a, b in zip(truth, given, strict=True)]
    f1 = [2 * h / (len(a) + len(b)) for h, a, b in zip(hits, truth, given, strict=True) if a or b]
    n_given, n_true = sum(map(len, given)), sum(map(len, truth))
    known = np.array([[name in row for name in names] for row in truth])
    ap = average_precision_score(known.ravel(), scores.ravel()) * known.sum() / n_true
    best = [[names[k] for k in np.argsort(-row, kind="stable")] for row in scores]
    gains = [[name in row for name in order[:5]] for row, order in zip(truth, best, strict=True)]
    dcg = [sum(gain / np.log2(place + 2) for place, gain in enumerate(row)) for row in gains]
    ideal = [sum(1 / np.log2(place + 2) for place in range(min(5, len(row)))) for row in truth]
    return {
        "f1": ratio(2 * sum(hits), n_given + n_true),
        "recall": ratio(sum(hits), n_true),
        "precision": ratio(sum(hits), n_given),
        "average_precision": ap,
        "instance_f1": float(np.mean(f1)),
        "ndcg": float(np.mean([a / b for a, b in zip(dcg, ideal, strict=True) if b])),
        "EBR": float(np.mean([h / len(a) if a else 0 for h, a, b in zip(hits, truth, given, strict=True) if a or b])),
    }


def check(standing, run, data, truth, folder, n_unknown, ranks=1):
    """Everything that `evaluate` says of a run on data, against `figures`."""
    done(standing(1, "predict", run, data, "-o", folder / "scores.csv", "--force"))
    names, scores = scores_of(folder / "scores.csv")
    expected = figures(names, scores, truth)
    done(standing(ranks, "evaluate", run, data, "--split", "all", "--json", folder / "plain.json", "--force"))
    plain = json.loads((folder / "plain.json").read_text())
    ties = np.unique(scores).size < scores.size  # where scikit-learn takes each tie as one step
    for name in ("f1", "recall", "precision", "average_precision"):
        rel = 1e-3 if ties and name == "average_precision" else 1e-12
        assert plain["micro"][name] == pytest.approx(expected[name], rel=rel), name
    assert plain["instance_f1"] == pytest.approx(expected["instance_f1"], rel=1e-12)
    assert plain["ndcg_at"]["5"] == pytest.approx(expected["ndcg"], rel=1e-12)
    unknown = [name for row in truth for name in row if name not in names]
    assert (plain["n_not_in_model"], plain["n_missed"]) == (len(set(unknown)), len(unknown))
    assert len(set(unknown)) == n_unknown
    bioasq = ("evaluate", run, data, "--split", "all", "--measures", "bioasq", "--json", folder / "bioasq.json", "--force")
    done(standing(ranks, *bioasq))
    measures = json.loads((folder / "bioasq.json").read_text())["measures"]
    assert measures["MiF"] == pytest.approx(expected["f1"], rel=1e-12)
    assert measures["EBF"] == pytest.approx(expected["instance_f1"], rel=1e-12)
    assert measures["EBR"] == pytest.approx(expected["EBR"], rel=1e-12)
    return expected


def test_what_the_training_file_lacks_counts_as_missed(standing, tmp_path):
    train, test = corpus(0, 120), corpus(1, 60, ["New", "Newer"])
    done(standing(1, "convert", "jsonl", write(tmp_path / "train.jsonl", train), "-o", tmp_path / "train.h5"))
    for ranks in (1, 3):
        made = ("convert", "jsonl", write(tmp_path / "test.jsonl", test), "--like", tmp_path / "train.h5")
        result = done(standing(ranks, *made, "-o", tmp_path / f"test{ranks}.h5"))
        n = sum(len({"New", "Newer"} & set(document["labels"])) for document in test)
        assert f"unknown: {n} entries of 2 labels" in result.stdout + result.stderr
    data, run = tmp_path / "test1.h5", tmp_path / "run"
    assert data.read_bytes() == (tmp_path / "test3.h5").read_bytes()
    with h5py.File(data) as file:
        assert [*file["label_names"].asstr()] == sorted(WORDS)
        assert [*file["unknown_label_names"].asstr()] == ["New", "Newer"]
    assert f"2 labels that the --like file did not have: {n} entries" in done(standing(1, "info", data)).stdout
    done(standing(1, "train", "dual", tmp_path / "train.h5", "-o", run))
    truth = [set(document["labels"]) for document in test]
    expected = check(standing, run, data, truth, tmp_path, 2, ranks=3)
    known = figures(*scores_of(tmp_path / "scores.csv"), [row - {"New", "Newer"} for row in truth])
    assert expected["f1"] < known["f1"] - 0.1  # what it was where they were left out

    # through other commands that write datasets
    done(standing(1, "split", data, "-o", tmp_path / "split.h5", "--test-share", "0.5"))
    done(standing(1, "select", tmp_path / "train.h5", "-o", tmp_path / "few.h5", "--features", "9", "--by", "chi2"))
    done(standing(1, "train", "dual", tmp_path / "few.h5", "-o", tmp_path / "few"))
    for ranks in (1, 3):
        chosen = ("select", data, "--like", tmp_path / "few.h5", "-o", tmp_path / f"few{ranks}.h5")
        done(standing(ranks, *chosen))
    assert (tmp_path / "few1.h5").read_bytes() == (tmp_path / "few3.h5").read_bytes()
    check(standing, tmp_path / "few", tmp_path / "few1.h5", truth, tmp_path, 2)
    check(standing, run, tmp_path / "split.h5", truth, tmp_path, 2)

    # labels that the data have and the model was not given are the same
    done(standing(1, "convert", "jsonl", tmp_path / "test.jsonl", "-o", tmp_path / "all.h5", "--like", data, "--new-labels"))
    check(standing, run, tmp_path / "all.h5", truth, tmp_path, 2)

    # thresholds: one for all labels, at which micro F1 with the unknown labels is largest
    done(standing(3, "threshold", run, data, "--split", "all", "--measure", "micro", "-o", tmp_path / "micro.h5"))
    with h5py.File(tmp_path / "micro.h5") as file:
        cut = float(file["labels/threshold"][0])
    done(standing(1, "predict", run, data, "-o", tmp_path / "scores.csv", "--force"))
    names, scores = scores_of(tmp_path / "scores.csv")
    best = max(figures(names, scores - value + 1e-12, truth)["f1"] for value in np.unique(scores))
    assert figures(names, scores - cut, truth)["f1"] == pytest.approx(best, rel=1e-12)
    page = tmp_path / "page.html"
    done(standing(1, "report", run, "--data", data, "-o", page))
    assert f"each of their {n} entries counts as missed" in page.read_text()


def test_numbers_of_labels_and_the_example(standing, tmp_path):
    rng = np.random.default_rng(2)

    def rows(n, labels):
        sets = [[label for label in labels if rng.random() < 0.4] for _ in range(n)]
        values = [f" {9 - len(row)}:1" for row in sets]
        lines = [",".join(map(str, row)) + "".join(f" {label}:{1 + 0.1 * label}" for label in row if label < 8) for row in sets]
        return sets, "".join(line + (value if ":" not in line else "") + "\n" for line, value in zip(lines, values, strict=True))

    _, train = rows(80, [1, 2, 5])
    sets, test = rows(40, [1, 2, 5, 10, 33])
    (tmp_path / "train.svm").write_text(train)
    (tmp_path / "test.svm").write_text(test)
    done(standing(1, "convert", "svmlight", tmp_path / "train.svm", "-o", tmp_path / "train.h5"))
    for ranks in (1, 3):
        made = ("convert", "svmlight", tmp_path / "test.svm", "--like", tmp_path / "train.h5")
        done(standing(ranks, *made, "-o", tmp_path / f"test{ranks}.h5"))
        done(standing(ranks, *made, "-o", tmp_path / f"new{ranks}.h5", "--new-labels"))
    for name in ("test", "new"):
        assert (tmp_path / f"{name}1.h5").read_bytes() == (tmp_path / f"{name}3.h5").read_bytes()
    with h5py.File(tmp_path / "new1.h5") as file:
        assert [*file["label_names"].asstr()] == ["1", "2", "5", "10", "33"]
    done(standing(1, "train", "dual", tmp_path / "train.h5", "-o", tmp_path / "run"))
    truth = [set(map(str, row)) for row in sets]
    for name in ("test", "new"):
        check(standing, tmp_path / "run", tmp_path / f"{name}1.h5", truth, tmp_path, 2)

    train = [{"text": WORDS[name], "labels": [name]} for name in ["Sea", "Farms"] * 20]
    test = [{"text": WORDS["Sea"], "labels": ["Sea", "NewHeading"]}] * 10
    done(standing(1, "convert", "jsonl", write(tmp_path / "40.jsonl", train), "-o", tmp_path / "40.h5"))
    made = ("convert", "jsonl", write(tmp_path / "10.jsonl", test), "-o", tmp_path / "10.h5", "--like", tmp_path / "40.h5")
    done(standing(1, *made))
    done(standing(1, "train", "dual", tmp_path / "40.h5", "-o", tmp_path / "two"))
    assert check(standing, tmp_path / "two", tmp_path / "10.h5", [{"Sea", "NewHeading"}] * 10, tmp_path, 1)["f1"] == 2 / 3


def test_new_and_renamed_headings_are_learnt(standing, tmp_path):
    """From texts to a retrained model: a heading is renamed, one is new, one is split, one is gone, one stays."""
    old = corpus(3, 150)
    new = []
    for number, document in enumerate(old):
        labels = ["Oceans" if name == "Sea" else name for name in document["labels"] if name != "Towns"]
        labels += ["Harbours"] if "harbour" in document["text"] else []
        labels += ["Suburbs"] if "Towns" in document["labels"] and number % 2 else []
        new.append(document | {"labels": labels})
    (tmp_path / "renamed.tsv").write_text("Sea\tOceans\n")
    made = ("convert", "jsonl", write(tmp_path / "old.jsonl", old), "-o", tmp_path / "old.h5", "--test-share", "0.3")
    done(standing(1, *made))
    done(standing(1, "train", "dual", tmp_path / "old.h5", "-o", tmp_path / "last"))
    made = ("convert", "jsonl", write(tmp_path / "new.jsonl", new), "--like", tmp_path / "old.h5", "--new-labels")
    for ranks, renamed in ((1, "Sea=Oceans"), (3, tmp_path / "renamed.tsv")):
        done(standing(ranks, *made, "--renamed", renamed, "--test-share", "0.3", "-o", tmp_path / f"new{ranks}.h5"))
    data = tmp_path / "new1.h5"
    assert data.read_bytes() == (tmp_path / "new3.h5").read_bytes()
    with h5py.File(data) as file:
        assert [*file["label_names"].asstr()] == ["Farms", "Rare", "Oceans", "Towns", "Harbours", "Suburbs"]
    result = done(standing(2, "retrain", tmp_path / "last", data, "-o", tmp_path / "this"))
    said = result.stdout + result.stderr
    assert "3 labels with the rows of before keep models (1 under another name), 2 are trained anew" in said
    assert "1 model of before left out" in said
    assert "training 2 labels on" in said
    assert "trained 2 labels in" in said
    assert "; 3 labels taken over from the earlier run" in said
    done(standing(1, "train", "dual", data, "-o", tmp_path / "anew"))
    assert (tmp_path / "this" / "model.h5").read_bytes() == (tmp_path / "anew" / "model.h5").read_bytes()
    with h5py.File(tmp_path / "this" / "model.h5") as after, h5py.File(tmp_path / "last" / "model.h5") as before:
        names, were = [*after["label_names"].asstr()], [*before["label_names"].asstr()]
        assert names == ["Farms", "Rare", "Oceans", "Harbours", "Suburbs"]  # Towns has no row any more
        assert after["W"][names.index("Oceans")].tobytes() == before["W"][were.index("Sea")].tobytes()
    check(standing, tmp_path / "this", data, [set(document["labels"]) for document in new], tmp_path, 0)

    again = done(standing(1, "retrain", tmp_path / "this", data, "-o", tmp_path / "again"))
    said = again.stdout + again.stderr
    assert "5 labels taken over from the earlier run, none trained; model:" in said
    assert "trained 5" not in said
    assert "training no label" in said


@pytest.mark.parametrize("ranks", [1, 3])
def test_what_makes_no_sense_is_refused(standing, ranks, tmp_path):
    text, like = write(tmp_path / "a.jsonl", corpus(5, 20)), tmp_path / "old.h5"
    done(standing(1, "convert", "jsonl", text, "-o", like))
    (tmp_path / "bad.tsv").write_text("Sea\tOceans\n\nFarms Fields\n")
    (tmp_path / "empty.tsv").write_text("\n")
    with_like, out = ("--like", like), tmp_path / "out.h5"
    for words, *more in (
        ("--new-labels has no effect without --like", "--new-labels"),
        ("--renamed has no effect without --like", "--renamed", "Sea=Oceans"),
        ("has no label 'See'; did you mean 'Sea'?", *with_like, "--renamed", "See=Oceans"),
        ("has a label 'Farms' already", *with_like, "--renamed", "Sea=Farms"),
        ("'Sea' stands in two renames", *with_like, "--renamed", "Sea=Oceans", "--renamed", "Sea=Water"),
        ("'Oceans' stands in two renames", *with_like, "--renamed", "Sea=Oceans", "--renamed", "Farms=Oceans"),
        ("'Oceans' stands in two renames", *with_like, "--renamed", "Sea=Oceans", "--renamed", "Oceans=Water"),
        ("has a label 'Farms' already", *with_like, "--renamed", "Sea=Farms", "--renamed", "Farms=Sea"),
        ("--renamed a=b=c: expected OLD=NEW", *with_like, "--renamed", "a=b=c"),
        ("bad.tsv: line 3: expected the old and the new name", *with_like, "--renamed", tmp_path / "bad.tsv"),
        ("empty.tsv: no names", *with_like, "--renamed", tmp_path / "empty.tsv"),
        ("missing.tsv", *with_like, "--renamed", tmp_path / "missing.tsv"),
    ):
        result = standing(ranks, "convert", "jsonl", text, "-o", out, *more)
        assert result.returncode == 2, (words, result.stderr)
        ours = [line for line in result.stderr.splitlines() if line.startswith("hpcml: ")]
        assert len(ours) == 1, result.stderr
        assert words in ours[0]
        assert not out.exists()
