"""The frame of `hpcml paper`: its list, its verdicts, its page, and studies that go on where they were."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from hpcml import mpi
from hpcml.errors import ConfigError, DataError, Interrupted
from hpcml.log import Log
from hpcml.papers import command, corpora, page, registry
from hpcml.papers.exhibit import Claim, Exhibit, Finding, Paper
from hpcml.papers.outcome import Outcome, judged, text, write
from hpcml.papers.study import PaperStudy
from hpcml.run.session import Session, Target

ALL = [(paper, exhibit) for paper in registry.PAPERS.values() for exhibit in paper.exhibits]
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
OUTCOME = Outcome(
    paper="probe",
    exhibit="table-3",
    command="hpcml paper probe table-3",
    data=["A", "B"],
    quick=False,
    ranks=2,
    seconds=12.25,
    numbers={"A": {"MAP": 0.5, "iterations": 12345.0}, "B": {"MAP": 0.25}},
    published={"A": {"MAP": 0.4}, "C": {"BE": 0.125}},
    claims={"it is good": True, "it is fast | and small": False},
    notes=["a note"],
    made_on={"processor": "some"},
)


@pytest.mark.parametrize(("paper", "exhibit"), ALL, ids=lambda value: getattr(value, "name", None))
def test_every_table_and_figure_is_declared_whole(paper, exhibit):
    assert NAME.fullmatch(exhibit.name) and exhibit.page >= 0 and exhibit.title
    assert exhibit.kind in ("", *corpora.MADE) and set(exhibit.corpora) <= set(corpora.CORPORA)
    assert exhibit.make or exhibit.lacks, "it is not made, and nothing says why"
    assert not exhibit.claims or exhibit.make, "claims of what is not made"
    assert len({claim.says for claim in exhibit.claims}) == len(exhibit.claims)
    printed = registry.published(paper.name, exhibit.name)
    assert all(isinstance(number, int | float) for row in printed.values() for number in row.values())


@pytest.mark.parametrize("paper", registry.PAPERS.values(), ids=lambda paper: paper.name)
def test_every_paper_is_declared_whole(paper):
    names = [exhibit.name for exhibit in paper.exhibits]
    assert len(set(names)) == len(names) and len(paper.learnt) <= 10
    assert paper.title and paper.source and paper.claims
    printed = json.loads((registry.files("hpcml.papers") / "published" / f"{paper.name}.json").read_text())
    assert set(printed) <= set(names)


def test_the_list_has_a_line_for_each_and_says_why_one_cannot_be_made():
    expected = []
    for paper in registry.PAPERS.values():
        expected.append(f"{paper.name}: {paper.source}")
        for exhibit in paper.exhibits:
            expected.append(
                " ".join((exhibit.name, exhibit.title, "" if exhibit.make else f"(cannot be made: {exhibit.lacks})")).strip()
            )
    assert [" ".join(line.split()) for line in registry.listing().splitlines() if line][:-1] == expected


@pytest.mark.parametrize(
    ("claims", "quick", "verdict"),
    [
        ({"a": True, "b": True}, False, "holds"),
        ({"a": True, "b": False}, False, "holds in part"),
        ({"a": False, "b": None}, False, "does not hold"),
        ({"a": None}, False, "not judged"),
        ({}, False, "not judged"),
        ({"a": True}, True, "not judged"),
    ],
)
def test_verdicts(claims, quick, verdict):
    assert replace(OUTCOME, claims=claims, quick=quick).verdict == verdict


def test_a_claim_about_rows_that_are_not_there_is_not_judged():
    claims = (Claim("more than 1", lambda numbers: numbers["A"]["x"] > 1), Claim("about B", lambda numbers: numbers["B"]["x"] > 1))
    found = judged(claims, Finding({"A": {"x": 2.0}}), quick=False)
    assert found == {"more than 1": True, "about B": None}
    assert set(judged(claims, Finding({"A": {"x": 2.0}}), quick=True).values()) == {None}


def test_what_is_printed_and_written(tmp_path):
    paper, exhibit = registry.exhibit_named("probe", "table-3")
    said = text(OUTCOME, paper, exhibit)
    assert re.search(r"^A +0\.5 \(0\.4\) +12,345 +–$", said, re.MULTILINE), said
    assert "holds: it is good\n" in said and "does not hold: it is fast" in said
    assert said.endswith("holds in part; 12 s on 2 ranks")
    write(tmp_path, OUTCOME)
    lines = (tmp_path / "probe-table-3.csv").read_text().splitlines()
    assert lines == ["row,column,ours,published", "A,MAP,0.5,0.4", "A,iterations,12345.0,", "B,MAP,0.25,", "C,BE,,0.125"]
    assert json.loads((tmp_path / "probe-table-3.json").read_text()) == asdict(OUTCOME) | {"verdict": "holds in part"}


def test_the_page(tmp_path):
    write(tmp_path, OUTCOME)
    made = page.page(page.outcomes(tmp_path))
    assert "[`table-3`](#probe-table-3)" in made and "\n### probe table-3\n" in made
    assert "| A | 0.5 (0.4) | 12,345 | – |" in made and "- does not hold: it is fast | and small" in made
    headings = [line for line in made.splitlines() if line.startswith("## ")]
    assert headings == [f"## {paper.title}" for paper in registry.PAPERS.values()]
    (tmp_path / "probe-table-1.json").write_text('{"paper": "probe"}')
    with pytest.raises(DataError, match=r"probe-table-1\.json is no outcome"):
        page.outcomes(tmp_path)
    with pytest.raises(ConfigError, match="has no PAPER-EXHIBIT"):
        page.outcomes(tmp_path / "nothing")


OF_THE_PAGE = page.outcomes(Path(__file__).parents[3] / "docs" / "papers")


@pytest.mark.parametrize(("paper", "exhibit"), ALL, ids=lambda value: getattr(value, "name", None))
def test_a_number_stands_for_each_exhibit_that_has_one_of_the_paper(paper, exhibit):
    """In the outcomes that docs/papers.md is made of: a number of ours, beside the paper's where one cell has both."""
    outcome = OF_THE_PAGE.get((paper.name, exhibit.name))
    assert (outcome is None) == (exhibit.make is None)
    row, column = exhibit.main or ("", "")
    both = [name for name, row in outcome.published.items() if row.keys() & outcome.numbers.get(name, {})] if outcome else []
    assert exhibit.main or not both
    assert not exhibit.main or column in outcome.numbers[row]
    assert not both or column in outcome.published[row]


