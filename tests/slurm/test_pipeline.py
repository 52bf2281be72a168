"""From texts to answers over HTTP by jobs alone; the tuning job is preempted and loses a node."""

import json
import re
import urllib.parse
import urllib.request
from functools import partial

import h5py
import numpy as np
import pytest
from support.make import document_lines
from support.private_slurm import hpcml, node_down, preempt, signal

CONVERT = ("jsonl", "docs.jsonl", "-o", "docs.h5", "--test-share", "0.3", "--seed", "1")
# tuning takes some seconds, because it is interrupted twice
SETTINGS = ("--folds", "10", "--lambdas", "0.1", "0.3", "1", "3", "10", "--weights", "0.5", "1", "2", "4", "8")
TUNE = ("docs.h5", "-o", "run", *SETTINGS, "--checkpoint-every", "0.1")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "docs.jsonl"
    path.write_text(document_lines(3, 5000, 400, 200))
    return path


def in_folder(folder, arguments):
    names = {"docs.jsonl", "docs.h5", "run", "run/model.h5", "measures.json", "labels.csv", "report.html"}
    return [folder / each if each in names else each for each in arguments]


@pytest.fixture(scope="module")
def local(texts, tmp_path_factory):
    """A folder with the files of all commands on one rank, without Slurm."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "docs.jsonl").write_bytes(texts.read_bytes())
    hpcml("convert", *in_folder(folder, CONVERT))
    hpcml("tune", *in_folder(folder, TUNE))
    hpcml("evaluate", *in_folder(folder, ("run/model.h5", "docs.h5", "--json", "measures.json")))
    hpcml("predict", *in_folder(folder, ("run/model.h5", "docs.h5", "-o", "labels.csv", "--top", "3", "--split", "test")))
    return folder


def count_tuned_labels(run):
    try:
        with h5py.File(run / "checkpoint" / "tuning-1.part.h5", locking=False) as file:
            return int((~np.isin(file["crc/records"][:], (-1, 0))).sum())
    except (OSError, KeyError):  # the file does not exist, or is incomplete
        return 0


def read_measures(folder):
    measures = json.loads((folder / "measures.json").read_text())
    return {name: value for name, value in measures.items() if name not in ("model", "data")}


def test_from_texts_to_answers(slurm, texts, local, tmp_path):
    (tmp_path / "docs.jsonl").write_bytes(texts.read_bytes())

    def submit(command, *arguments, options=()):
        return slurm.submit(command, *in_folder(tmp_path, arguments), options=options)

    convert, run = submit("convert", *CONVERT, "--nodes", "2", "--ranks-per-node", "2"), tmp_path / "run"
    words = (*TUNE, "--nodes", "2", "--requeue", "--directive=--exclusive")
    job = submit("tune", *words, options=(f"--dependency=afterok:{convert}",))
    after = (f"--dependency=afterok:{job}",)
    jobs = [
        submit("evaluate", "run/model.h5", "docs.h5", "--json", "measures.json", options=after),
        submit("predict", "run/model.h5", "docs.h5", "-o", "labels.csv", "--top", "3", "--split", "test", options=after),
        submit("report", "run", "-o", "report.html", options=after),
    ]
    serving = submit("serve", "run", "--port", "0", options=after)
    for disturb in (preempt, node_down):
        before = count_tuned_labels(run)
        slurm.until(job, lambda before=before: count_tuned_labels(run) > before, "label")
        disturb(slurm, job)
        slurm.until(job, lambda: slurm.states(job) != ["RUNNING"], "end of a start")
    assert (tmp_path / "docs.h5").read_bytes() == (local / "docs.h5").read_bytes()
    assert slurm.end_of(job) == [0], slurm.printed(job)
    counts = [
        int(number) for number in re.findall(r"resuming the choice of settings: (\d+) of 200 labels done", slurm.printed(job))
    ]
    assert len(counts) == 2 and 0 < counts[0] < counts[1]
    for name in ("run/model.h5", "run/choice.csv"):
        assert (tmp_path / name).read_bytes() == (local / name).read_bytes()
    for each in jobs:
        assert slurm.end_of(each) == [0], slurm.printed(each)
    assert read_measures(tmp_path) == read_measures(local)
    assert (tmp_path / "labels.csv").read_bytes() == (local / "labels.csv").read_bytes()
    assert "</html>" in (tmp_path / "report.html").read_text()

    address = slurm.until(serving, partial(_address, slurm, serving), "address")
    document = json.loads(texts.read_text().splitlines()[0])
    form = urllib.parse.urlencode({"text": f"{document['title']} {document['text']}", "limit": 3}).encode()
    with urllib.request.urlopen(f"{address}v1/projects/hpcml/suggest", form, timeout=60) as answer:
        assert len(json.load(answer)["results"]) == 3
    signal(slurm, serving)
    assert slurm.end_of(serving) == [0], slurm.printed(serving)


def _address(slurm, job):
    match = re.search(r"ready after .*?: (http://\S+/) \(Annif", slurm.printed(job))
    return match and match[1]
