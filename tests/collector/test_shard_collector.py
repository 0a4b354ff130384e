"""A collector of one shard: what it takes and refuses, by the batch id; and a store that never changes its shard."""

import json

import pytest

from overstory.collector.ingest.ingest import Ingest
from overstory.collector.store import StoreError, open_store
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.tables import shard_of
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE
from support.collector_in_process import DAY, NOW, REGISTRY, TODAY, upload
from support.running import within
from support.served import Wire, post, served

SHARDED = parse_registry(REGISTRY + "\n[shards]\ncount = 4\n")


def registry(table):
    return parse_registry(REGISTRY + (f"\n[shards]\n{table}\n" if table else ""))


def of_shard(shard, number=0):
    batch = (4 * number + shard).to_bytes(2, "big") + bytes(14)
    assert shard_of(batch, 4) == shard
    return batch


def decided(ingest, batch, **more):
    decision = ingest.decide(upload("colour", batch=batch, **more), MEDIA_TYPE, NOW)
    (result,) = decision.results
    return result.reason


def test_only_uploads_of_the_shard_are_taken_also_where_their_form_is_known():
    ingest = Ingest(SHARDED, shard=2)
    for number in range(3):  # the first one leaves a template, by which the next are recognised
        assert decided(ingest, of_shard(2, number)) is None
        assert decided(ingest, of_shard(3, number)) is Reason.WRONG_SHARD
    assert decided(Ingest(SHARDED, shard=3), of_shard(3)) is None


def test_a_request_of_several_shards_is_taken_in_part():
    body = b"".join(upload("colour", batch=of_shard(shard)) for shard in range(4))
    decision = Ingest(SHARDED, shard=1).decide(body, MEDIA_TYPE, NOW)
    wrong = Reason.WRONG_SHARD
    assert [result.reason for result in decision.results] == [wrong, None, wrong, wrong]
    assert [received.batch for received in decision.received] == [of_shard(1)]


def test_what_is_over_is_refused_for_good_whatever_its_shard():
    ingest = Ingest(SHARDED, shard=1)
    assert decided(ingest, of_shard(2), period=TODAY - 40) is Reason.PERIOD_CLOSED
    assert not Reason.WRONG_SHARD.final
    assert not Reason.WRONG_SHARD.passing


def test_the_number_of_a_periods_first_day_decides():
    ingest = Ingest(registry("count = 1\nfrom = {2026-11-21 = 4}"), shard=0)  # the day of NOW
    assert decided(ingest, of_shard(3), period=TODAY - 1) is None
    assert decided(ingest, of_shard(3), period=TODAY) is Reason.WRONG_SHARD


def answered(address, path, batch):
    body = post(upload("colour", batch=batch)).replace(b"POST /v1/reports ", b"POST %b " % path.encode(), 1)
    with Wire(address) as wire:
        status, _, answer = wire.send(body).answer()
    return status, json.loads(answer)


def test_paths_of_other_shards_are_refused_and_the_own_is_served():
    with served(metrics=SHARDED, shard=2) as (collector, address):
        assert answered(address, "/v1/reports/2", of_shard(2))[0] == 200
        assert answered(address, "/v1/reports/2", of_shard(2))[1]["results"][0]["duplicate"]
        assert answered(address, "/v1/reports", of_shard(2, 1))[0] == 200
        for path, batch in (
            ("/v1/reports/3", of_shard(2, 2)),
            ("/v1/reports/2", of_shard(3)),
            ("/v1/reports", of_shard(0)),
        ):
            status, problem = answered(address, path, batch)
            assert (status, problem["reason"], problem["type"]) == (421, "wrong-shard", "/problems/wrong-shard")
        assert answered(address, "/v1/reports/x", of_shard(2))[0] in {404, 405}
        assert collector.store.num_reports == 2
    with served() as (_, address):  # without shards
        assert answered(address, "/v1/reports/0", of_shard(0))[0] == 421
        assert answered(address, "/v1/reports", of_shard(1))[0] == 200


def claim(url, table, shard, now=NOW):
    with open_store(url, create=True) as store:
        store.claim_shard(registry(table), shard, now)


