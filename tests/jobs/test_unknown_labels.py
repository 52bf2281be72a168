"""Labels missing from the training file, from conversion to evaluation: counted as missed, or added and trained."""

import json

import h5py
import numpy as np
import pytest
from support.jobs import done, refused
from support.meetings import Twin, write
from support.oracles_bioasq import flat

WORDS = {"Sea": "ship wave harbour", "Farms": "wheat field plough", "Towns": "street house tower", "Rare": "comet orbit moon"}


def corpus(seed, n, more=()):
    rng, documents = np.random.default_rng(seed), []
    for number in range(n):
        labels = [name for name in WORDS if rng.random() < 0.4] or ["Sea"]
        words = [word for name in labels for word in WORDS[name].split() if rng.random() < 0.6] + ["and"]
        words += rng.choice(" ".join(WORDS.values()).split(), 2).tolist()
        labels += [name for name in more if rng.random() < 0.5]
        documents.append({"id": f"d{number}", "text": " ".join(words), "labels": labels})
    return documents


def check(standing, run, data, truth, folder, n_unknown, ranks=1):
    twin, file = Twin(run, data, truth, "all"), folder / "judged.json"
    judge = ("evaluate", run, data, "--split", "all", "--json", file, "--force")
    done(standing(ranks, *judge))
    plain = json.loads(file.read_text())
    assert {name: plain["micro"][name] for name in ("precision", "recall", "f1")} == pytest.approx(twin.micro(), rel=1e-12)
    rel = 2e-3 if np.unique(twin.odds).size < twin.odds.size else 1e-12  # where there are ties they are averaged over
    assert plain["micro"]["average_precision"] == pytest.approx(twin.micro_average_precision(), rel=rel)
    assert plain["instance_f1"] == pytest.approx(twin.instance_f1(), rel=1e-12)
    assert plain["ndcg_at"]["5"] == pytest.approx(twin.ndcg_at()[5], rel=1e-12)
    unknown = [name for row in truth for name in row if name not in twin.names]
    assert (plain["n_not_in_model"], plain["n_missed"]) == (len(set(unknown)), len(unknown))
    assert len(set(unknown)) == n_unknown
    done(standing(ranks, *judge, "--measures", "bioasq"))
    assert json.loads(file.read_text())["measures"] == pytest.approx(flat(twin.true, twin.given), rel=1e-12)
    return twin


def test_unknown_labels_count_as_missed(standing, tmp_path):
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
    assert f"2 labels unknown to the --like dataset: {n} entries" in done(standing(1, "info", data)).stdout
    done(standing(1, "train", "dual", tmp_path / "train.h5", "-o", run))
    truth = [set(document["labels"]) for document in test]
    twin = check(standing, run, data, truth, tmp_path, 2, ranks=3)
    known = Twin(run, data, [row - {"New", "Newer"} for row in truth], "all")
    assert twin.micro()["f1"] < known.micro()["f1"] - 0.1  # what it was where they were left out

    # `select` keeps them (what a model of few features is worth: test_meetings.py, also after `split` and with thresholds)
    done(standing(1, "select", tmp_path / "train.h5", "-o", tmp_path / "few.h5", "--features", "9", "--by", "chi2"))
    for ranks in (1, 3):
        chosen = ("select", data, "--like", tmp_path / "few.h5", "-o", tmp_path / f"few{ranks}.h5")
        done(standing(ranks, *chosen))
    assert (tmp_path / "few1.h5").read_bytes() == (tmp_path / "few3.h5").read_bytes()

    # labels that the data have and the model was not given are the same
    done(standing(1, "convert", "jsonl", tmp_path / "test.jsonl", "-o", tmp_path / "all.h5", "--like", data, "--new-labels"))
    check(standing, run, tmp_path / "all.h5", truth, tmp_path, 2)

    page = tmp_path / "page.html"
    done(standing(1, "report", run, "--data", data, "-o", page))
    assert f"whose {n} occurrences count as missed" in page.read_text()


def test_new_and_renamed_labels_are_trained(standing, tmp_path):
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
    assert "3 labels unchanged, keeping their models (1 renamed); 2 to train" in said
    assert "1 earlier model dropped" in said
    assert "training 2 labels on" in said
    assert "trained 2 labels in" in said
    assert ", 3 labels copied from the earlier run" in said
    done(standing(1, "train", "dual", data, "-o", tmp_path / "anew"))
    assert (tmp_path / "this" / "model.h5").read_bytes() == (tmp_path / "anew" / "model.h5").read_bytes()
    with h5py.File(tmp_path / "this" / "model.h5") as after, h5py.File(tmp_path / "last" / "model.h5") as before:
        names, were = [*after["label_names"].asstr()], [*before["label_names"].asstr()]
        assert names == ["Farms", "Rare", "Oceans", "Harbours", "Suburbs"]  # Towns has no row any more
        assert after["W"][names.index("Oceans")].tobytes() == before["W"][were.index("Sea")].tobytes()
    check(standing, tmp_path / "this", data, [set(document["labels"]) for document in new], tmp_path, 0)

    again = done(standing(1, "retrain", tmp_path / "this", data, "-o", tmp_path / "again"))
    said = again.stdout + again.stderr
    assert "no labels trained, 5 labels copied from the earlier run; model:" in said
    assert "trained 5" not in said
    assert "training no label" in said


@pytest.mark.parametrize("ranks", [3])
def test_bad_renames_are_refused(standing, ranks, tmp_path):
    text, like = write(tmp_path / "a.jsonl", corpus(5, 20)), tmp_path / "old.h5"
    done(standing(1, "convert", "jsonl", text, "-o", like))
    (tmp_path / "bad.tsv").write_text("Sea\tOceans\n\nFarms Fields\n")
    (tmp_path / "empty.tsv").write_text("\n")
    with_like, out = ("--like", like), tmp_path / "out.h5"
    for words, *more in (
        ("--new-labels", "--new-labels"),
        ("--renamed Sea=Oceans", "--renamed", "Sea=Oceans"),
        ("'Sea'", *with_like, "--renamed", "See=Oceans"),
        ("'Farms'", *with_like, "--renamed", "Sea=Farms"),
        ("'Sea'", *with_like, "--renamed", "Sea=Oceans", "--renamed", "Sea=Water"),
        ("'Oceans'", *with_like, "--renamed", "Sea=Oceans", "--renamed", "Farms=Oceans"),
        ("'Oceans'", *with_like, "--renamed", "Sea=Oceans", "--renamed", "Oceans=Water"),
        ("'Farms'", *with_like, "--renamed", "Sea=Farms", "--renamed", "Farms=Sea"),
        ("--renamed a=b=c", *with_like, "--renamed", "a=b=c"),
        ("bad.tsv: line 3", *with_like, "--renamed", tmp_path / "bad.tsv"),
        ("empty.tsv", *with_like, "--renamed", tmp_path / "empty.tsv"),
        ("missing.tsv", *with_like, "--renamed", tmp_path / "missing.tsv"),
    ):
        refused(standing(ranks, "convert", "jsonl", text, "-o", out, *more), words)
        assert not out.exists()
