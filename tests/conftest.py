"""What every test runs under; read before any of them imports NumPy."""

import gc
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

# As the command line does: on small machines BLAS threads mostly wait for each other, and for the tests beside them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

MEMORY: Final = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= 2 << 30:
    # The tests' devices and stores wait ten thousand times for a disk, and none of them cuts the power. `make test-all`
    # names the temporary folder, and so runs on the disk.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

LONG: Final = frozenset((Path(__file__).parent / "long_tests.txt").read_text("utf-8").splitlines())
"""Cases that take seconds each: they run with the slow tests, and their quicker siblings with the others."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: it would go through ten thousand tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Mark the cases of the list as slow; a list that names what is no longer there is an error."""
    listed, files = set(), set()
    for item in items:
        name = item.nodeid.removeprefix("tests/")
        files.add(name.split("::")[0])
        if name in LONG:
            listed.add(name)
            item.add_marker(pytest.mark.slow)
    if not any("::" in argument for argument in config.args):
        gone = {name for name in LONG - listed if name.split("::")[0] in files}
        if gone:
            raise pytest.UsageError(f"tests/long_tests.txt names what is not there: {', '.join(sorted(gone))}")
