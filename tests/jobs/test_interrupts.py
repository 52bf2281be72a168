"""Every command ends at a signal, wherever it is: one sentence, a code that has a meaning, and nothing left."""

import pytest
from support.interrupts import COMMANDS, QUIET, interrupt, make_samples, phases_of, problems


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return make_samples(tmp_path_factory.mktemp("samples"))


def chosen():
    """Each command once, in one of its phases in turn, at one signal or the other."""
    for number, name in enumerate(COMMANDS):
        phases = [phase for phase in phases_of(name) if phase != "end" or name in QUIET]  # the others would do all of their work
        yield name, phases[number * 5 % len(phases)], ("TERM", "INT")[number % 2]


# Other commands write by the same code.
TWINS = {"train pegasos", "train svmperf", "predict scores", "predict csv", "predict parquet"}

# What only several ranks show, or one phase.
MORE = [
    ("convert synthetic", "import", "TERM of rank 1"),
    ("convert synthetic", "work", "TERM of mpirun"),
    ("convert synthetic", "start", "TERM of rank 0"),
    ("convert synthetic", "write", "TERM of rank 1"),
    ("convert synthetic", "write", "KILL of mpirun"),
    ("convert synthetic", "work", "KILL of its proxy"),
    ("train probe", "compile", "TERM"),
    ("train probe", "checkpoint", "TERM of rank 1"),
    ("train probe", "resume", "TERM of mpirun"),
    ("info", "end", "KILL of rank 1"),
]


def cases():
    for case in chosen():
        yield pytest.param(*case, marks=[pytest.mark.more("disturbances")] if case[0] in TWINS else [])
    yield from MORE


@pytest.mark.parametrize(("name", "phase", "how"), list(cases()))
def test_command_ends(mpirun, samples, tmp_path, name, phase, how):
    outcome = interrupt(mpirun, samples, tmp_path, name, phase, how)
    assert not problems(outcome, name, phase, how), outcome
