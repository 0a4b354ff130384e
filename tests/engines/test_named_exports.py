"""What is counted of exported folders, by what is named: a manifest stands for its own files."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from overstory.engines.places import ExportedSet, find_places, find_sets
from overstory.protocol.errors import FormatError, ParameterError
from support.exported_store import PERIODS, export_all, fill, registry, small_parts


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[ExportedSet]:
    """Three groups of one metric and day: three manifests in one folder, of several parts each."""
    small_parts(monkeypatch.setattr)
    url = f"sqlite:///{tmp_path}/store.db"
    fill(url, registry())
    export_all(url, registry(), tmp_path / "exported")
    found = find_sets(str(tmp_path / "exported" / "metric=colour" / f"period={PERIODS[0]}"))
    assert len(found) == len({one.folder.identity for one in found}) + 2 == 3
    assert all(len(one.manifest.parts) > 1 for one in found)
    return found


def reports_of(*inputs: object) -> int:
    return sum(place.num_reports or 0 for place in find_places(list(map(str, inputs))))


def test_each_manifest_stands_for_its_own_files(sets: list[ExportedSet]) -> None:
    for count in (1, 2, 3):
        for chosen in itertools.combinations(sets, count):
            expected = {one.address(part): part.reports for one in chosen for part in one.manifest.parts}
            places = find_places([one.source for one in chosen])
            assert {place.address: place.num_reports for place in places} == expected
            addresses = [f"file://{one.source}" for one in chosen]
            assert reports_of(*addresses) == sum(expected.values())


def test_a_folder_and_a_glob_stand_for_what_they_match(sets: list[ExportedSet]) -> None:
    folder, whole = Path(sets[0].folder.identity), sum(one.manifest.num_reports for one in sets)
    one, *others = sets
    for named in (folder, folder.parent, folder / "*", folder / "manifest-*", folder / "*.parquet"):
        assert reports_of(named) == whole
    assert reports_of(*sorted(folder.glob("*.parquet"))) == whole, "as the shell names them"
    start = len("manifest-") + next(n for n in range(32) if all(o.manifest.id[n] != one.manifest.id[n] for o in others))
    name = Path(one.source).name
    assert reports_of(f"{folder}/{'?' * start}{name[start]}*.json") == one.manifest.num_reports


def test_a_part_alone_is_counted_and_not_beside_its_manifest(sets: list[ExportedSet]) -> None:
    one, other, _ = sets
    first, second = one.manifest.parts[:2]
    assert reports_of(one.address(first)) == first.reports
    assert reports_of(one.address(first), one.address(second)) == first.reports + second.reports
    assert reports_of(one.address(first), other.source) == first.reports + other.manifest.num_reports
    for twice in ([one.source, one.source], [one.address(first), one.source], [one.folder.identity, one.source]):
        with pytest.raises(ParameterError, match="is named twice: its reports would be counted twice"):
            find_places(twice)


def test_copies_are_refused_of_what_is_counted_alone(sets: list[ExportedSet], tmp_path: Path) -> None:
    one, other, _ = sets
    copy = tmp_path / "copy"
    shutil.copytree(one.folder.identity, copy)
    copied = {Path(each.source).name: str(copy / Path(each.source).name) for each in sets}
    with pytest.raises(FormatError, match="these reports are also those of"):
        find_places([one.source, copied[Path(one.source).name]])
    named = [one.source, copied[Path(other.source).name]]
    assert reports_of(*named) == one.manifest.num_reports + other.manifest.num_reports
