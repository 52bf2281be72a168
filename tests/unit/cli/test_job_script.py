"""slurm/run.sbatch resumes the commands that can resume, and no others."""

import inspect
import re
from pathlib import Path

from hpcml.cli.app import build

COMMON = Path(__file__).parents[3] / "slurm" / "common.sh"


def resumes(app):
    """Whether a command, or all of its commands, take --resume."""
    if app.default_command is not None:
        return "resume" in inspect.signature(app.default_command).parameters
    names = [name for name in app if not name.startswith("-")]
    return bool(names) and all(resumes(app[name]) for name in names)


def test_commands_that_resume_are_those_with_the_option():
    app = build()
    (listed,) = re.findall(r'^RESUMABLE="([a-z ]+)"', COMMON.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(listed.split()) == {name for name in app if not name.startswith("-") and resumes(app[name])}
