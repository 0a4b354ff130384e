"""Values that nobody listed, live: devices answer, a collector takes it, the command line searches.

Every device has a secret of its own and sends an upload of its own, made as the client makes it; many uploads share a
request. Secrets and values follow from fixed seeds, so each run is the same.
"""

import json
import time
from itertools import islice

import numpy as np
import pytest

from overstory.analysis.kinds.searches import sorted_answers
from overstory.client import Randomizer
from overstory.collector.ingest.ingest import Ingest
from overstory.collector.store import open_store
from overstory.discovery import find, simulate
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import load_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_reports, encode_upload
from overstory.queries.counts import PeriodCounts, read_store
from overstory.queries.readings import read
from support.registry_texts import registry_of
from support.running import within

NUMBERS = '{kind = "unknown-integers", bits = 16, known = ["80"]}'
STRINGS = '{kind = "unknown-strings", max_bytes = 6}'


def write_registry(path, metric="port", domain=NUMBERS, more=None, **parameters):
    shown = ", ".join(f"{key} = {value}" for key, value in parameters.items())
    about = {"oracle": '"prefix-search"', "period": '"day"', "grace_days": "60", "expires": "2999-01-01"} | (more or {})
    path.write_text(registry_of({metric: about | {"domain": domain, "parameters": f"{{{shown}}}"}}))
    return load_registry(path)[metric]


def upload_of(metric, number, value, period, seed=b"live"):
    secret = seed.ljust(8, b".") + number.to_bytes(8, "big")
    device = Randomizer(metric.mechanism, secret=secret, metric=metric.id, memo_size=0)
    batch, report = device.report_in(period, device.permanent(metric.encode(value)))
    return encode_upload(Upload(batch, metric.id, period, encode_reports(metric.mechanism, [report])))


def collected(folder, metric, values, seed=b"live"):
    """Give a report for each of `values` to a collector's ingest and store; return how many it took."""
    today, registry = metric.period.number(time.time()), load_registry(folder / "metrics.toml")
    made = (upload_of(metric, n, value, today - n % 3, seed) for n, value in enumerate(values))
    uploads, taken = iter(made), 0
    with open_store(str(folder / "reports.db"), registry, create=True) as store:
        while body := b"".join(islice(uploads, 500)):
            decision = Ingest(registry).decide(body, MEDIA_TYPE, time.time())
            assert all(result.reason is None for result in decision.results)
            taken += sum(store.add(decision.received))
    return taken


def command(folder, *words, status=0):
    ran = within(*words, cwd=folder)
    assert ran.returncode == status, ran.stderr
    return ran.stdout if status == 0 else ran.stderr


STORE = ("--store", "reports.db", "--registry", "metrics.toml")
PORTS = [80] * 6 + [443] * 4 + [8080] * 2 + [70_000]  # the last one has no code


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    metric = write_registry(folder / "metrics.toml", epsilon=5.0, step=8, beam=16)
    assert collected(folder, metric, (PORTS[n % len(PORTS)] for n in range(3600))) == 3600
    return folder, metric


def test_values_that_nobody_listed_are_found(live):
    folder, metric = live
    shown = json.loads(command(folder, "decode", *STORE, "--metric", "port", "--json"))
    detected = {row["value"]: row for row in shown["estimates"] if row["detected"]}
    assert list(detected)[:3] == ["80", "443", "8080"]
    assert {row["source"] for value, row in detected.items() if value != "80"} == {"search"}
    assert detected["80"]["source"] == "dictionary"
    for value, share in (("80", 6 / 13), ("443", 4 / 13), ("8080", 2 / 13)):
        assert detected[value]["low"] < 3600 * share < detected[value]["high"]
    assert shown["reports"] == shown["counted"] == 3600
    assert shown["epsilon_report"] == metric.mechanism.epsilon_report


def test_what_is_read_of_a_store_is_what_the_search_finds_in_the_same_answers(live):
    folder, metric = live
    with open_store(str(folder / "reports.db")) as store:
        counted = read_store(store, metric)
        parts = list(counted.reports())
        with sorted_answers(metric.mechanism, parts, 3600) as in_memory:
            one = find(metric.mechanism.plan, in_memory)
        with sorted_answers(metric.mechanism, parts, 1 << 30) as on_disk:  # as where there are very many
            assert all(isinstance(batch.bits.base, np.memmap) or not len(batch) for batch in on_disk)
            other = find(metric.mechanism.plan, on_disk)
    assert one.values == other.values
    assert np.array_equal(one.counts, other.counts)
    shown = json.loads(command(folder, "decode", *STORE, "--metric", "port", "--json", "--all"))
    assert [row["value"] for row in shown["estimates"]] == list(one.values)
    assert [row["count"] for row in shown["estimates"]] == pytest.approx(one.counts.tolist())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("decode", *STORE, "--metric", "port", "--aggregate", "per-period"), "few devices answer in one period"),
        (("decode", *STORE, "--metric", "port", "--steps", "norm-sub"), "post-processing steps have no meaning"),
        (("decode", *STORE, "--metric", "port", "--reports-per-device", "2"), "reports per device have no meaning"),
        (("decode", *STORE, "--metric", "port", "--complete"), "a method or complete list"),
    ],
)
def test_what_has_no_meaning_for_a_search_is_refused(live, words, message):
    folder, _ = live
    refused = command(folder, *words, status=2)
    assert message in refused
    assert len(refused.splitlines()) == 1


