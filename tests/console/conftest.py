"""The console that the tests of its pages look at, and the browser that they look with."""

import pytest

from overstory.console.data import ConsoleData
from support.console_browser import launched, served_console
from support.console_in_process import analyst_of, open_test_store
from support.console_store import NOW, make_store
from support.decoding import shared_estimates


@pytest.fixture(scope="session")
def console_data(tmp_path_factory):
    registry, store = make_store(tmp_path_factory.mktemp("console"))
    with store:
        # A page that waits for no decoding never loads itself again while a test opens the next one.
        data = ConsoleData(registry, store, lambda: NOW, shared_estimates(60.0))
        yield data
        data.decoder.close()


@pytest.fixture
def store(tmp_path):
    with open_test_store(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def served(console_data):
    with served_console(console_data) as serving:
        yield serving


@pytest.fixture(scope="module")
def browser():
    """A Chromium for a module: while Playwright runs, no other test in this thread could run an event loop."""
    with launched() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("console")


@pytest.fixture(scope="module")
def client(data):
    return analyst_of(data)
