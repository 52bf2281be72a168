"""The examples run, draw their pictures, and equal the code of their pages."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
# name -> packages that it needs, and texts that it prints
SCRIPTS = {
    "topics": (
        ["pandas", "matplotlib", "jinja2", "itables"],
        ["scipy 0.", "sparse 0.", "linalg 0.", "train dual", "cluster 0."],
    ),
    "cell_types": (["anndata", "matplotlib"], ["T     15 of 15 genes found", "pDC"]),
    "pipeline": (["pandas", "matplotlib"], ["hinge, calibrated", "certificate: "]),
}


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("pages", EXAMPLES / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SCRIPTS)
def test_page_has_the_code_of_its_script(pages, name, monkeypatch, tmp_path):
    assert {*pages.PAGES} == {*SCRIPTS} == {path.stem for path in EXAMPLES.glob("*.py")} - {"pages"}
    page = (pages.DOCS / "learn" / f"{pages.PAGES[name]}.md").read_text()
    assert pages.is_current(name, page), "run python examples/pages.py"
    pictures = [picture for cell in pages.cells(name) for picture in pages.pictures(cell)]
    assert all((pages.DOCS / "pictures" / f"example-{picture}.svg").is_file() for picture in pictures)
    (tmp_path / f"{name}.py").write_text((EXAMPLES / f"{name}.py").read_text() + "\n# %%\nprint(1)\n")
    monkeypatch.setattr(pages, "HERE", tmp_path)
    assert not pages.is_current(name, page)


@pytest.mark.more("documents")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCRIPTS)
def test_example_runs(name, tmp_path):
    packages, texts = SCRIPTS[name]
    for package in packages:
        pytest.importorskip(package, reason=f"the example needs {package}")
    command = [sys.executable, EXAMPLES / f"{name}.py"]
    env = os.environ | {"MPLBACKEND": "Agg"}
    result = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert [text for text in texts if text not in result.stdout] == [], result.stdout
    assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")