def test_counts_alone_which_a_collector_gives_are_not_enough(live):
    folder, metric = live
    with open_store(str(folder / "reports.db")) as store:
        counted = read_store(store, metric)
    remote = PeriodCounts.from_json(metric, json.loads(json.dumps(counted.to_json())))
    assert remote.counts == counted.counts
    with pytest.raises(ParameterError, match="only their counts are here: read the store, with --store"):
        read(remote)


def test_a_second_plan_expects_what_the_first_found(tmp_path):
    """Of two plans in a panel: who is asked by each is the client's (`test_search_recording`)."""
    panel = {"panel": '{cycle = "year"}', "period": '"week"'}
    first = write_registry(tmp_path / "metrics.toml", more=panel, epsilon=5.0, step=8, beam=16)
    asked = collected(tmp_path, first, (PORTS[n % len(PORTS)] for n in range(1200)), b"first")
    command(tmp_path, "decode", *STORE, "--metric", "port", "--candidates-out", "known.txt")
    known = json.dumps((tmp_path / "known.txt").read_text().split())
    later = NUMBERS.replace('["80"]', known)
    second = write_registry(tmp_path / "metrics.toml", domain=later, more=panel, epsilon=5.0, step=8, beam=16)
    more = collected(tmp_path, second, (PORTS[n % len(PORTS)] for n in range(1200)), b"second")
    shown = json.loads(command(tmp_path, "decode", *STORE, "--metric", "port", "--json"))
    assert shown["reports"] == more
    assert {row["source"] for row in shown["estimates"] if row["value"] in {"443", "8080"}} == {"dictionary"}
    assert shown["other_parameters"][0]["reports"] == asked
    assert any("another plan" in note for note in shown["notes"])
    text = command(tmp_path, "decode", *STORE, "--metric", "port")
    assert "a device gives at most 1 answer in any year, and each reveals: epsilon 5" in text


@pytest.mark.slow
def test_two_hundred_thousand_devices_find_what_a_simulation_finds(tmp_path):
    """Values with 1.5 times the share that is found nine times in ten are detected by both, and nearly nothing else.

    With such a share a value misses a level's cut, or the last threshold, by chance less than once in a thousand. At a
    false discovery rate of 5%, more than 5 false ones among some 30 detected come less than once in a hundred runs; the
    seeds are fixed.
    """
    metric = write_registry(tmp_path / "metrics.toml", "word", STRINGS, epsilon=4.0)
    rng = np.random.default_rng(13)
    words = np.array([f"w{i}" for i in range(2000)])
    shares = 1 / np.arange(1, 2001) ** 1.1
    values = words[rng.choice(2000, size=200_000, p=shares / shares.sum())]
    assert collected(tmp_path, metric, values.tolist()) == 200_000
    shown = json.loads(command(tmp_path, "decode", *STORE, "--metric", "word", "--json", "--all"))
    plan = metric.mechanism.plan
    simulated = find(plan, simulate(plan, values, rng))
    truth = dict(zip(*np.unique(values, return_counts=True), strict=True))
    live = {row["value"] for row in shown["estimates"] if row["detected"]}
    alike = {value for value, yes in zip(simulated.values, simulated.detected(), strict=True) if yes}
    surely = {value for value, count in truth.items() if count > 1.5 * shown["detectable_frequency"] * 200_000}
    assert len(surely) >= 10
    assert surely <= live & alike
    assert len(live - truth.keys()) <= 5
    assert len(alike - truth.keys()) <= 5
    for row in shown["estimates"][: len(surely)]:
        assert (
            row["low"] < truth[row["value"]] < row["high"]
            or abs(row["count"] - truth[row["value"]]) < 5 * row["standard_error"]
        )
    assert shown["detectable_frequency"] == pytest.approx(simulated.detectable_frequency, rel=0.15)
