"""Recipes, metadata and changelog have the versions of pyproject.toml and hpcml/version.py."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from support.lowest import requirements

import hpcml
from hpcml.version import NUMBER

CLONE = Path(hpcml.__file__).parents[1]
SPACK = "packaging/spack/spack_repo/hpcml/packages/py_hpcml/package.py"
CONDA = "packaging/conda/recipe.yaml"
EASYBUILD = "packaging/easybuild"
RELEASE = Version(NUMBER).base_version
# file -> pattern of the version in it
NAMED = {
    SPACK: r"hpcml-([\d.]+)\.tar|hpcml@([\d.]+)|version\(\"([\d.]+)\"",
    CONDA: r"^  version: ([\d.]+)",
    "CONTRIBUTING.md": r"^cyclonedx.*hpcml-([\d.]+)\.cdx|^## ([\d.]+)\$|tag -a v([\d.]+)",
}


def text(name):
    return (CLONE / name).read_text(encoding="utf-8")


def project():
    return tomllib.loads(text("pyproject.toml"))["project"]


def spack_range(admitted):
    lowest, below = re.fullmatch(r">=([\d.]+)(?:,<([\d.]+))?", admitted).groups()
    *before, last = (below or "0").split(".")
    return f"{lowest}:" + (".".join([*before, str(int(last) - 1)]) if below else "")


@pytest.mark.parametrize("name", NAMED)
def test_recipe_has_the_version(name):
    found = [next(filter(None, groups)) for groups in re.findall(rf"{NAMED[name]}|(?!)()", text(name), re.MULTILINE)]
    assert found
    assert {version.rstrip(".") for version in found} == {RELEASE}


def test_citation_has_the_version_and_the_date_of_a_release():
    citation, meta = (dict(re.findall(r"^([\w-]+): (.+)$", text("CITATION.cff"), re.MULTILINE)), json.loads(text("codemeta.json")))
    assert citation["version"] == meta["version"] == NUMBER
    assert ("date-released" in citation) == ("dev" not in NUMBER)
    assert citation.get("date-released") == meta.get("datePublished")


def test_changelog_is_sorted_and_states_for_each_release_whether_bits_changed():
    releases = re.findall(r"^## (.*)\n\n(.*)$", text("CHANGELOG.md"), re.MULTILINE)
    assert releases[0][0] == ("Unreleased" if "dev" in NUMBER else NUMBER)
    assert [Version(name) for name, _ in releases[1:]] == sorted((Version(name) for name, _ in releases[1:]), reverse=True)
    assert len(releases) == len(re.findall("^## ", text("CHANGELOG.md"), re.MULTILINE)) > 10
    statement = re.compile(r"\*\*Bits:\*\* (not recorded\.|unchanged\.|changed: \S.*[.,\w])")
    assert [name for name, line in releases if not statement.fullmatch(line)] == []


def test_codemeta_equals_pyproject():
    found, ours = json.loads(text("codemeta.json")), project()
    assert found["softwareRequirements"] == ours["dependencies"]
    assert found["description"] == ours["description"] and found["keywords"] == ours["keywords"]
    assert found["runtimePlatform"] == f"Python {ours['requires-python'].replace('>=', '>= ')}"
    assert ours["license"] in found["license"]


def test_spack_allows_the_versions_of_pyproject():
    found = dict(re.findall(r"depends_on\(\"py-([\w-]+)@([\d.:]+)", text(SPACK)))
    assert found.pop("setuptools") == "77:"
    extras = set(re.findall(r"variant\(\"(\w+)\"", text(SPACK)))
    assert found == {name: spack_range(admitted) for name, admitted in requirements([*extras, "report"]).items()}
    assert f'depends_on("python@{project()["requires-python"][2:]}:"' in text(SPACK)


def test_conda_allows_the_versions_of_pyproject():
    run, _, constrained = text(CONDA).partition("  run:\n")[2].partition("tests:")[0].partition("  run_constraints:\n")
    lines = [dict(re.findall(r"- ([\w.-]+) (\S+)", part)) for part in (run, constrained)]
    assert lines[0] == {"python": project()["requires-python"]} | requirements([])
    optional = {name.removesuffix("-base"): admitted for name, admitted in lines[1].items()}
    extras = set(project()["optional-dependencies"]) - {"mpi", "openmpi", "intel", "gpu", "bench", "docs", "test", "all"}
    assert requirements([]) | optional == requirements(extras)


def test_easybuild_has_versions_that_pyproject_allows():
    (file,) = (CLONE / EASYBUILD).glob("*.eb")
    assert file.name.startswith(f"hpcml-{RELEASE}-") and f"version = '{RELEASE}'" in text(file)
    found = dict(re.findall(r"\('([\w-]+)', '([\d.]+)'", text(file)))
    needed = requirements([])
    bundled = {"numpy", "scipy", "rich", "threadpoolctl"}  # in SciPy-bundle, Python-bundle-PyPI and scikit-learn
    assert set(needed) - set(found) == bundled
    assert all(Version(found[name]) in Requirement(name + needed[name]).specifier for name in set(needed) - bundled)
    assert Version(found["Python"]) in Requirement("python" + project()["requires-python"]).specifier


def test_lock_has_all_requirements_in_allowed_versions():
    lines = [line for line in text("requirements.lock").splitlines() if not line.startswith("#")]
    locked = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    assert len(locked) == len(lines)
    for name, admitted in requirements(["all", "test", "docs"]).items():
        assert Version(locked[canonicalize_name(name)]) in Requirement(name + re.sub(r"^\[.*?\]", "", admitted)).specifier, name


def test_licence_is_the_same_everywhere():
    (annotation,) = tomllib.loads(text("REUSE.toml"))["annotations"]
    assert annotation["path"] == "**" and annotation["SPDX-License-Identifier"] == project()["license"]
    assert text(f"LICENSES/{project()['license']}.txt") == text("LICENSE")


def test_page_of_compatibility_has_the_lowest_versions():
    lines = text("docs/lookup/compatibility.md").partition("## Supported versions")[2].replace("\n", " ")
    found = dict(re.findall(r"([\w-]+) ≥ ([\d.]+)", lines))
    assert found.pop("Python") == project()["requires-python"].removeprefix(">=")
    needed = requirements(["mpi", "openmpi", "intel"])
    assert found == {
        name: re.match(r">=([\d.]+)", needed[name])[1] for name in ("numpy", "numba", "mpi4py", "mpich", "openmpi", "impi-rt")
    }
