"""Refusals, collectors' heartbeats and notes in a store: added, read, retained, backed up."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from overstory.collector.ingest import Released
from overstory.collector.store import open_store
from overstory.collector.store.operations import CollectorState, Refusals, ReleasedReports
from overstory.protocol.errors import OverstoryError, ParameterError
from support.store_samples import DAY, NOW, registry, some

TODAY = 20_000
STATE = CollectorState("5f3a9c01", "0.2.0", int(NOW) - 600, int(NOW), 17)


def test_refusals_add_up_by_day_and_by_metric(store_url):
    with open_store(store_url, registry(), create=True) as store, open_store(store_url) as other:
        store.report_state(None, {(None, TODAY, "bits"): 3, ("bloom", TODAY, "bits"): 2})
        other.report_state(None, {(None, TODAY, "bits"): 4, (None, TODAY + 1, "damaged"): 1})
        store.report_state(STATE, {})
        assert other.refusals() == Refusals(
            {(TODAY, "bits"): 7, (TODAY + 1, "damaged"): 1}, {("bloom", TODAY, "bits"): 2}
        )


def test_a_collector_has_one_row_its_last(store):
    later = CollectorState(STATE.id, STATE.version, STATE.started, STATE.last_seen + 15, 0)
    other = CollectorState("00aa", "0.2.0", 1, STATE.last_seen - 100, 0)
    for state in (STATE, other, later):
        store.report_state(state, {})
    assert store.collectors() == [later, other]
    assert [state.silent(NOW) for state in store.collectors()] == [False, True]


def test_notes_are_on_a_metric_or_on_all(store):
    of_all = store.add_note(" Version 3 is out ", TODAY + 1, "release")
    of_bloom = store.add_note("<b>=cmd()</b>", TODAY, "incident", "bloom")
    of_size = store.add_note("a note", TODAY, metric="size")
    assert of_all.text == "Version 3 is out"
    assert store.notes() == [of_bloom, of_size, of_all]
    assert store.notes("bloom") == [of_bloom, of_all]
    store.remove_note(of_bloom.id)
    assert store.notes("bloom") == [of_all]
    with pytest.raises(ParameterError, match=f"there is no note {of_bloom.id}"):
        store.remove_note(of_bloom.id)


@pytest.mark.parametrize(
    ("words", "kind", "metric", "why"),
    [
        ("", "note", None, "1 to 500 characters; this one has 0"),
        ("x" * 501, "note", None, "1 to 500 characters; this one has 501"),
        ("two\nlines", "note", None, "one line of printable characters"),
        ("text\u202egnp.exe", "note", None, "one line of printable characters"),
        ("x", "rumour", None, "a note is of kind release, incident or note; not 'rumour'"),
        ("x", "note", "colou", "the store remembers no metric colou: it remembers bloom, colour, size"),
    ],
)
def test_a_note_that_cannot_be_stored_is_refused(tmp_path, words, kind, metric, why):
    with open_store(str(tmp_path / "store.db"), registry(), create=True) as store:
        with pytest.raises(ParameterError, match=why):
            store.add_note(words, TODAY, kind, metric)
        assert store.notes() == []


def test_retention_deletes_refusals_and_collectors_that_ended_and_leaves_notes(store):
    refused = {(None, day, "bits"): 1 for day in (TODAY - 401, TODAY - 400, TODAY)}
    refused |= {("bloom", day, "bits"): 1 for day in (TODAY - 91, TODAY - 90, TODAY)}
    old = CollectorState("00aa", "0.2.0", 1, int(NOW) - 7 * DAY - 1, 0)
    store.report_state(STATE, refused)
    store.report_state(old, {})
    note = store.add_note("long ago", TODAY - 5000)
    store.retain(NOW)
    assert store.refusals() == Refusals(
        {(TODAY - 400, "bits"): 1, (TODAY, "bits"): 1}, {("bloom", TODAY - 90, "bits"): 1, ("bloom", TODAY, "bits"): 1}
    )
    assert (store.collectors(), store.notes()) == ([STATE], [note])


# What relays released together: a release grows with its new messages, in their transaction, and never by others
PERIOD = 20_000
FIRST, SECOND = b"a" * 16, b"b" * 16


def released(metrics, release, message, reports=1, *, name="colour", period=PERIOD):
    return some(metrics[name], period, reports, message)._replace(released=Released(release, message))


def test_a_release_grows_by_its_new_messages_alone(store, metrics):
    part = [released(metrics, FIRST, number) for number in range(5)]
    assert store.add(part) == [True] * 5
    assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 5, 5)}
    assert store.add(part) == [False] * 5  # sent again
    more = [released(metrics, FIRST, number) for number in (7, 8)]
    assert store.add([part[0], *more, more[0]]) == [False, True, True, False]
    assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 7, 7)}


def test_each_metric_and_period_has_its_smallest_release(store, metrics):
    store.add([released(metrics, FIRST, number) for number in range(5)])
    store.add([released(metrics, SECOND, number) for number in range(3)])
    store.add([released(metrics, SECOND, 9, name="size"), released(metrics, SECOND, 10, period=PERIOD + 1)])
    assert store.releases("colour", PERIOD - 9, PERIOD + 9) == {
        PERIOD: ReleasedReports(2, 3, 8),
        PERIOD + 1: ReleasedReports(1, 1, 1),
    }
    assert store.releases("size", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 1, 1)}
    assert store.releases("colour", PERIOD + 2, PERIOD + 9) == {}
    assert store.summary().releases == 2


def test_a_message_counts_once_however_many_batches_and_reports_it_has(store, metrics):
    store.add([released(metrics, FIRST, *sizes) for sizes in ((1, 10), (1, 20), (2, 3))])
    assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 2, 33)}


def test_what_comes_another_way_is_in_no_release(store, metrics):
    store.add([some(metrics["colour"], PERIOD, 10, 1), released(metrics, FIRST, 2)])
    assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 1, 1, complete=False)}
    assert store.tally("colour", PERIOD, PERIOD) == {(PERIOD, metrics["colour"].mechanism.digest): 11}


def test_a_transaction_that_fails_grows_no_release(store, metrics):
    store.add([released(metrics, FIRST, 1)])
    broken = released(metrics, FIRST, 2)._replace(bits=b"")
    with pytest.raises(OverstoryError):
        store.add([released(metrics, FIRST, 3), broken])
    assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 1, 1)}


def test_releases_are_deleted_with_their_metrics_reports(store, metrics):
    store.add([released(metrics, FIRST, 1), released(metrics, FIRST, 2, period=PERIOD + 30)])
    store.compact(NOW)
    store.retain(NOW + 89 * DAY)
    assert list(store.releases("colour", PERIOD, PERIOD + 30)) == [PERIOD, PERIOD + 30]
    store.retain(NOW + 100 * DAY)
    assert list(store.releases("colour", PERIOD, PERIOD + 30)) == [PERIOD + 30]
    assert sum(map(len, store.reports(metrics["colour"], PERIOD, PERIOD + 30))) == 1


def test_collectors_that_take_one_release_together_add_up(postgres_url, metrics):
    """Two collectors on one PostgreSQL store, parts that overlap, in opposite orders: no deadlock, no message twice."""
    open_store(postgres_url, metrics, create=True).close()
    messages = [released(metrics, FIRST, number) for number in range(220)]
    parts = [messages[at : at + 30] for at in range(0, 200, 10)]

    def work(mine):
        with open_store(postgres_url, metrics) as store:
            return sum(sum(store.add(part)) for part in mine)

    with ThreadPoolExecutor(4) as pool:
        new = sum(pool.map(work, (parts, parts[::-1], parts[::2], parts[1::2])))
    with open_store(postgres_url, metrics) as store:
        assert new == 220
        assert store.releases("colour", PERIOD, PERIOD) == {PERIOD: ReleasedReports(1, 220, 220)}
