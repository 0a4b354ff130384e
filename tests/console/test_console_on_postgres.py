"""A console on PostgreSQL shows what one on SQLite shows, screen by screen."""

from __future__ import annotations

import re
from contextlib import ExitStack

import pytest

from overstory.collector.store import open_store
from overstory.console.app import SCREENS, as_download
from overstory.console.data import ConsoleData
from overstory.console.view import read_query
from overstory.protocol.metrics import load_registry
from support.console_store import NOW, fill, write_registry
from support.decoding import shared_estimates
from support.store_databases import KINDS, fresh

pytestmark = pytest.mark.slow  # the quick tests look at the same screens of SQLite

CASES = [
    pytest.param(screen, metric, id=f"{screen.path}-{metric}")
    for screen in SCREENS
    for metric in (("theme", "home", "quiet") if "{" in screen.path else ("",))
]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same reports in a SQLite file and in a PostgreSQL database."""
    folder = tmp_path_factory.mktemp("both")
    registry = load_registry(write_registry(folder))
    with ExitStack() as stack:
        made = []
        for kind in KINDS:
            store = open_store(stack.enter_context(fresh(kind, folder)), create=True)
            stack.callback(store.close)
            store.remember(registry)
            fill(store, registry)
            made.append(ConsoleData(registry, store, lambda: NOW, shared_estimates(60.0)))
            stack.callback(made[-1].decoder.close)
        yield made


@pytest.mark.parametrize(("screen", "metric"), CASES)
def test_a_screen_shows_the_same(both, screen, metric) -> None:
    label = both[0].registry[metric].period.label(both[0].registry[metric].period.number(NOW) - 1) if metric else ""
    path = {name: text for name, text in (("metric", metric), ("period", label)) if f"{{{name}}}" in screen.path}
    views = [screen.view(data, read_query(screen.query, []), **path) for data in both]
    sqlite, postgres = (_file(view, data) for view, data in zip(views, both, strict=True))
    assert sqlite == postgres
    assert b'"title": "' in sqlite


def _file(view, data) -> bytes:
    """Return the JSON of a view, but for the databases' addresses and sizes, and the notes' random ids."""
    body = as_download(view, "json", "view").body.replace(data.store.url.encode(), b"URL")
    for note in data.store.notes():
        body = body.replace(note.id.encode(), b"NOTE")
    return re.sub(rb'"(size|bytes\w*)": \d+', rb'"\1": 0', body)
