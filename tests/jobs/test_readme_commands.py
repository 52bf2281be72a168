"""The runner of README.md's commands sees what fails."""

import subprocess
import sys
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[1] / "readme_commands.py"
GOOD = "# Title\n\n```bash\nmkdir -p runs\necho hello > runs/a\n```\n\n```python\nraise SystemExit\n```\n"


@pytest.fixture
def run(tmp_path):
    def run_readme(text):
        readme = tmp_path / "README.md"
        readme.write_text(text)
        return subprocess.run([sys.executable, RUNNER, readme], capture_output=True, text=True, timeout=60)

    return run_readme


def test_blocks_share_a_folder_that_is_not_the_project(run):
    done = run(GOOD + "- item\n\n  ```bash\n  grep hello runs/a\n  test -d launch && hpcml --version\n  ```\n")
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("2 of 2 blocks ran\n")
    assert not (RUNNER.parents[1] / "runs" / "a").exists()


@pytest.mark.parametrize("bad", ["false", "false | true", "echo $NO_SUCH_VARIABLE", "false\ntrue"])
def test_a_failing_block_fails(run, bad):
    done = run(GOOD + f"```bash\necho said\n{bad}\n```\n")
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "said" in done.stdout


def test_a_marked_block_is_listed_and_not_run(run):
    done = run(GOOD + "<!-- not run: takes a cluster -->\n```bash\nfalse\n```\n\n```bash\ntrue\n```\n")
    assert done.returncode == 0
    assert "not run (takes a cluster)  README.md:13: false" in done.stdout
    assert "2 of 3 blocks ran" in done.stdout
