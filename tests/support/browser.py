"""A browser for tests of pages."""

import os
import subprocess
from pathlib import Path

import pytest

BROWSER = Path(__file__).parents[2] / "launch" / "browser-here.sh"


@pytest.fixture(scope="module")
def browser():
    """A Chromium driven by playwright. Tests are skipped without one, unless HPCML_NEEDS_BROWSER is set."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install '.[test]')")
    result = subprocess.run([BROWSER], capture_output=True, text=True, timeout=240)
    if result.returncode == 3 and "HPCML_NEEDS_BROWSER" not in os.environ:
        pytest.skip(result.stderr.strip())
    assert result.returncode == 0, result.stderr
    with playwright.sync_playwright() as driver:
        program = driver.chromium.launch(executable_path=result.stdout.strip(), args=["--no-sandbox"])
        yield program
        program.close()
