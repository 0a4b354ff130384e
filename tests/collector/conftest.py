"""What the collector's tests share."""

import asyncio
import inspect

import pytest

from overstory.collector.store import open_store
from support.served import served
from support.store_databases import KINDS, fresh
from support.store_samples import registry


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def server_folder(tmp_path_factory):
    """The folder of this process's PostgreSQL.

    Another process of the test run has another: transactions of all databases of a server keep deleted rows readable.
    """
    return tmp_path_factory.getbasetemp()


@pytest.fixture(params=KINDS)
def store_url(request, server_folder):
    """An empty database, of each kind in turn."""
    with fresh(request.param, server_folder) as url:
        yield url


@pytest.fixture
def postgres_url(server_folder):
    """An empty database of PostgreSQL, for what is special to it."""
    with fresh("postgresql", server_folder) as url:
        yield url


@pytest.fixture
def metrics(tmp_path):
    return registry(folder=tmp_path)


@pytest.fixture
def store(store_url, metrics):
    with open_store(store_url, metrics, create=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def listening():
    with served() as (_, address):
        yield address
