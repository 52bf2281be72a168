"""Every command ends at a signal in any phase, with one message and the right exit code, and leaves nothing behind."""

import pytest
from support.interrupts import COMMANDS, expected, interrupt, make_samples, phases_of


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return make_samples(tmp_path_factory.mktemp("samples"))


# Cases that differ on several ranks.
RANKS = [
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
    for number, name in enumerate(COMMANDS):
        phases = phases_of(name)
        yield name, phases[number * 5 % len(phases)], ("TERM", "INT")[number % 2]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "phase", "how"), [*cases(), *RANKS])
def test_interrupted_command(mpirun, samples, tmp_path, name, phase, how):
    code, stderr, remaining = interrupt(mpirun, samples, tmp_path, name, phase, how)
    messages = [line for line in stderr.splitlines() if line.startswith("hpcml: ")]
    assert "Traceback" not in stderr, stderr
    if how.startswith("KILL"):
        assert code not in (0, 2, 75) and len(messages) <= 1, stderr
        assert [path for path in remaining if ".part-" not in path] == []  # the next run removes them
        return
    assert remaining == []
    expected_code, message = expected(name, phase, how)
    assert code == expected_code, stderr
    assert not message or (len(messages) == 1 and messages[0].startswith(message)), stderr
