"""The runner of the commands in README.md and docs/ sees what fails."""

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
        return subprocess.run([sys.executable, RUNNER, tmp_path / "README.md"], capture_output=True, text=True, timeout=60)

    return run_pages


def test_blocks_share_a_folder_that_is_not_the_project(run):
    done = run(GOOD + "- item\n\n  ```bash\n  grep hello runs/a\n  test -d launch && hpcml --version\n  ```\n")
    assert done.returncode == 0, done.stdout
    assert "2 of 2 blocks ran" in done.stdout
    assert not (TOP / "runs" / "a").exists()


@pytest.mark.parametrize("bad", ["false", "false | true", "echo $NO_SUCH_VARIABLE", "false\ntrue"])
def test_a_failing_block_fails(run, bad):
    done = run(GOOD + f"```bash\necho said\n{bad}\n```\n")
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "said" in done.stdout


def test_blocks_of_python_run(run):
    assert run(GOOD + "```python\nassert open('runs/a').read() == 'hello\\n'\n```\n").returncode == 0
    done = run(GOOD + "```python\nraise SystemExit('said')\n```\n")
    assert done.returncode == 1
    assert "said" in done.stdout


STANDING = "hpcml --version > version\nmkdir -p in && cd in\nmpirun -n 2 hpcml convert synthetic gaussians --rows 50 -o rows.h5\n"


def test_ranks_that_stand_by_run_a_block_in_its_folder_and_fail_as_processes_do(run):
    assert run(f"```bash\n{STANDING}```\n```bash\ntest -f in/rows.h5 && grep -q [0-9] version\n```\n").returncode == 0
    codes, said = [], []
    for more in ("", " | cat"):  # the second has processes of its own
        done = run(f"```bash\nmpirun -n 2 hpcml info absent.h5{more}\n```\n")
        codes.append(done.returncode)
        said.append([line for line in done.stdout.splitlines() if line.startswith("hpcml: ")])
    assert codes == [1, 1] and said[0] == said[1] and len(said[0]) == 1


def test_a_marked_block_is_listed_and_not_run(run):
    done = run(GOOD + "<!-- not run: takes a cluster -->\n```bash\nfalse\n```\n\n```bash\ntrue\n```\n")
    assert done.returncode == 0
    assert "not run (takes a cluster)  README.md:13: false" in done.stdout
    assert "2 of 3 blocks ran" in done.stdout


def test_a_page_begins_with_the_files_of_the_page_that_it_needs(run):
    done = run("<!-- needs: first.md -->\n```bash\ngrep hello runs/a\necho more >> runs/a\n```\n", first=GOOD)
    assert done.returncode == 0, done.stdout
    assert done.stdout.index("first.md") < done.stdout.index("README.md")
    assert "2 of 2 blocks ran" in done.stdout


def test_a_page_that_needs_a_missing_page_or_itself_is_refused(run):
    done = run("<!-- needs: missing.md -->\n")
    assert done.returncode == 1
    assert "missing.md does not exist" in done.stderr
    done = run("<!-- needs: other.md -->\n", other="<!-- needs: README.md -->\n")
    assert done.returncode == 1
    assert "needs itself" in done.stderr
