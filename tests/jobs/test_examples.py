"""The examples run, draw their pictures, and are what their pages say."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS = {
    "topics": ["pandas", "matplotlib", "jinja2", "itables"],
    "cell_types": ["anndata", "matplotlib"],
    "pipeline": ["pandas", "matplotlib"],
}
SAYS = {  # the first is what would be missed first if the example had gone wrong
    "topics": ["scipy 0.", "sparse 0.", "linalg 0.", "train dual", "cluster 0."],
    "cell_types": ["T     15 of 15 genes found", "pDC"],
    "pipeline": ["hinge, calibrated", "certificate: "],
}


@pytest.fixture(scope="module")
def pages():
    """examples/pages.py."""
    spec = importlib.util.spec_from_file_location("pages", EXAMPLES / "pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_has_a_page(pages):
    assert sorted(pages.PAGES) == sorted(path.stem for path in EXAMPLES.glob("*.py") if path.stem != "pages") == sorted(NEEDS)
    assert sorted(f"{page}.md" for page in pages.PAGES.values()) == sorted(
        page.name for page in (pages.DOCS / "learn").glob("example-*")
    )


@pytest.mark.parametrize("name", NEEDS)
def test_a_page_has_the_text_and_code_of_its_script(pages, name, monkeypatch, tmp_path):
    page = (pages.DOCS / "learn" / f"{pages.PAGES[name]}.md").read_text()
    assert pages.is_current(name, page), "run python examples/pages.py"
    assert all(
        (pages.DOCS / "pictures" / f"example-{picture}.svg").is_file()
        for cell in pages.cells(name)
        for picture in pages.pictures(cell)
    )
    script = (EXAMPLES / f"{name}.py").read_text()
    monkeypatch.setattr(pages, "HERE", tmp_path)
    for changed in (script.replace("figure.savefig(", "figure.tight_layout()\nfigure.savefig(", 1), script + "\n# %%\nprint(1)\n"):
        (tmp_path / f"{name}.py").write_text(changed)
        assert not pages.is_current(name, page)


@pytest.mark.more("documents")
@pytest.mark.timeout(320)
@pytest.mark.parametrize("name", NEEDS)
def test_an_example_runs(name, tmp_path):
    for package in NEEDS[name]:
        pytest.importorskip(package, reason=f"the example needs {package}")
    run = [sys.executable, EXAMPLES / f"{name}.py"]
    done = subprocess.run(run, cwd=tmp_path, env=os.environ | {"MPLBACKEND": "Agg"}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert all(text in done.stdout for text in SAYS[name]), done.stdout
    assert (tmp_path / f"{name}.svg").read_text().startswith("<?xml")
