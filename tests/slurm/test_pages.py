"""The commands of the pages about Slurm run on the private Slurm."""

import subprocess
import sys

from support.document_commands import TOP, blocks

PAGES = [page for page in sorted(TOP.glob("docs/**/*.md")) if any(block.launcher for block in blocks(page.read_text()))]


def test_pages(slurm):
    """`launch/slurm-here.sh with` in the pages uses the running Slurm, by HPCML_SLURM."""
    assert {page.name for page in PAGES} == {"cluster.md", "jobs.md"}
    command = [sys.executable, TOP / "tests" / "support" / "document_commands.py", *PAGES]
    result = subprocess.run(command, env=slurm.env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
