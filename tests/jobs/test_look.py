"""`hpcml explain` and `hpcml duplicates` as processes: the same on any number of ranks; one sentence for a user's mistake."""

import json

import numpy as np
import pytest
from support import make
from support.jobs import done, refused
from support.oracles_duplicates import alike_data


def documents(path):
    texts = {"sea": "the ship left the port with grain", "farm": "the farmer sold wheat and corn", "both": "grain"}
    with path.open("w") as out:
        for number in range(24):
            label = ["sea", "farm"][number % 2]
            document = {"title": f"Report {number}", "text": texts[label], "journal": f"The {label}", "labels": [label]}
            print(json.dumps(document), file=out)


def test_a_model_of_fields_is_explained(standing, tmp_path):
    documents(tmp_path / "docs.jsonl")
    data, run = tmp_path / "docs.h5", tmp_path / "run"
    fields = ("--fields", "title=T,text=A,journal=J", "--whole-fields", "journal")
    done(standing(2, "convert", "jsonl", tmp_path / "docs.jsonl", "-o", data, *fields))
    done(standing(2, "train", "dual", data, "-o", run))
    found = []
    for n in (1, 3):
        command = ("explain", run / "model.h5", "--label", "sea", "--top", 30, "--json", tmp_path / f"{n}.json")
        result = done(standing(n, *command))
        found.append((result.stdout, (tmp_path / f"{n}.json").read_bytes()))
    assert found[0] == found[1]
    assert "J = value of journal" in found[0][0]
    (label,) = json.loads(found[0][1])["labels"]
    assert {"The sea J", "The farm J"} <= {each["name"] for each in label["features"]}
    assert {each["field"] for each in label["features"]} == {"title", "text", "journal"}
    done(standing(2, "convert", "jsonl", tmp_path / "docs.jsonl", "-o", tmp_path / "new.h5", "--like", data))
    done(standing(2, "predict", run / "model.h5", tmp_path / "new.h5", "-o", tmp_path / "scores.csv"))


def test_duplicates_are_the_same_on_any_number_of_ranks(standing, tmp_path):
    _, _, data = alike_data(tmp_path / "data.h5", np.random.default_rng(0), 90)
    found = []
    for n in (1, 2, 4):
        names = [tmp_path / f"{n}.{name}" for name in ("pairs.csv", "labels.csv", "json")]
        result = done(standing(n, "duplicates", data, "-o", names[0], "--csv", names[1], "--json", names[2], "--similarity", 0.6))
        assert result.stdout.count("pairs with similarity of at least 0.6") == 1
        found.append([name.read_bytes() for name in names])
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("n", [1, 3])
def test_mistakes_are_named_in_one_sentence(standing, tmp_path, n):
    data = make.dataset(tmp_path / "data.h5", np.ones((4, 3)), np.ones((4, 2)), ["a", "b", "c"])
    model = make.model(tmp_path / "model.h5", np.ones((2, 3)), feature_names=["a", "b", "d"])
    documents(tmp_path / "docs.jsonl")
    convert = ("convert", "jsonl", tmp_path / "docs.jsonl", "-o", tmp_path / "out.h5", "--fields")
    for said, command in {
        "has no effect without --row or --wrong or --unlearnt": ("explain", model, data),
        "has other features": ("explain", model, data, "--row", 0),
        "no label 'label9'": ("explain", model, "--label", "label9"),
        "--force: has no effect": ("explain", model, "--force"),
        "is also an input": ("explain", model, "--json", model, "--force"),
        "not an HDF5 file": ("explain", tmp_path / "docs.jsonl"),
        "--similarity 2.0: expected a number": ("duplicates", data, "--similarity", 2),
        "no split named 'x'": ("duplicates", data, "--split", "x"),
        "names the same file as": ("duplicates", data, "-o", tmp_path / "a.csv", "--csv", tmp_path / "a.csv"),
        "is also an input; choose": ("duplicates", data, "-o", data, "--force"),
        "--fields page": (*convert, "text,page"),
        "--fields": (*convert, "text,text"),
    }.items():
        result = standing(n, *command)
        refused(result, said)
        assert len(result.stderr.strip().splitlines()) <= 2  # what was read, and the sentence
    assert not (tmp_path / "out.h5").exists()
