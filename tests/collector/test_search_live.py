"""Values that nobody listed, live: devices answer, a collector takes it, the command line searches.

Every device has a secret of its own and sends an upload of its own, made as the client makes it; many uploads share a
request. Secrets and values follow from fixed seeds, so each run is the same.
"""

import json
import time
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest

from overstory.analysis.kinds.split import sorted_answers
from overstory.client import Randomizer
from overstory.collector.ingest import Ingest, ReportFormat
from overstory.collector.store import open_store
from overstory.discovery import find
from overstory.files.rappor import read_candidates
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.split import divided
from overstory.protocol.metrics import load_registry, parse_registry
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_reports, encode_upload
from overstory.queries.counts import PeriodCounts, read_store
from overstory.queries.readings import read
from support.collector_in_process import ABOUT, NOW, TODAY, batch_id, packed
from support.registry_texts import registry_of
from support.running import done

NUMBERS = '{kind = "unknown-integers", bits = 16, known = ["80"]}'


def write_registry(path, metric="port", domain=NUMBERS, more=None, **parameters):
    shown = ", ".join(f"{key} = {value}" for key, value in parameters.items())
    about = {"oracle": '"prefix-search"', "period": '"day"', "grace_days": "60", "expires": "2999-01-01"} | (more or {})
    path.write_text(registry_of({metric: about | {"domain": domain, "parameters": f"{{{shown}}}"}}))
    return load_registry(path)[metric]


def upload_of(metric, number, value, period, seed=b"live"):
    secret = seed.ljust(8, b".") + number.to_bytes(8, "big")
    device = Randomizer(metric.mechanism, secret=secret, metric=metric.id)
    batch, report = device.report_in(period, device.permanent(metric.encode(value)))
    return encode_upload(Upload(batch, metric.id, period, encode_reports(metric.mechanism, [report])))


def collected(folder, metric, values, seed=b"live"):
    today, registry = metric.period.number(time.time()), load_registry(folder / "metrics.toml")
    made = (upload_of(metric, n, value, today - n % 3, seed) for n, value in enumerate(values))
    uploads, taken = iter(made), 0
    with open_store(str(folder / "reports.db"), registry, create=True) as store:
        while body := b"".join(islice(uploads, 500)):
            decision = Ingest(registry).decide(body, MEDIA_TYPE, time.time())
            assert all(result.reason is None for result in decision.results)
            taken += sum(store.add(decision.received))
    return taken


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
    shown = json.loads(done(folder, "decode", *STORE, "--metric", "port", "--json").stdout)
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
    shown = json.loads(done(folder, "decode", *STORE, "--metric", "port", "--json", "--all").stdout)
    assert [row["value"] for row in shown["estimates"]] == list(one.values)
    assert [row["count"] for row in shown["estimates"]] == pytest.approx(one.counts.tolist())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("decode", *STORE, "--metric", "port", "--aggregate", "per-period"), "few devices answer in one period"),
        (
            ("decode", *STORE, "--metric", "port", "--steps", "norm-sub"),
            "add up to 1, does not apply to it",
        ),
        (
            ("decode", *STORE, "--metric", "port", "--reports-per-device", "2"),
            "per device does not apply to it",
        ),
        (("decode", *STORE, "--metric", "port", "--complete"), "a complete list does not apply to it"),
    ],
)
def test_what_has_no_meaning_for_a_search_is_refused(live, words, message):
    folder, _ = live
    assert message in done(folder, *words, status=2).stderr


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
    done(tmp_path, "decode", *STORE, "--metric", "port", "--candidates-out", "known.txt")
    known = json.dumps(found := (tmp_path / "known.txt").read_text().split())
    (tmp_path / "more.csv").write_text('"a,b"\n80\n300\n')
    assert (
        "candidates in more.csv, "
        in done(tmp_path, "decode", *STORE, "--metric", "port", "--candidates-out", "more.csv").stdout
    )
    assert read_candidates(tmp_path / "more.csv") == list(dict.fromkeys(["a,b", "80", "300", *found]))
    later = NUMBERS.replace('["80"]', known)
    second = write_registry(tmp_path / "metrics.toml", domain=later, more=panel, epsilon=5.0, step=8, beam=16)
    more = collected(tmp_path, second, (PORTS[n % len(PORTS)] for n in range(1200)), b"second")
    shown = json.loads(done(tmp_path, "decode", *STORE, "--metric", "port", "--json").stdout)
    assert shown["reports"] == more
    assert {row["source"] for row in shown["estimates"] if row["value"] in {"443", "8080"}} == {"dictionary"}
    assert shown["other_parameters"][0]["reports"] == asked
    assert any("another plan" in note for note in shown["notes"])
    text = done(tmp_path, "decode", *STORE, "--metric", "port").stdout
    assert "a device gives at most 1 answer in any year, and each reveals: epsilon 5" in text


