"""From one schema to the next: Alembic, run by the program itself, each step and its data in one transaction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.collector.store.schema import ABOUT, METADATA, REVISION

if TYPE_CHECKING:
    from sqlalchemy import Connection

FOLDER: Final = Path(__file__).parent


def upgrade(connection: Connection, *, folder: Path = FOLDER, revision: str = "head") -> None:
    """Bring the schema to `revision`, within the connection's open transaction.

    Parameters
    ----------
    connection
        In a transaction: all of it is kept, or nothing.
    folder
        Where `versions/` lies.
    revision
        Where to go: the newest unless given.
    """
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(folder))

    def steps(current: Any, _: Any) -> Any:
        return scripts._upgrade_revs(revision, current)  # noqa: SLF001 - what alembic's own command `upgrade` calls

    with EnvironmentContext(Config(), scripts, fn=steps, destination_rev=revision) as environment:
        environment.configure(connection=connection)
        environment.run_migrations()


def begin(connection: Connection) -> None:
    """Make the tables of the newest schema in an empty database: what all migrations make, without loading Alembic."""
    from sqlalchemy import Column, MetaData, PrimaryKeyConstraint, String, Table, insert

    version = Table(
        "alembic_version",
        MetaData(),
        Column("version_num", String(32), nullable=False),
        PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
    )
    version.create(connection)
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(insert(version), [{"version_num": REVISION}])
    connection.execute(insert(ABOUT), [{"key": "format", "value": "overstory store"}])


def newest(folder: Path = FOLDER) -> str:
    """Return the newest revision that the folder leads to.

    This program's own folder leads to its own schema, and Alembic need not be asked.
    """
    if folder == FOLDER:
        return REVISION
    from alembic.script import ScriptDirectory

    return ScriptDirectory(str(folder)).get_current_head() or ""