def fill(url):
    ingest = Ingest(parse_registry(REGISTRY))
    with open_store(url, create=True) as store:
        store.add(ingest.decide(upload("colour"), MEDIA_TYPE, NOW).received)


def test_a_store_stays_of_its_shard(tmp_path):
    url = str(tmp_path / "store.db")
    claim(url, "count = 4", 2)
    claim(url, "count = 4", 2)
    with open_store(url) as store:
        assert str(store.served_shard()) == "shard 2 of 4"
    with pytest.raises(StoreError, match=r"it is shard 2 of 4, and holds the batch ids of that shard: serve it with"):
        claim(url, "count = 4", 3)
    with pytest.raises(StoreError, match=r"it is shard 2 of 4: set shard, and keep the registry's table"):
        claim(url, "", None)
    backup = str(tmp_path / "backup.db")
    with open_store(url) as store:
        store.backup(backup)
    with open_store(backup) as store:
        assert store.served_shard().shard == 2


def test_shard_and_registry_belong_together(tmp_path):
    url = str(tmp_path / "store.db")
    for table, shard, words in (
        ("count = 4", None, "the registry has 4 shards: set shard, 0 .. 3"),
        ("count = 4", 4, "shard = 4: the registry's shards are 0 .. 3"),
        ("", 0, "shard = 0: the registry has no table"),
    ):
        with pytest.raises(ParameterError, match=words):
            claim(url, table, shard)
    claim(url, "", None)


def test_a_store_of_before_goes_on_as_the_first_shard_from_a_day_to_come(tmp_path):
    url = str(tmp_path / "store.db")
    fill(url)
    later = "count = 1\nfrom = {2027-03-01 = 4}"
    with pytest.raises(StoreError, match="it was served without shards: serve it with shard = 0"):
        claim(url, later, 1)
    for table in ("count = 4", "count = 1\nfrom = {2026-11-22 = 4}"):  # devices' clocks may be a day ahead
        with pytest.raises(StoreError, match=r"from 2026-1\d-\d\d on were divided by 1, and the registry says 4"):
            claim(url, table, 0)
    claim(url, later, 0)


def test_the_number_of_open_periods_is_not_changed_and_that_of_closed_ones_may_be(tmp_path):
    url = str(tmp_path / "store.db")
    claim(url, "count = 2", 1)
    claim(url, "count = 4", 1)  # nothing is stored yet
    fill(url)
    with pytest.raises(StoreError, match=r"were divided by 4, and the registry says 2: .* from a day after 2026-11-22"):
        claim(url, "count = 2", 1)
    claim(url, "count = 4\nfrom = {2026-11-23 = 8}", 1)
    claim(url, "count = 8", 1, now=NOW + 60 * DAY)  # every period of before is closed


def test_the_command_line_says_what_is_missing(tmp_path):
    (tmp_path / "metrics.toml").write_text(REGISTRY + "\n[shards]\ncount = 4\n")
    files = "--registry", "metrics.toml", "--store", "store.db"
    done = within("serve", *files, "--port", "0", cwd=tmp_path)
    assert (done.returncode, "the registry has 4 shards: set shard, 0 .. 3" in done.stderr) == (2, True)
    done = within("serve", *files, "--port", "0", "OVERSTORY_SHARD=7", cwd=tmp_path)
    assert (done.returncode, "shard = 7: the registry's shards are 0 .. 3" in done.stderr) == (2, True)
    done = within("simulate", *files, "--devices", "9", "--periods", "1", cwd=tmp_path)
    assert done.returncode == 2
    assert "each with a store of its own; give the address of what is in front" in done.stderr
    assert not (tmp_path / "store.db").exists()
    claim(str(tmp_path / "store.db"), "count = 4", 2)
    done = within("doctor", *files, cwd=tmp_path)
    assert "shard: the store is shard 2 of 4" in done.stdout
    (tmp_path / "metrics.toml").write_text(REGISTRY + "\n[shards]\ncount = 8\n")
    done = within("doctor", *files, cwd=tmp_path)
    assert "the store was served as shard 2 of 4; the registry has shards 8" in done.stdout
