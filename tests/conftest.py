"""Settings and fixtures of all tests. Those of tests on several ranks are in support/rendezvous.py."""

import gc
import os
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = ["support.rendezvous", "support.browser", "support.more"]
gc.set_threshold(20_000)  # as in processes of hpcml

hypothesis.settings.register_profile(
    "hpcml",
    deadline=None,
    derandomize=True,  # the same draws on every rank
    database=None,
    max_examples=50,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("hpcml")


@pytest.fixture
def data_dir():
    if "HPCML_DATA" not in os.environ:
        pytest.skip("needs real data: HPCML_DATA names no folder")
    return Path(os.environ["HPCML_DATA"])
