"""No damaged byte of a file is counted."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from overstory.engines import driver
from overstory.engines.driver import LocalEngine, count
from overstory.engines.places import find_places, find_sets
from overstory.engines.units import Job, read_contents, units_of
from overstory.protocol.errors import FormatError, OverstoryError
from overstory.queries.sources import ExportedReports
from support.engine_files import ORACLES, Collection
from support.exported_store import export_all, fill, registry, small_parts, sum_folder
from support.object_store import put


def count_here(job, units):
    return count(LocalEngine(1), job, units)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    small_parts(monkeypatch.setattr)
    monkeypatch.setattr("overstory.engines.units.SMALLEST_UNIT", 1)
    fill(f"sqlite:///{tmp_path}/store.db", registry())
    export_all(f"sqlite:///{tmp_path}/store.db", registry(), tmp_path / "exported")
    return tmp_path / "exported"


def first_part(folder, metric):
    one = find_sets(str(folder / f"metric={metric}"))[0]
    part = min(one.manifest.parts, key=lambda part: part.bytes)
    return one, Path(one.address(part))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("first", range(8))
@pytest.mark.parametrize("name", ["bloom", "size"])
def test_a_flipped_bit_of_any_byte_is_an_error(folder, name, first):
    """A row's own checksum is of its reports: its cohort, its number of reports and the footer are not in it."""
    _, path = first_part(folder, name)
    metric, good = registry()[name], path.read_bytes()
    sound = sum_folder(metric, path)
    for place in range(first, len(good), 8):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1 << place // 8 % 8]) + good[place + 1 :])
        with pytest.raises(OverstoryError):
            sum_folder(metric, path)
    path.write_bytes(good)
    assert sum_folder(metric, path) == sound


def test_decode_of_a_folder_compares_whole_files_too(folder):
    one, path = first_part(folder, "bloom")
    metric, good = registry()["bloom"], path.read_bytes()
    for place in range(4, len(good), 61):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        there = ExportedReports([one], count_here)
        period = one.manifest.period
        for read in (there.counts, there.sums):
            with pytest.raises(OverstoryError):
                read(metric, period, period)
        with pytest.raises(OverstoryError):
            list(there.reports(metric, period, period))


@pytest.mark.usefixtures("folder")
def test_each_file_is_read_once_more_whatever_its_units_are(tmp_path, monkeypatch):
    monkeypatch.setattr("overstory.collector.store.copies.export.PART_BYTES", 1 << 20)
    export_all(f"sqlite:///{tmp_path}/store.db", registry(), tmp_path / "whole")
    checked = []
    monkeypatch.setattr(driver, "_check_file", lambda raw, crc32, source: checked.append(source))
    metric = registry()["bloom"]
    places = find_places([str(tmp_path / "whole" / "metric=bloom")])
    units = units_of(read_contents(places), 1)
    assert len(units) > len(places)
    count(LocalEngine(1), Job.of(metric.mechanism), units)
    assert checked == [place.address for place in places]


@pytest.mark.parametrize(("name", "parameters"), ORACLES, ids=str)
def test_a_few_random_bytes_are_refused_or_change_nothing(tmp_path, name, parameters):
    """Of files without a manifest, one to three bytes at random, 100 times each; what is compared finds them."""
    made, rng = Collection(tmp_path, name, parameters, 9000), np.random.default_rng(5)
    silent = 0
    for path in (tmp_path / "a.parquet", tmp_path / "b.parquet"):
        good, sound = path.read_bytes(), counted(made.job(), path)
        for _ in range(100):
            altered = bytearray(good)
            for place in rng.choice(len(good), rng.integers(1, 4), replace=False):
                altered[place] ^= rng.integers(1, 256)
            path.write_bytes(altered)
            with suppress(OverstoryError):
                assert counted(made.job(), path) == sound
            with suppress(OverstoryError), pytest.MonkeyPatch.context() as patch:
                patch.setattr("overstory.files.parquet._verify", lambda *_: None)
                silent += counted(made.job(), path) != sound
        path.write_bytes(good)
    # Reports of rappor may have any bits; most damage of the others contradicts itself.
    assert silent > 20 or name != "rappor"


def counted(job, path):
    return count(LocalEngine(1), job, units_of(read_contents(find_places([str(path)])), 1 << 30)).counts


@pytest.mark.slow
def test_an_objects_bytes_are_compared(bucket, folder):
    one, path = first_part(folder, "bloom")
    metric = registry()["bloom"]
    for file in Path(one.folder.identity).iterdir():
        put(bucket, f"verified/{file.name}", file.read_bytes())
    address = f"s3://verified?{bucket}"
    assert sum_folder(metric, address) == sum_folder(metric, one.folder.identity)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    put(bucket, f"verified/{path.name}", bytes(raw))
    with pytest.raises(FormatError):
        sum_folder(metric, address)
