"""The commands of the pages on Slurm, on the private one of these tests."""

import subprocess
import sys

import pytest
from support.document_commands import TOP, blocks
from support.private_slurm import ROOT

PAGES = [page for page in sorted(TOP.glob("docs/**/*.md")) if any(block.launcher for block in blocks(page.read_text()))]


@pytest.mark.timeout(900)
def test_pages(slurm):
    """`launch/slurm-here.sh with` in the pages finds that Slurm by HPCML_SLURM."""
    assert {page.name for page in PAGES} == {"cluster.md", "jobs.md"}
    command = [sys.executable, ROOT / "tests" / "support" / "document_commands.py", *PAGES]
    done = subprocess.run(command, env=slurm.env, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
