"""What fails in the database while a part is imported is not said of the part."""

from pathlib import Path
from typing import Any

import pytest

from overstory.collector.store import open_store
from overstory.collector.store.copies import imports
from support.exported_store import export_all, fill, import_all, registry


@pytest.mark.parametrize("error", [OSError("disk full"), ValueError("a fault of ours"), MemoryError()])
def test_a_fault_of_the_database_is_no_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    fill(f"sqlite:///{tmp_path}/west.db", registry())
    export_all(f"sqlite:///{tmp_path}/west.db", registry(), tmp_path / "exported")

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(imports._Adding, "_add", fail)
    open_store(f"sqlite:///{tmp_path}/east.db", registry(), create=True).close()
    with pytest.raises(type(error)) as caught:
        import_all(f"sqlite:///{tmp_path}/east.db", registry(), tmp_path / "exported")
    assert caught.value is error
