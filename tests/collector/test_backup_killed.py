"""What a backup and an export leave on the disk when their process is ended: nothing that stays."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from overstory.cli.main import main
from overstory.collector.store import open_store, restore
from overstory.collector.store.databases.sqlite import interruptible
from support.store_samples import registry, some

BEFORE = "import time\nfrom pathlib import Path\n"
BACKUP = BEFORE + (
    "from overstory.collector.store.copies import backup\nfrom overstory.cli.main import main\n"
    "backup.verify = lambda copy: Path('written').touch() or time.sleep(60)\n"
    "raise SystemExit(main())\n"
)
"""`overstory`, with a backup that stops when the copy is written, before it is verified."""

STAGED = BEFORE + (
    "from overstory.engines.folders import Folder\nfrom overstory.cli.service import exports\n"
    "from overstory.cli.main import main\n"
    "def wait(args):\n"
    "    with Folder('memory://bucket').staged('part') as part:\n"
    "        part.write_bytes(b'reports')\n"
    "        Path('written').touch()\n"
    "        time.sleep(60)\n"
    "exports.run = wait\n"
    "raise SystemExit(main())\n"
)


def end(folder: Path, code: str, arguments: list[str], number: int) -> int:
    """Run a program in the folder, send it a signal when it has written, and return how it ended."""
    environ = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=folder, env=environ)
    try:
        written = folder / "written"
        for _ in range(600):
            if written.exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        written.unlink()
        process.send_signal(number)
        return process.wait(30)
    finally:
        process.kill()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    metrics = registry()
    with open_store(str(tmp_path / "reports.db"), metrics, create=True) as store:
        store.add([some(metrics["bloom"], 20_000, 5, 1)])
    return tmp_path


def hidden(folder: Path) -> list[str]:
    return [one.name for one in folder.iterdir() if one.name.startswith((".", "overstory-"))]


COMMAND = ["store", "backup", "reports.db", "monday.db"]


def test_a_backup_that_is_terminated_leaves_nothing(folder: Path) -> None:
    """C: a partial copy of the reports stayed, under a hidden name."""
    assert end(folder, BACKUP, COMMAND, signal.SIGTERM) == 143
    assert hidden(folder) == []
    assert not (folder / "monday.db").exists()


def test_the_next_backup_removes_what_a_killed_one_left(folder: Path) -> None:
    assert end(folder, BACKUP, COMMAND, signal.SIGKILL) == -signal.SIGKILL
    (left,) = hidden(folder)
    kept = (".monday.db.letters!", f"{left}.txt", ".tuesday.db.0123abcd")
    for name in (*kept, f"{left}-journal", ".monday.db.0123abcd-journal"):
        (folder / name).touch()
    assert main(["store", "backup", str(folder / "reports.db"), str(folder / "monday.db")]) == 0
    assert sorted(hidden(folder)) == sorted(kept)
    assert restore(folder / "monday.db", str(folder / "restored.db")) == 5


def test_a_backup_that_is_being_written_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from overstory.collector.store.copies import backup

    verify, seen = backup.verify, []

    def meanwhile(copy: Any) -> int:
        monkeypatch.setattr(backup, "verify", verify)
        seen.append(hidden(folder))
        command = [sys.executable, "-m", "overstory", *COMMAND]
        assert subprocess.run(command, cwd=folder, check=False, timeout=60).returncode == 0
        seen.append(hidden(folder))
        (folder / "monday.db").unlink()
        return verify(copy)

    monkeypatch.setattr(backup, "verify", meanwhile)
    with open_store(str(folder / "reports.db")) as store:
        assert store.backup(folder / "monday.db") == 5
    assert seen[0] == seen[1]
    assert len(seen[0]) == 1
    assert hidden(folder) == []


def test_an_export_to_an_object_store_that_is_terminated_leaves_nothing(folder: Path) -> None:
    pytest.importorskip("fsspec")
    arguments = ["export", "--store", "reports.db", "--registry", "metrics.toml", "memory://bucket"]
    assert end(folder, STAGED, arguments, signal.SIGTERM) == 143
    assert hidden(folder) == []


def test_a_statement_without_end_ends_by_a_signal() -> None:
    """Python would handle the signal after the statement: a copy of a large store takes minutes."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with closing(sqlite3.connect(":memory:")) as raw:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt), interruptible(raw):
                raw.execute("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
