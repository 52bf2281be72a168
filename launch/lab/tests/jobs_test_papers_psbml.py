"""Exhibits of the PSBML paper as a user makes them: what their numbers are made of, on several ranks, and what is continued."""

import csv
import json

import numpy as np
import pytest
from support.jobs import done


def outcome(folder, name):
    return json.loads((folder / f"psbml-{name}.json").read_text())["numbers"]


def test_figure_7_is_the_mean_of_its_histories(standing, tmp_path):
    done(standing(1, "paper", "psbml", "figure-7", "--quick", "-o", tmp_path / "s"))
    found = outcome(tmp_path / "s", "figure-7")["L5, Pr 0.2"]
    (history,) = (tmp_path / "s").glob("made-L5-*/history.csv")
    lines = list(csv.DictReader(history.open()))
    errors = [100 * float(line["error"]) for line in lines if line["cycle"] != "0"]
    assert found["error, cycle 1"] == pytest.approx(errors[0])
    assert (found["least error"], found["in cycle"]) == (pytest.approx(min(errors)), 1 + errors.index(min(errors)))
    assert (tmp_path / "s" / "figure-7.png").stat().st_size > 1000


def test_table_4_is_made_of_its_seeds_and_resumes(standing, tmp_path):
    done(standing(2, "paper", "psbml", "table-4", "--quick", "-o", tmp_path / "s"))
    before = outcome(tmp_path / "s", "table-4")
    with (tmp_path / "s" / "made-kernel-nb" / "seeds.csv").open() as file:
        lines = list(csv.DictReader(file))
    gains = [100 * (float(line["auc"]) - float(line["base_auc"])) for line in lines]
    assert before["made numbers, NB"]["difference"] == pytest.approx(np.mean(gains))
    assert before["made numbers, NB"]["deviation"] == pytest.approx(np.std(gains, ddof=1))
    steps = json.loads((tmp_path / "s" / "steps.json").read_text())
    again = done(standing(1, "paper", "psbml", "table-4", "--quick", "-o", tmp_path / "s", "--resume"))
    assert outcome(tmp_path / "s", "table-4") == before
    assert json.loads((tmp_path / "s" / "steps.json").read_text()) == steps and "training" not in again.stderr


def test_what_is_kept_is_found_once_on_any_ranks(standing, tmp_path):
    for n in (1, 2, 3):
        done(standing(n, "paper", "psbml", "table-8", "--quick", "-o", tmp_path / f"{n}"))
    one, two, three = (outcome(tmp_path / f"{n}", "table-8") for n in (1, 2, 3))
    assert one == two == three


def test_figure_10_takes_all_numbers_that_divide_the_ranks(standing, tmp_path):
    done(standing(2, "paper", "psbml", "figure-10", "--quick", "-o", tmp_path / "s"))
    found = outcome(tmp_path / "s", "figure-10")
    assert list(found) == ["1 rank", "2 ranks"] and found["1 rank"]["speed-up"] == 1.0
