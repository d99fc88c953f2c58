"""One node and its providers for all tests of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import Gateway, Running


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    binary = os.environ.get("HOLDLINE")
    assert binary, "HOLDLINE is the program under test: see `run`"
    with Running(Path(binary), tmp_path_factory.mktemp("node")) as running:
        yield running
