"""One bit turned in a backup: it is refused, or nothing of what is restored differs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from sqlalchemy import select

from overstory.collector.store import StoreError, open_store
from overstory.collector.store.copies.backup import restore
from overstory.collector.store.databases.connection import connect
from overstory.collector.store.schema import ABOUT, METADATA, TABLE_DIGEST, ids_table_name, tables_of_ids
from support.store_samples import NOW, registry, some

PERIOD = 20_000


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    metrics = registry(folder=tmp_path)
    with open_store(str(tmp_path / "store.db"), metrics, create=True) as store:
        for number, name in enumerate(("bloom", "colour", "size", "tree") * 2):
            store.add([some(metrics[name], PERIOD, 6_000, number)])
            if number == 3:
                store.compact(NOW)
        store.add_token("write", "app")
        assert store.backup(tmp_path / "backup.db") == 48_000
    return tmp_path / "backup.db"


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything in a store, but for the numbers of rows and the digests."""
    database = connect(str(path))
    try:
        with database.snapshot() as connection:
            return {
                table.name: sorted(
                    tuple(
                        value
                        for name, value in row._mapping.items()
                        if name != "id" or table.name.startswith("batch_ids")
                    )
                    for row in connection.execute(select(table))
                    if not (table is ABOUT and row.key.startswith(TABLE_DIGEST))
                )
                for table in (*METADATA.sorted_tables, *tables_of_ids(connection))
            }
    finally:
        database.close()


def test_a_turned_bit_never_changes_what_is_restored(backup: Path) -> None:
    whole, sound = backup.read_bytes(), content(backup)
    rng = random.Random(19)
    refused = 0
    for number in range(25):
        spoiled = bytearray(whole)
        spoiled[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        path, target = backup.with_name(f"{number}.db"), backup.with_name(f"restored-{number}.db")
        path.write_bytes(spoiled)
        try:
            restore(path, str(target))
        except StoreError:
            refused += 1
            continue
        assert content(target) == sound
    assert refused > 5


def test_a_backup_that_was_used_as_a_store_is_backed_up_again(backup: Path, tmp_path: Path) -> None:
    metric = registry(folder=tmp_path)["bloom"]
    with open_store(str(backup)) as store:
        store.add([some(metric, PERIOD, 5, 99)])
        store.backup(tmp_path / "second.db")
    with pytest.raises(StoreError, match=f"{ids_table_name(PERIOD + 1)}, inbox: not what was backed up"):
        restore(backup, str(tmp_path / "refused.db"))
    assert restore(tmp_path / "second.db", str(tmp_path / "restored.db")) == 48_005
    with open_store(str(tmp_path / "restored.db")) as store:
        store.compact(NOW)
        assert store.backup(tmp_path / "third.db") == 48_005  # a restored store has no digests of its own to grow stale
    assert restore(tmp_path / "third.db", str(tmp_path / "fourth.db")) == 48_005


def test_the_digests_of_a_backup_are_not_part_of_what_is_restored(backup: Path, tmp_path: Path) -> None:
    restore(backup, str(tmp_path / "restored.db"))
    for path, count in ((backup, len(METADATA.tables) + 1), (tmp_path / "restored.db", 0)):
        database = connect(str(path))
        with database.snapshot() as connection:
            rows = connection.execute(select(ABOUT).where(ABOUT.c.key.startswith(TABLE_DIGEST))).all()
        assert len(rows) == count
        database.close()
