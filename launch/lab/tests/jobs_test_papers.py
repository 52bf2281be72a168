"""`hpcml paper` as a user gives it: every table and figure in its quick form, on several ranks, and mistakes."""

import json
from pathlib import Path

import pytest
from support.jobs import done, refused

from hpcml.papers import page
from hpcml.papers.registry import PAPERS

TOP = Path(__file__).parents[2]
LINES = [(paper.name, exhibit.name) for paper in PAPERS.values() for exhibit in paper.exhibits if exhibit.make]


def outcome(folder, paper, exhibit):
    return json.loads((folder / f"{paper}-{exhibit}.json").read_text())


@pytest.mark.parametrize(("paper", "exhibit"), LINES)
def test_the_quick_form_of_every_line_runs(standing, tmp_path, paper, exhibit):
    said = done(standing(1, "paper", paper, exhibit, "--quick", "-o", tmp_path / "study")).stdout
    found = outcome(tmp_path / "study", paper, exhibit)
    assert said.splitlines()[-1].startswith("not judged; ") and found["verdict"] == "not judged"
    assert found["numbers"] and all(row for row in found["numbers"].values())
    assert str(tmp_path) not in json.dumps(found)


@pytest.mark.parametrize(("paper", "exhibit"), [("probe", "table-3")])
def test_several_ranks_find_the_same_numbers(standing, tmp_path, paper, exhibit):
    for n in (1, 2):
        done(standing(n, "paper", paper, exhibit, "--quick", "-o", tmp_path / f"{n}"))
    one, two = (outcome(tmp_path / f"{n}", paper, exhibit) for n in (1, 2))
    assert one["numbers"] == two["numbers"] and (one["ranks"], two["ranks"]) == (1, 2)


@pytest.mark.parametrize("n", [1, 2])
def test_quiet_leaves_the_result_alone(standing, tmp_path, n):
    """What `train` and `evaluate` print of their own is part of the loud form alone."""
    words = ("paper", "extreme", "tractability", "--quick")
    loud, quiet = (done(standing(n, *words, "-o", tmp_path / f"{k}", *flag)) for k, flag in enumerate(((), ("--quiet",))))
    assert quiet.stdout.splitlines()[0].startswith("Elkan 2015, tractability")
    assert all(line.startswith("warning: ") for line in quiet.stderr.splitlines())
    said = loud.stdout.splitlines()[: -len(quiet.stdout.splitlines())]
    assert any(line.startswith("micro ") for line in said)


def test_the_page_is_of_these_outcomes():
    """docs: the page is what the outcomes beside it make, whoever ran them."""
    assert (TOP / "docs" / "papers.md").read_text() == page.page(page.outcomes(TOP / "docs" / "papers"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("probe",), "name a table or figure"),
        (("probe", "table-3"), "name a folder: -o FOLDER"),
        (("probe", "table-99", "-o", "OUT"), "probe has no 'table-99'"),
        (("nobody", "table-1", "-o", "OUT"), "there is no paper 'nobody'"),
        (("--quick",), "--quick has no effect without a paper"),
        (("probe", "table-3", "-o", "OUT", "--resume", "--force"), "contradict each other"),
        (("probe", "table-3", "no.h5", "-o", "OUT", "--quick"), "--quick takes small made rows"),
        (("--page", "OUT"), "name the page to make"),
        (("probe", "--page", "OUT", "-o", "p.md"), "a paper has no effect with --page"),
        (("--page", "OUT", "-o", "OUT/p.md"), "has no PAPER-EXHIBIT.json"),
    ],
)
@pytest.mark.parametrize("n", [1, 2])
def test_mistakes(standing, tmp_path, n, arguments, words):
    refused(standing(n, "paper", *(word.replace("OUT", str(tmp_path / "out")) for word in arguments)), words)
    assert not (tmp_path / "out").exists()


def test_the_list(standing):
    said = done(standing(2, "paper")).stdout
    assert all(f"{paper.name}: {paper.source}" in said for paper in PAPERS.values())
