"""PostgreSQL's own backup tools work on a store."""

from __future__ import annotations

import subprocess
from pathlib import Path

from overstory.collector.store import open_store
from support.store_databases import fresh, server
from support.store_samples import NOW, registry, some

PERIOD = 20_000


def test_a_dump_restored_into_an_empty_database_is_the_store(server_folder: Path, tmp_path: Path) -> None:
    metrics = registry()
    metric = metrics["bloom"]
    with fresh("postgresql", server_folder) as url, fresh("postgresql", server_folder) as other:
        tools, dump = server(server_folder).bin_path, tmp_path / "reports.dump"
        first, second, late = (some(metric, PERIOD, 20, seed) for seed in range(3))
        with open_store(url, metrics, create=True) as store:
            store.add([first])
            store.compact(NOW)
            store.add([second])
            counts = store.counts(metric, 0, PERIOD)
        subprocess.run([tools / "pg_dump", "--format=custom", f"--file={dump}", url], check=True)
        subprocess.run([tools / "pg_restore", f"--dbname={other}", dump], check=True)
        with open_store(other) as restored:
            assert restored.counts(metric, 0, PERIOD) == counts
            assert restored.add([first, second, late]) == [False, False, True]
            assert restored.compact(NOW).reports == 40
            assert restored.counts(metric, 0, PERIOD)[PERIOD].num_reports == 60
