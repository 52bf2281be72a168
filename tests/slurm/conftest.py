"""The private Slurm of these tests. A test that fails shows its state."""

import os

import pytest
from support.private_slurm import CannotRun, private_slurm


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    try:
        with private_slurm(tmp_path_factory.mktemp("slurm")) as slurm:
            yield slurm
    except CannotRun as reason:
        if "HPCML_NEEDS_SLURM" in os.environ:
            raise
        pytest.skip(str(reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and "slurm" in getattr(item, "funcargs", {}):
        report.sections.append(("the private Slurm", item.funcargs["slurm"].report()))
    return report
