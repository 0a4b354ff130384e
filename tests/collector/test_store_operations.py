"""Refusals, collectors' heartbeats and notes in a store: added, read, retained, backed up."""

from __future__ import annotations

from pathlib import Path

import pytest

from overstory.collector.store import CollectorState, Refusals, open_store
from overstory.protocol.errors import ParameterError
from support.store_samples import DAY, NOW, registry

TODAY = 20_000
STATE = CollectorState("5f3a9c01", "0.2.0", int(NOW) - 600, int(NOW), 17, 0.02)


def test_refusals_add_up_by_day_and_by_metric(store_url: str) -> None:
    with open_store(store_url, registry(), create=True) as store, open_store(store_url) as other:
        store.report_state(None, {(None, TODAY, "bits"): 3, ("bloom", TODAY, "bits"): 2})
        other.report_state(None, {(None, TODAY, "bits"): 4, (None, TODAY + 1, "damaged"): 1})
        store.report_state(STATE, {})
        assert other.refusals() == Refusals(
            {(TODAY, "bits"): 7, (TODAY + 1, "damaged"): 1}, {("bloom", TODAY, "bits"): 2}
        )


def test_a_collector_has_one_row_its_last(store_url: str) -> None:
    later = CollectorState(STATE.id, STATE.version, STATE.started, STATE.last_seen + 15, 0)
    other = CollectorState("00aa", "0.2.0", 1, STATE.last_seen - 100, 0)
    with open_store(store_url, create=True) as store:
        for state in (STATE, other, later):
            store.report_state(state, {})
        assert store.collectors() == [later, other]
        assert [state.silent(NOW) for state in store.collectors()] == [False, True]


def test_notes_are_on_a_metric_or_on_all(store_url: str) -> None:
    with open_store(store_url, registry(), create=True) as store:
        of_all = store.add_note(" Version 3 is out ", TODAY + 1, "release")
        of_bloom = store.add_note("<b>=cmd()</b>", TODAY, "incident", "bloom")
        of_size = store.add_note("a note", TODAY, metric="size")
        assert of_all.text == "Version 3 is out"
        assert store.notes() == [of_bloom, of_size, of_all]
        assert store.notes("bloom") == [of_bloom, of_all]
        store.remove_note(of_bloom.id)
        assert store.notes("bloom") == [of_all]
        with pytest.raises(ParameterError, match=f"there is no note {of_bloom.id}: overstory store notes list"):
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
def test_a_note_that_cannot_be_stored_is_refused(
    tmp_path: Path, words: str, kind: str, metric: str | None, why: str
) -> None:
    with open_store(str(tmp_path / "store.db"), registry(), create=True) as store:
        with pytest.raises(ParameterError, match=why):
            store.add_note(words, TODAY, kind, metric)
        assert store.notes() == []


def test_retention_deletes_refusals_and_collectors_that_ended_and_leaves_notes(store_url: str) -> None:
    metrics = registry(retention=90)
    with open_store(store_url, metrics, create=True) as store:
        refused = {(None, day, "bits"): 1 for day in (TODAY - 401, TODAY - 400, TODAY)}
        refused |= {("bloom", day, "bits"): 1 for day in (TODAY - 91, TODAY - 90, TODAY)}
        old = CollectorState("00aa", "0.2.0", 1, int(NOW) - 7 * DAY - 1, 0)
        store.report_state(STATE, refused)
        store.report_state(old, {})
        note = store.add_note("long ago", TODAY - 5000)
        store.retain(NOW)
        assert store.refusals() == Refusals(
            {(TODAY - 400, "bits"): 1, (TODAY, "bits"): 1},
            {("bloom", TODAY - 90, "bits"): 1, ("bloom", TODAY, "bits"): 1},
        )
        assert (store.collectors(), store.notes()) == ([STATE], [note])
