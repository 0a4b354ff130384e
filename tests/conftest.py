"""What every test runs under; read before any of them imports NumPy."""

import gc
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Generator
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings
from hypothesis.internal.detection import is_hypothesis_test

# As the command line does: on small machines BLAS threads mostly wait for each other, and for the tests beside them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

MEMORY: Final = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= 2 << 30:
    # The tests' devices and stores wait ten thousand times for a disk, and none of them cuts the power. `make test-all`
    # names the temporary folder, and so runs on the disk.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)

FEWEST_EXAMPLES: Final = 20
# A machine that does something else for a second fails no test.
settings.register_profile("overstory", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("overstory")

LONG: Final = frozenset((Path(__file__).parent / "long_tests.txt").read_text("utf-8").splitlines())
"""Tests and cases that take seconds each: they run with the slow tests, and their quicker siblings with the others."""

DAY: Final = os.environ.setdefault("OVERSTORY_DAY", date.today().isoformat())  # noqa: DTZ011 - any day would do
"""By what a mark `sampled(count)` draws the cases of an enumeration that run with the quick tests."""

TOGETHER: Final = (
    "tests/engines/test_engine_contract.py",
    "tests/golden/test_golden.py",
)
"""Files whose cases share what is costly to set up, or start clusters: `--dist loadgroup` gives each to one worker."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the cases of those files together: marks of groups have no effect under pytest 9.2."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class FilesTogether(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            return file if file in TOGETHER else nodeid

    return FilesTogether(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without looking for garbage: it would go through ten thousand tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Start a worker more than there are cores: a third of the time a test waits for sockets, processes, databases."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1


def draw_fewer_examples(items: list[Any]) -> None:
    """Let Hypothesis draw a third of the examples; `make test-all`, CI and a test that is run by its name draw all."""
    functions = {item.function for item in items if hasattr(item, "function")}
    for function in filter(is_hypothesis_test, functions):
        if hasattr(function, "_hypothesis_state_machine_class"):
            continue  # a machine's settings are those of its class; it takes as many steps as it says
        usual = function._hypothesis_internal_use_settings
        few = min(usual.max_examples, max(FEWEST_EXAMPLES, usual.max_examples // 3))
        function._hypothesis_internal_use_settings = settings(usual, max_examples=few)


class Doctests:
    """Looks for doctests where there are some: to go through what has none takes each worker seconds."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        collectors = yield
        if not file_path.is_relative_to(Path(__file__).parent) and b">>> " in file_path.read_bytes():
            return collectors
        return [one for one in collectors if not isinstance(one, DoctestModule)]


class OwnOracles:
    """Forgets an oracle that a test or a docstring registered."""

    def pytest_runtest_teardown(self) -> None:
        registry = sys.modules.get("overstory.protocol.kinds.registry")
        for name in registry.own_names() if registry else ():
            for builders in (registry.REGISTRY, registry.BUILDERS, registry.FAMILIES["symbols"]):
                del builders.places[name]


def pytest_configure(config: pytest.Config) -> None:
    """Register what holds for the source as well: a hook of this file is called for the tests alone."""
    config.pluginmanager.register(Doctests())
    config.pluginmanager.register(OwnOracles())
    config.addinivalue_line("markers", "sampled(count): that many cases, drawn by the day, are not slow")


def mark_what_the_day_leaves_out(items: list[Any]) -> None:
    """Mark as slow all but a sample of each enumeration's cases."""
    enumerations: dict[str, list[Any]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            enumerations.setdefault(item.nodeid.split("[")[0], []).append(item)
    for name, cases in enumerations.items():
        (count,) = cases[0].get_closest_marker("sampled").args
        for item in random.Random(f"{DAY} {name}").sample(cases, max(len(cases) - count, 0)):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say by which day a case was drawn that failed."""
    report = yield
    if report.failed and item.get_closest_marker("sampled"):
        report.sections.append(("Drawn by the day", f"OVERSTORY_DAY={DAY} draws the same cases again"))
    return report


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Mark the cases of the list and of a browser as slow; a list that names what is no longer there is an error."""
    if config.option.markexpr == "not slow" and os.environ.get("OVERSTORY_EXAMPLES") != "all":
        draw_fewer_examples(items)
    mark_what_the_day_leaves_out(items)
    listed, files = set(), set()
    for item in items:
        case = item.nodeid.removeprefix("tests/")
        files.add(case.split("::")[0])
        found = LONG & {case, case.split("[")[0]}
        listed |= found
        if found or item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.slow)
    if not any("::" in argument for argument in config.args):
        gone = {name for name in LONG - listed if name.split("::")[0] in files}
        if gone:
            raise pytest.UsageError(f"tests/long_tests.txt names what is not there: {', '.join(sorted(gone))}")


@pytest.fixture
def nothing_forbids(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment in which nothing forbids reporting."""
    from overstory.client.consent import CI_VARIABLES

    for name in (*CI_VARIABLES, "DO_NOT_TRACK", "OVERSTORY", "OVERSTORY_STATE"):
        monkeypatch.delenv(name, raising=False)
