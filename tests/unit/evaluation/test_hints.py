"""What is said where labels by scores above 0 are far too few, or the default λ is too large, and that it is not said where they
are not.
"""

import h5py
import numpy as np
import pytest
from support import make
from support.judged import judged, predicted

from hpcml.cli import app as cli
from hpcml.data.dataset import DataFile
from hpcml.evaluation.hints import hint_at_low_recall
from hpcml.log import Log
from hpcml.model.linear import Model
from hpcml.mpi import self_comm

N_ROWS = 200


class Heard(Log):
    """Keeps the notes."""

    def __init__(self):
        super().__init__(0)
        self.notes = []

    def __call__(self, text, has_lines=False):
        self.notes += [text] if text.startswith("note: ") else []


def made(folder, found, positives=20, false=0, trained_on=None, valid=False):
    """A label with so many positive rows, of which `found` have a score above 0, and as many others as `false`."""
    values = np.full(N_ROWS, 0.25)
    values[:positives], values[:found] = 0.5, 2.0
    values[positives : positives + false] = 2.0
    splits = {"test": np.arange(N_ROWS)} | ({"valid": np.arange(10)} if valid else {})
    data = make.dataset(folder / "data.h5", values[:, None], (np.arange(N_ROWS) < positives)[:, None], splits=splits)
    model = make.model(folder / "model.h5", np.ones((1, 1)), np.array([-1.0]))
    with h5py.File(model, "r+") as file:
        if trained_on is not None:
            file["labels/n_positive"][:], file.attrs["n_rows"] = trained_on
    return model, data


def notes_of_evaluation(model, data):
    opened, log = Model(model) if not isinstance(model, Model) else model, Heard()
    with DataFile(data) as dataset:
        hint_at_low_recall(log, judged(opened, data, "test"), opened, dataset)
    return log.notes


def notes_of_labels(model, data, output):
    log = Heard()
    predicted(model, data, output, log=log)
    return log.notes


@pytest.mark.parametrize(
    ("found", "false", "said"),
    [
        (4, 0, "macro recall (0.20) is far below macro precision (1.00)"),  # 4 of 20; 4 of 4
        (10, 0, ""),  # a half is not far
        (4, 8, ""),  # recall 0.2, precision 4 of 12: both are low, and more labels would not help
        (0, 0, "no row gets a label"),
        (20, 0, ""),
    ],
)
def test_evaluation(tmp_path, found, false, said):
    notes = notes_of_evaluation(*made(tmp_path, found, false=false))
    assert len(notes) == bool(said) and all(said in note and "`hpcml tune DATA --output RUN`" in note for note in notes)


def test_nothing_is_said_of_thresholds_nor_of_few_rows(tmp_path):
    model, data = made(tmp_path, 4)
    assert notes_of_evaluation(model, data) and not notes_of_evaluation(Model(model).with_threshold(0.0), data)
    with h5py.File(model, "r+") as file:
        file["labels/threshold"] = np.zeros(1)
    assert not notes_of_evaluation(model, data)
    for positives, said in ((19, 0), (20, 1)):
        (tmp_path / str(positives)).mkdir()
        assert len(notes_of_evaluation(*made(tmp_path / str(positives), 4, positives))) == said


@pytest.mark.parametrize(
    ("found", "trained_on", "said"),
    [
        (4, (30, 100), "rows get 0.02 labels on average, while training rows have 0.3"),
        (29, (30, 100), "rows get 0.14 labels on average"),  # 30 of 200 are a half of 0.3
        (30, (30, 100), ""),
        (4, (9, 100), ""),  # 18 labels are expected, which chance may make 4
        (4, None, ""),  # a model that does not say what it was trained on
    ],
)
def test_labels_of_rows(tmp_path, found, trained_on, said):
    model, data = made(tmp_path, found, positives=60, trained_on=trained_on)
    notes = notes_of_labels(model, data, tmp_path / "labels.csv")
    assert len(notes) == bool(said) and all(said in note for note in notes)
    assert notes_of_labels(model, data, tmp_path / "labels.h5") == notes
    assert not notes_of_labels(Model(model).with_threshold(0.0), data, tmp_path / "thresholds.csv")


def test_commands_say_it_behind_their_result_and_name_what_to_do(tmp_path, capsys):
    model, data = made(tmp_path, 4, trained_on=(30, 100), valid=True)
    text = tmp_path / "rows.svm"
    text.write_text("0 1:0.5\n" * N_ROWS)
    do = f"`hpcml threshold {model} {data} --measure label`"
    rows = ["-o", tmp_path / "labels.csv", "--force"]
    for tokens, named in (
        (["evaluate", model, data], do),
        (["predict", model, data, *rows], do),
        (["predict", model, text, *rows], "`hpcml tune DATA --output RUN`"),
    ):
        cli.run([str(token) for token in tokens], self_comm)
        assert [named in line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")] == [True]
    cli.run(["evaluate", str(model), str(data), "--quiet"], self_comm)
    assert not capsys.readouterr().err
    cli.run(do.strip("`").split()[1:], self_comm)  # the model then has thresholds
    capsys.readouterr()
    cli.run(["evaluate", str(model), str(data)], self_comm)
    assert "note: " not in capsys.readouterr().err
