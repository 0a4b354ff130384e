"""The console states the central claim where `decode` does, from recorded releases, and on no public page."""

from html import unescape

import pytest

from overstory.collector.ingest import Released
from overstory.collector.store import open_store
from overstory.console.data import ConsoleData
from overstory.privacy.payloads.shuffle import SEVERAL
from support.collector_in_process import NOW, TODAY, sound
from support.console_in_process import analyst_of
from support.decoding import shared_estimates
from support.devices import Clock
from support.sealed_reports import METRICS
from support.store_samples import received

CLAIM = "central privacy: shuffled among 300 honest reports, "
ASSUMED = "Reports that a relay passes on one by one are shuffled only if"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with open_store(str(tmp_path_factory.mktemp("claims") / "store.db"), METRICS, create=True) as store:
        for period in (TODAY - 1, TODAY):
            for name in ("hidden", "other", "plain"):
                rows = [received(METRICS[name], period, [row]) for row in sound(METRICS[name], 300, period)]
                if name == "hidden":
                    rows = [row._replace(released=Released(bytes(16), place)) for place, row in enumerate(rows)]
                store.add(rows)
        yield analyst_of(ConsoleData(METRICS, store, Clock(NOW), shared_estimates(120)))


@pytest.mark.parametrize("page", ["/m/{}", "/m/{}/2026-11-21"])
@pytest.mark.parametrize(("metric", "says"), [("hidden", CLAIM), ("other", ASSUMED), ("plain", "")])
def test_the_pages_of_a_metric(client, page, metric, says):
    answer = client.get(page.format(metric))
    assert answer.status_code == 200
    text = unescape(answer.text)
    assert says in text
    assert ("at delta" in text) == (metric == "hidden")
    assert ("central privacy" in text) == (metric != "plain")


def test_a_page_of_two_periods_claims_one_report(client):
    both, one = (unescape(client.get(page).text) for page in ("/m/hidden", "/m/hidden/2026-11-21"))
    assert "1 report of a person: epsilon" in both
    assert "1 report of a person: epsilon" in one
    assert (SEVERAL in both, SEVERAL in one) == (True, False)


def test_no_public_page_has_the_claim(client):
    text = unescape(client.get("/about/hidden").text)
    assert "hidden" in text
    assert "central privacy" not in text
