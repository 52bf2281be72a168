"""The runner of the commands in README.md and docs/ fails when a command fails."""

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
RUNNER = TOP / "tests" / "support" / "document_commands.py"
GOOD = "# Title\n\n```bash\nmkdir -p runs\necho hello > runs/a\n```\n\n```json\nnot a command\n```\n"


@pytest.fixture
def run(tmp_path):
    def run_pages(text, **others):
        for name, page in {"README": text, **others}.items():
            (tmp_path / f"{name}.md").write_text(page)
        return subprocess.run([sys.executable, RUNNER, tmp_path / "README.md"], capture_output=True, text=True, check=False)

    return run_pages


def test_blocks_run_in_one_folder_outside_the_project(run):
    python = "```python\nassert open('runs/a').read() == 'hello\\n'\n```\n"
    marked = "<!-- not run: takes a cluster -->\n```bash\nfalse\n```\n\n"
    result = run(GOOD + "- item\n\n  ```bash\n  grep hello runs/a\n  test -d launch\n  ```\n" + python + marked)
    assert result.returncode == 0, result.stdout
    assert "3 of 4 blocks ran" in result.stdout and "not run (takes a cluster)  README.md:" in result.stdout
    assert not (TOP / "runs" / "a").exists()


BAD = ["false | true", "echo $NO_SUCH_VARIABLE", "false\ntrue"]


@pytest.mark.parametrize("block", [*(f"bash\necho said\n{bad}" for bad in BAD), "python\nraise SystemExit('said')"])
def test_failing_block_fails_the_run(run, block):
    result = run(f"{GOOD}```{block}\n```\n")
    assert result.returncode == 1
    assert "FAILED" in result.stdout and "said" in result.stdout


STANDING = "hpcml --version > version\nmkdir -p in && cd in\nmpirun -n 2 hpcml convert synthetic gaussians --rows 50 -o rows.h5\n"


def test_standing_ranks_run_a_block_in_its_folder_and_fail_like_processes(run):
    assert run(f"```bash\n{STANDING}```\n```bash\ntest -f in/rows.h5 && grep -q [0-9] version\n```\n").returncode == 0
    results = [run(f"```bash\nmpirun -n 2 hpcml info absent.h5{pipe}\n```\n") for pipe in ("", " | cat")]  # the second: processes
    messages = [[line for line in result.stdout.splitlines() if line.startswith("hpcml: ")] for result in results]
    assert [result.returncode for result in results] == [1, 1]
    assert messages[0] == messages[1] and len(messages[0]) == 1