class Commands:
    """In place of hpcml's commands: notes what was asked for, makes the output, stops at one of them."""

    def __init__(self, stops_at=None):
        self.asked, self.stops_at = [], stops_at

    def __call__(self, tokens):
        self.asked.append(list(tokens))
        if tokens[0] == self.stops_at:
            raise Interrupted("a signal arrived")
        output = Path(tokens[tokens.index("-o") + 1])
        if tokens[0] == "train":
            output.mkdir(exist_ok=True)
        else:
            output.write_text("made")


def _toy(study):
    rows = study.made()
    study.run("train", "probe", rows.train, "-o", study.folder / "run")
    seconds = study.run("predict", "run", "-o", study.folder / "scores.csv")
    return Finding({"A": {"x": 1.0, "known": float(seconds >= 0)}})


@pytest.fixture
def toy(monkeypatch):
    exhibit = Exhibit("table-1", 1, "a toy", claims=(Claim("x is 1", lambda numbers: numbers["A"]["x"] == 1),), make=_toy)
    paper = Paper("toy", "Toy", "Nobody 2000", "Nothing.", (exhibit, Exhibit("table-2", 1, "lost", lacks="it is lost")))
    monkeypatch.setattr(registry, "PAPERS", {"toy": paper})
    monkeypatch.setattr(command, "published", lambda *_: {})
    return "toy", "table-1"


@pytest.fixture
def session():
    comm = mpi.self_comm()
    return Session(comm, Log(0, quiet=True))