# A collector and the reports of a search: what it takes, counts, keeps, and refuses
UNLISTED = '{kind = "unknown-strings", max_bytes = 6, known = ["oak"]}'
SEARCHED = {"word": {"domain": UNLISTED, "oracle": '"prefix-search"', "parameters": "{epsilon = 4.0}"}}
METRICS = parse_registry(registry_of(SEARCHED, version="2026-11-21", **ABOUT))
WORD = METRICS["word"]
SEARCH = WORD.mechanism
INGEST = Ingest(METRICS)


def edges():
    for start, stop in pairwise(SEARCH.bounds):
        for cohort in (start, stop - 1):
            for payload in (0, SEARCH.payload_limit - 1):
                yield Report(cohort, payload), None
    yield Report(SEARCH.num_cohorts, 0), Reason.COHORT
    yield Report(SEARCH.num_cohorts - 1, SEARCH.payload_limit), Reason.BITS


def decide(reports):
    body = encode_upload(Upload(batch_id(), "word", TODAY, packed(WORD, reports)))
    return INGEST.decide(body, MEDIA_TYPE, NOW)


@pytest.mark.parametrize(("report", "reason"), list(edges()))
def test_what_a_group_cannot_send_is_refused_one_by_one(report, reason):
    (result,) = decide([report]).results
    assert result.reason is reason
    assert result.accepted == (reason is None)


@pytest.mark.parametrize("times", [1, 5])
def test_and_in_a_batch_of_any_size(times):
    rows = list(edges()) * times
    decision = decide([report for report, _ in rows])
    (result,) = decision.results
    assert result.rejected == tuple((i, reason) for i, (_, reason) in enumerate(rows) if reason is not None)
    assert result.accepted == sum(reason is None for _, reason in rows)


def test_a_format_that_forgets_the_tables_is_caught():
    """Broken on purpose: the widest table's limit for all, as of any other mechanism."""
    either = divided(oracle="grr", epsilon=1.0, sizes="3 2 2", tables="0 1, 2")
    sound = ReportFormat.of(either)
    rows = [(Report(place, cell), cell >= size) for place, size in ((0, 6), (1, 2)) for cell in range(6)]

    def taken(report_format, copies):
        reports = [report for report, _ in rows] * copies
        columns = report_format.read(encode_reports(either, reports), len(reports))
        return columns.num_reports // copies

    assert sum(wrong for _, wrong in rows) == 4
    for copies in (1, 20):  # few reports are read one by one
        assert taken(sound, copies) == len(rows) - 4
        assert taken(replace(sound, zones=()), copies) == len(rows)


def sound_reports(count):
    valid = [report for report, reason in edges() if reason is None]
    return [valid[i % len(valid)] for i in range(count)]


def test_the_store_counts_the_answers_to_each_question_and_keeps_them_until_retention(tmp_path):
    url = str(tmp_path / "store.db")
    with open_store(url, METRICS, create=True) as store:
        for _ in range(3):
            store.add(decide(sound_reports(100)).received)
        assert store.compact(NOW).reports == 300
        store.add(decide(sound_reports(50)).received)
        counts = store.counts(WORD, TODAY, TODAY)[TODAY]
        expected = [0] * len(SEARCH.parts)
        for report in (*sound_reports(100) * 3, *sound_reports(50)):
            expected[SEARCH.place_of(report.cohort)[0]] += 1
        assert counts.totals.tolist() == expected
        kept = sorted(
            Report(int(c), int(b[0]))
            for part in store.reports(WORD, TODAY, TODAY)
            for c, b in zip(part.cohorts, part.bits, strict=True)
        )
        assert kept == sorted(sound_reports(100) * 3 + sound_reports(50))
        assert store.backup(tmp_path / "backup.db") == 350
    with open_store(str(tmp_path / "backup.db")) as backup:  # without the registry: the store knows the plan
        assert sum(len(part) for part in backup.reports(WORD, TODAY, TODAY)) == 350
        assert backup.summary().metrics[0].mechanism == "prefix-search"
    later = NOW + (WORD.retention_days + 40) * 86_400
    with open_store(url, METRICS) as store:
        store.compact(later)
        store.retain(later)
        assert list(store.reports(WORD, TODAY, TODAY)) == []
        assert store.counts(WORD, TODAY, TODAY)[TODAY].num_reports == 350
