"""A collector and the reports of a search: what it takes, counts, keeps, and refuses."""

from dataclasses import replace
from itertools import pairwise

import pytest

from overstory.collector.ingest.ingest import Ingest, ReportFormat
from overstory.collector.store import open_store
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.split import divided
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_reports, encode_upload
from support.collector_in_process import ABOUT, NOW, TODAY, batch_id, packed
from support.registry_texts import registry_of

METRICS = parse_registry(
    registry_of(
        {
            "word": {
                "domain": '{kind = "unknown-strings", max_bytes = 6, known = ["oak"]}',
                "oracle": '"prefix-search"',
                "parameters": "{epsilon = 4.0}",
            }
        },
        version="2026-11-21",
        **ABOUT,
    )
)
WORD = METRICS["word"]
SEARCH = WORD.mechanism
INGEST = Ingest(METRICS)


def edges():
    """Reports at the edges of every group's numbers and answers, each with why it is refused, or None."""
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
    for _ in range(2):  # the second time a template may recognise it
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
        expected = [0] * len(SEARCH.questions)
        for report in (*sound_reports(100) * 3, *sound_reports(50)):
            expected[SEARCH.group_of(report.cohort)] += 1
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
