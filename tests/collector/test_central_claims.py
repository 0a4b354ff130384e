"""The central claim from a store to what people read: decode, counts over HTTP and back, the console, public pages."""

import json

import pytest

from overstory.cli.main import main
from overstory.collector.ingest import Released
from overstory.collector.server import counts_text
from overstory.collector.service import PublicPages
from overstory.collector.store import open_store
from overstory.protocol.metrics import parse_registry
from overstory.queries.counts import PeriodCounts, read_store
from overstory.queries.readings import read
from support.collector_in_process import TODAY, sound
from support.sealed_reports import METRICS, REGISTRY
from support.store_samples import received

HIDDEN = METRICS["hidden"]
FIRST, SECOND = b"a" * 16, b"b" * 16


def batches(name, period, messages, release, seed=1):
    rows = sound(METRICS[name], messages, seed)
    single = [received(METRICS[name], period, [row]) for row in rows]
    if release is None:
        return single
    return [batch._replace(released=Released(release, place)) for place, batch in enumerate(single)]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    with open_store(str(tmp_path / "store.db"), METRICS, create=True) as store:
        store.add(batches("hidden", TODAY, 300, FIRST))
        store.add(batches("hidden", TODAY, 200, SECOND, 2))
        store.add(batches("hidden", TODAY + 1, 400, FIRST, 3))
        store.add(batches("other", TODAY, 300, None))
        store.add(batches("plain", TODAY, 300, None))
    return tmp_path


def counted(folder, name="hidden", first=None, last=None):
    with open_store(str(folder / "store.db")) as store:
        return read_store(store, METRICS[name], first, last)


def decode(folder, capsys, *more):
    where = ["--store", str(folder / "store.db"), "--registry", str(folder / "metrics.toml")]
    status = main(["decode", *where, *more])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def test_several_periods_have_the_smallest_release_of_all(folder):
    both, one = counted(folder), counted(folder, first=TODAY + 1)
    assert both.released.smallest == {TODAY: 200, TODAY + 1: 400}
    assert [counts.central_json()["central"]["reports"] for counts in (both, one)] == [200, 400]


def test_one_report_that_came_another_way_takes_the_number_away(folder):
    with open_store(str(folder / "store.db")) as store:
        assert store.releases("hidden", TODAY, TODAY)[TODAY].complete
        store.add(batches("hidden", TODAY, 1, None, 9))
        assert not store.releases("hidden", TODAY, TODAY)[TODAY].complete
        assert store.releases("hidden", TODAY + 1, TODAY + 1)[TODAY + 1].complete
    assert set(counted(folder).central_json()["central"]) == {"reason"}
    assert counted(folder, first=TODAY + 1).central_json()["central"]["reports"] == 400


def test_reports_of_other_parameters_hide_nobody(folder):
    other = parse_registry(REGISTRY.replace("epsilon = 1.0", "epsilon = 2.0"))["hidden"]
    (batch,) = [received(other, TODAY, sound(other, 1))]
    with open_store(str(folder / "store.db")) as store:
        store.add([batch._replace(released=Released(FIRST, 999))])
        assert not store.releases("hidden", TODAY, TODAY)[TODAY].complete


def test_decode_prints_the_claim_with_its_delta_its_number_and_what_it_rests_on(folder, capsys):
    status, text, _ = decode(folder, capsys, "--metric", "hidden")
    assert status == 0
    assert "central privacy: shuffled among 200 honest reports, 1 report of a person: epsilon " in text
    assert " at delta 1e-09" in text
    assert "the smallest release of 2 periods had 200 messages, as the collector recorded" in text
    assert text.count("rests on: ") == len(counted(folder).central_json()["central"]["rests_on"])


def test_a_pass_through_metric_has_the_assumption_and_no_number(folder, capsys):
    _, text, _ = decode(folder, capsys, "--metric", "other")
    assert "central privacy: In 1 of 1 period, reports did not all come in a recorded release." in text
    assert "that is assumed" in text
    assert "delta" not in text
    _, text, _ = decode(folder, capsys, "--metric", "other", "--json")
    assert set(json.loads(text)["central"]) == {"reason"}


def test_a_direct_metric_has_no_claim(folder, capsys):
    _, text, _ = decode(folder, capsys, "--metric", "plain")
    assert "central" not in text
    _, text, _ = decode(folder, capsys, "--metric", "plain", "--json")
    assert "central" not in json.loads(text)


def test_counts_travel_with_their_releases(folder):
    sent = json.loads("".join(counts_text(counted(folder))))
    assert [row["smallest_release"] for row in sent["periods"]] == [200, 400]
    again = PeriodCounts.from_json(HIDDEN, sent)
    assert again.released == counted(folder).released
    assert read(again).to_json()["central"] == sent["central"] == read(counted(folder)).to_json()["central"]
    assert "smallest_release" not in json.dumps(counted(folder, "plain").to_json())


def test_no_public_page_states_a_number(folder, capsys):
    """A registry promises what holds for every report; how many hide each other shows only afterwards."""
    assert main(["metrics", "show", str(folder / "metrics.toml")]) == 0
    pages = PublicPages(METRICS)
    for page in (capsys.readouterr().out, pages.html, json.dumps(pages.listed)):
        assert "hidden" in page
        for word in ("central privacy", "at delta", "honest reports"):
            assert word not in page
