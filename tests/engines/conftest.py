"""Small blocks, so that a few hundred reports are many units; an object store, and Java, for those that need them."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from overstory.files import parquet as blocks
from support.engine_files import RAPPOR, Collection
from support.object_store import object_store


@pytest.fixture
def small_blocks(monkeypatch):
    for name, size in {"BLOCK": 50, "SEEDED_BLOCK": 60, "GROUP_BYTES": 400, "SORTED_BYTES": 2000}.items():
        monkeypatch.setattr(blocks, name, size)


@pytest.fixture
def collection(tmp_path, small_blocks):
    def made(name="rappor", parameters=RAPPOR, size=900):
        folder = tmp_path / "reports"
        folder.mkdir()
        return Collection(folder, name, parameters, size)

    return made


@pytest.fixture(scope="module")
def bucket():
    with object_store() as options:
        yield options


@pytest.fixture
def java(monkeypatch):
    if shutil.which("java") is None and os.environ.get("OVERSTORY_JAVA") != "required":
        pytest.skip("there is no Java here: apt install openjdk-17-jre-headless")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Make a folder in which workers mark what they count; they find `support` where the tests do."""
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    folder = tmp_path / "watched"
    folder.mkdir()
    return folder