def test_a_study_goes_on_where_it_was(toy, session, tmp_path):
    folder, first = tmp_path / "study", Commands(stops_at="predict")
    with pytest.raises(Interrupted):
        command.make(session, toy, Target(folder, resume=True), (), False, first)  # a new one begins, as with `train`
    assert [words[0] for words in first.asked] == ["convert", "train", "predict"]
    (folder / "scores.csv").write_text("half of it")
    second = Commands()
    said = command.make(session, toy, Target(folder, resume=True), (), False, second)
    assert [words[0] for words in second.asked] == ["predict"] and second.asked[0][-1] == "--force"
    assert said.endswith("s on 1 rank") and "holds: x is 1" in said
    assert json.loads((folder / "toy-table-1.json").read_text())["verdict"] == "holds"
    anew = Commands()
    command.make(session, toy, Target(folder, force=True), (), False, anew)
    assert [words[-1] for words in anew.asked] == ["--force"] * 3


def test_an_interrupted_training_is_resumed(toy, session, tmp_path):
    folder = tmp_path / "study"
    with pytest.raises(Interrupted):
        command.make(session, toy, Target(folder), (), False, Commands(stops_at="train"))
    (folder / "run").mkdir()
    again = Commands()
    command.make(session, toy, Target(folder, resume=True), (), False, again)
    assert again.asked[0][0] == "train" and again.asked[0][-1] == "--resume"


def test_a_signal_between_two_commands_stops_the_study(toy, session, tmp_path):
    session.signals.seen = True
    with pytest.raises(Interrupted, match="0 commands are done; continue with --resume"):
        command.make(session, toy, Target(tmp_path / "study"), (), False, Commands())


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (("toy", "table-9"), {}, "toy has no 'table-9'; it has table-1, table-2"),
        (("nobody", "table-1"), {}, "there is no paper 'nobody'; the papers are toy"),
        (("toy", "table-2"), {}, "cannot be made: it is lost"),
        (("toy", "table-1"), {"quick": True, "given": ("a.h5",)}, "--quick takes small made rows"),
    ],
)
def test_what_makes_no_sense(toy, session, tmp_path, names, options, words):
    given = [tmp_path / name for name in options.get("given", ())]
    with pytest.raises(ConfigError, match=re.escape(words)):
        command.make(session, names, Target(tmp_path / "s"), given, options.get("quick", False), Commands())
    assert not (tmp_path / "s").exists()


def test_folders_that_are_something_else(toy, session, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("mine")
    for target in (Target(other), Target(other, force=True), Target(other, resume=True)):
        with pytest.raises(ConfigError, match="is not empty and holds no study"):
            command.make(session, toy, target, (), False, Commands())
    assert [path.name for path in other.iterdir()] == ["letter.txt"]
    study = tmp_path / "study"
    command.make(session, toy, Target(study), (), False, Commands())
    with pytest.raises(ConfigError, match="has a study already; continue it with --resume, or begin anew with --force"):
        command.make(session, toy, Target(study), (), False, Commands())
    with pytest.raises(ConfigError, match="on other data or in another form"):
        command.make(session, toy, Target(study, resume=True), (), True, Commands())


def test_corpora_given_rows_and_made_rows(toy, session, tmp_path, monkeypatch):
    """Given rows go first, then what HPCML_DATA has, then made ones."""
    (tmp_path / "20newsgroups.jsonl.xz").write_text("")
    exhibit = Exhibit("table-1", 1, "a toy", corpora=("20newsgroups", "a9a"), make=_toy)

    def names(**options):
        study = PaperStudy(session, exhibit, tmp_path, Commands(), **{"quick": False, "given": (), "anew": False} | options)
        return [rows.name for rows in study.datasets()]

    monkeypatch.setenv("HPCML_DATA", str(tmp_path))
    assert names() == ["Newsgroups"] and names(given=(tmp_path / "mine.h5",)) == ["mine"] and names(quick=True) == ["made text"]
    monkeypatch.delenv("HPCML_DATA")
    assert names() == ["made text"]
