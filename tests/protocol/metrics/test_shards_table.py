"""The table [shards]: read, checked, and which shard an upload belongs to."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter

import pytest

from overstory.privacy.registry.changes import Kind, compare_registries
from overstory.privacy.registry.warnings import registry_warnings
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.tables import Shards, shard_of
from support.registry_texts import oblivious_text, registry_text, the_fault


def sharded(*lines: str):
    return parse_registry(registry_text("[shards]", *lines))


def test_an_upload_goes_by_the_number_on_the_first_day_of_its_period():
    # 2027-03-03 is a Wednesday: the week that began on 2027-03-01 still has the number before.
    registry = sharded("count = 4", "[shards.from]", "2027-03-03 = 16", "2028-01-01 = 1")
    shards, metric = registry.shards, registry["colour"]
    weeks = [metric.period.parse_label(label) for label in ("2027-W08", "2027-W09", "2027-W10", "2028-W01")]
    assert [shards.count_of(metric, week) for week in weeks] == [4, 4, 16, 1]
    batch = bytes.fromhex("0107") + bytes(14)
    assert [shards.suffix(metric, week, batch) for week in weeks] == ["/3", "/3", "/7", ""]
    assert (shards.most, str(shards)) == (16, "4, 16 from 2027-03-03 on, 1 from 2028-01-01 on")
    assert Shards.from_json(registry.to_json()["shards"]) == shards


def test_shards_get_as_many_uploads_each():
    ids = [hashlib.sha256(bytes([number % 256, number // 256])).digest()[:16] for number in range(20_000)]
    counts = Counter(shard_of(batch, 12) for batch in ids)
    assert sorted(counts) == list(range(12))
    # 20,000 draws of 12: the standard deviation is 39.
    assert max(abs(count - 20_000 / 12) for count in counts.values()) < 6 * 39


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ((), "shards.count: missing: give the number of collectors that uploads are divided over, such as 16"),
        (("count = 0",), "shards.count: 0: give a whole number from 1 to 4096"),
        (("count = 1.5",), "shards.count: 1.5: give a whole number from 1 to 4096"),
        (("count = true",), "shards.count: True: give a whole number from 1 to 4096"),
        (("count = 4", "number = 5"), "shards.number: no such key; the keys are count, from"),
        (("count = 4", "from = 5"), "shards.from: 5 is no table: give a table of days and numbers, such as"),
        (("count = 4", 'from = {"2027-3-1" = 5}'), "shards.from.2027-3-1: '2027-3-1' is no day: give one such as"),
        (("count = 4", "from = {20270301 = 5}"), "shards.from.20270301: '20270301' is no day: give one such as"),
        (("count = 4", "from = {2027-03-01 = 0}"), "shards.from.2027-03-01: 0: give a whole number from 1 to 4096"),
    ],
)
def test_faults_name_their_line_and_what_would_be_right(lines, fault):
    found = str(the_fault(registry_text("[shards]", *lines)))
    assert fault in found
    assert found.startswith("line 1")


def test_a_registry_with_oblivious_metrics_has_no_shards():
    found = str(the_fault(oblivious_text() + "[shards]\ncount = 4\n"))
    assert "reports of colour come sealed, and no relay can see to which shard they belong" in found


def test_a_diff_says_whether_periods_that_have_begun_are_divided_otherwise():
    plain, four, five = parse_registry(registry_text()), sharded("count = 4"), sharded("count = 5")
    later = sharded("count = 4", "from = {2027-03-01 = 16}")
    one = sharded("count = 1", "from = {2027-03-01 = 16}")
    details = {}
    for name, old, new in (("more", four, five), ("later", four, later), ("first", plain, one), ("new", plain, four)):
        (change,) = [change for change in compare_registries(old, new) if change.what == "shards"]
        assert change.kind is (Kind.BREAKS if name in {"more", "new"} else Kind.HARMLESS)
        details[name] = change.detail
    assert details["more"].startswith(
        "shards 4 becomes shards 5: uploads of periods that have begun go to other stores"
    )
    assert details["new"].startswith("one collector becomes shards 4: uploads of periods that have begun")
    assert details["later"].startswith("shards 4 becomes shards 4, 16 from 2027-03-01 on: release it to devices")
    assert details["first"].startswith("one collector becomes shards 1, 16 from 2027-03-01 on: release it")
    assert not [change for change in compare_registries(four, four) if change.what == "shards"]


def test_lint_warns_of_a_number_that_devices_cannot_know_in_time():
    text = registry_text("[shards]", "count = 4", "[shards.from]", "2027-03-01 = 16")
    registry = parse_registry(text)
    warned = {
        day: [str(w) for w in registry_warnings(registry, text, dt.date.fromisoformat(day)) if "shards" in w.field]
        for day in ("2027-01-01", "2027-02-28", "2027-03-01")
    }
    assert not warned["2027-01-01"]
    assert not warned["2027-03-01"]
    assert "shards.from.2027-03-01: 16 shards in 1 day: a device with an older registry" in warned["2027-02-28"][0]
