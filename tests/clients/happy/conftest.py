"""Every envelope that a test of this folder makes is shown to the schema of Happy's own package."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.happy import telling
from clients.happy.telling import Schema
from tools.happy_wire import wire_folder


@pytest.fixture(scope="session")
def schema() -> Iterator[Schema]:
    folder = wire_folder()
    assert folder.exists(), f"Happy's schema is not in {folder}: run `make clis`"
    argv = ["node", str(Path(__file__).with_name("check.cjs")), str(folder)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Schema(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=30)


@pytest.fixture(autouse=True)
def all_pass_the_schema(schema: Schema) -> Iterator[None]:
    telling.made.clear()
    yield
    schema.check(telling.made)
