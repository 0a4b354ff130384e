"""Reading counts back: per period, cumulative, with what is supposed of devices said, over HTTP the same."""

import json

import numpy as np
import pytest

from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import SupportCounts
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.queries.counts import PeriodCounts, parse_range, read_store
from overstory.queries.estimates import read_estimates
from overstory.queries.readings import EstimateOptions
from overstory.queries.sources import RemoteError, read_remote
from support.collector_doubles import bad_server, http, replying
from support.registry_texts import COLOURS, STRINGS, registry_of

METRICS = parse_registry(
    registry_of(
        {
            "colour": {
                "oracle": '"l-osue"',
                "parameters": "{epsilon_permanent = 3.0, epsilon_report = 1.5}",
                "domain": COLOURS,
                "window": "30",
                "max_values": "2",
                "over_cap": '"drop"',
                "grace_days": "30",
            },
            "energy": {
                "oracle": '"opt-wb"',
                "parameters": "{epsilon = 1.0, window = 10}",
                "domain": '{kind = "bins", min = 0, max = 2, count = 4}',
                "period": '"30 minutes"',
                "window": "10",
            },
            "page": {
                "oracle": '"rappor"',
                "parameters": "{num_bits = 32, num_hashes = 2, num_cohorts = 4}",
                "domain": STRINGS,
                "period": '"week"',
                "window": "10",
                "max_values": "5",
                "over_cap": '"drop"',
            },
        },
        retention_days="365",
        expires="2027-11-21",
    )
)
COLOUR, ENERGY, PAGE = (METRICS[name] for name in ("colour", "energy", "page"))
DAYS, DEVICES = (20_700, 20_701, 20_703), 3000
OLD = bytes(range(16))
PAGES = ["a.example", "b.example", "c.example"]


class Kept:
    def __init__(self, metric, by_period, others=()):
        self.metric, self.by_period, self.other = metric, dict(by_period), dict(others)

    def periods(self, metric_id):
        assert metric_id == self.metric.id
        return sorted({*self.by_period, *(period for period, _ in self.other)})

    def counts(self, metric, first, last):
        return {p: c for p, c in self.by_period.items() if first <= p <= last}

    def sums(self, metric, first, last):
        return {}

    def tally(self, metric_id, first, last):
        own = {(p, self.metric.mechanism.digest): c.num_reports for p, c in self.by_period.items()}
        return {key: n for key, n in (own | self.other).items() if first <= key[0] <= last}


def collected(metric, periods, candidates=None, seed=1):
    oracle = FrequencyOracle(metric.mechanism)
    symbols = np.arange(DEVICES) % 3 // 2  # twice as many hold 0 as hold 1
    devices = oracle.devices(symbols, np.random.default_rng(seed), candidates=candidates)
    return {period: oracle.accumulate(devices.report(i)) for i, period in enumerate(periods)}


@pytest.fixture
def store():
    return Kept(COLOUR, collected(COLOUR, DAYS))


def test_in_all_every_device_is_supposed_to_have_reported_in_every_period(store):
    reading = read_estimates(read_store(store, COLOUR))
    (part,) = reading.parts
    assert (part.first, part.last, part.reports_per_device) == (20_700, 20_703, 3.0)
    assert part.estimate.num_reports == 3 * DEVICES
    assert list(part.estimate.values) == ["red", "green", "blue"]
    assert np.all(np.abs(part.estimate.raw_counts - [6000, 3000, 0]) < 6 * part.estimate.standard_errors)
    assert part.estimate.detected().tolist() == [True, True, False]
    assert reading.notes[0].startswith("standard errors assume 3 reports per device, the worst case")
    known = read_estimates(read_store(store, COLOUR), "total", EstimateOptions(reports_per_device=1.0))
    assert (known.parts[0].estimate.standard_errors < part.estimate.standard_errors).all()
    assert not known.notes


def test_by_period_and_over_all_so_far(store):
    alone = read_estimates(read_store(store, COLOUR), "per-period")
    assert [(p.first, p.last) for p in alone.parts] == [(d, d) for d in DAYS]
    assert {p.reports_per_device for p in alone.parts} == {1.0}
    assert "not independent" in alone.notes[0]
    so_far = read_estimates(read_store(store, COLOUR), "cumulative")
    assert [(p.first, p.last, p.reports_per_device) for p in so_far.parts] == [
        (20_700, 20_700, 1.0),
        (20_700, 20_701, 2.0),
        (20_700, 20_703, 3.0),
    ]
    assert so_far.parts[0].estimate.rows() == alone.parts[0].estimate.rows()
    compared = EstimateOptions(interval_kind="population")
    total = read_estimates(read_store(store, COLOUR), options=compared).parts[0].estimate
    assert so_far.parts[-1].estimate.rows() == total.rows()


def test_periods_that_are_compared_count_the_sampling_of_people(store):
    """One estimate is of its reports; several beside each other are of the people behind them, unless asked."""
    counted = read_store(store, COLOUR)
    kinds = {kind: read_estimates(counted, kind).to_json() for kind in ("total", "per-period", "cumulative")}
    assert {kind: one["interval"] for kind, one in kinds.items()} == {
        "total": "reports",
        "per-period": "population",
        "cumulative": "population",
    }
    asked = read_estimates(counted, "per-period", EstimateOptions(interval_kind="reports"))
    rows = {one["interval"]: one["readings"][0]["estimates"][0] for one in (asked.to_json(), kinds["per-period"])}
    assert {row["interval"] for row in rows.values()} == set(rows)
    share = rows["reports"]["frequency"]
    more = rows["population"]["frequency_standard_error"] ** 2 - rows["reports"]["frequency_standard_error"] ** 2
    assert more == pytest.approx(share * (1 - share) / DEVICES)
    total = read_estimates(counted, options=EstimateOptions(interval_kind="population")).parts[0].estimate
    noise, people = total.errors("reports")[0], total.errors("population")[0]
    share = total.raw_frequencies[0]  # three reports of each device, at worst: a third as many people
    assert people**2 - noise**2 == pytest.approx((3 * DEVICES) ** 2 * share * (1 - share) / DEVICES)
    known = read_estimates(read_store(store, COLOUR), "cumulative", EstimateOptions(reports_per_device=1.5))
    assert [p.reports_per_device for p in known.parts] == [1.0, 1.5, 1.5]
    assert "1.5 reports per device" in known.notes[0]


def test_other_parameters_are_told_apart():
    store = Kept(COLOUR, collected(COLOUR, DAYS), {(20_701, OLD): 17, (20_702, OLD): 5})
    counted = read_store(store, COLOUR)
    assert counted.num_reports == 3 * DEVICES
    reading = read_estimates(counted)
    (note,) = [n for n in reading.notes if "other parameters" in n]
    assert note.startswith("22 reports from 2026-09-05 to 2026-09-06")
    assert OLD.hex() in note
    assert reading.to_json()["other_parameters"] == [
        {"digest": OLD.hex(), "from": "2026-09-05", "to": "2026-09-06", "reports": 22}
    ]
    assert not read_store(store, COLOUR, 20_703, 20_703).others


def test_strings_take_their_candidates_from_the_registry_or_the_analyst():
    store = Kept(PAGE, collected(PAGE, [2960, 2961], PAGES))
    with pytest.raises(ParameterError, match="no candidates"):
        read_estimates(read_store(store, PAGE))
    chosen = EstimateOptions(candidates=(*PAGES, "d.example"), correction="bonferroni", alpha=0.01)
    estimate = read_estimates(read_store(store, PAGE), "total", chosen).parts[0].estimate
    assert estimate.detected().tolist() == [True, True, False, False]
    assert (estimate.correction, estimate.alpha) == ("bonferroni", 0.01)
    lasso = EstimateOptions(candidates=tuple(PAGES), method="lasso")
    assert read_estimates(read_store(store, PAGE), "total", lasso).parts[0].estimate.summary()["method"] == "lasso"


@pytest.mark.parametrize(
    ("kind", "choices", "said"),
    [
        ("weekly", {}, "choose one of total, per-period, cumulative"),
        ("per-period", {"reports_per_device": 2.0}, "a device reports once"),
        ("total", {"reports_per_device": 4.0}, "reports in 3 periods"),
        ("total", {"reports_per_device": 0.2}, "at least 1"),
        ("total", {"method": "lasso"}, "for Bloom"),
        ("total", {"candidates": ("a",)}, "other candidates"),
        ("total", {"alpha": 2.0}, "alpha"),
        ("total", {"steps": ("smoothe",)}, "no post-processing step"),
    ],
)
def test_what_does_not_fit_is_refused(store, kind, choices, said):
    with pytest.raises(ParameterError, match=said):
        read_estimates(read_store(store, COLOUR), kind, EstimateOptions(**choices))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda parsed: parsed.pop("periods"),
        lambda parsed: parsed.update(periods=7),
        lambda parsed: parsed.update(digest="00" * 16),
        lambda parsed: parsed.update(metric="energy"),
        lambda parsed: parsed["periods"][0].update(period="2026-W40"),
        lambda parsed: parsed["periods"][0].update(ones=[[1], [1]]),
        lambda parsed: parsed["periods"][0].update(totals=[-1]),
        lambda parsed: parsed["periods"][0].update(totals=[10**30]),
        lambda parsed: parsed["other_parameters"].append(
            {"digest": "00", "from": "2026-09-04", "to": "2026-09-04", "reports": float("inf")}
        ),
    ],
)
def test_other_json_is_refused(store, spoil):
    parsed = read_store(store, COLOUR).to_json()
    spoil(parsed)
    with pytest.raises(ParameterError):
        PeriodCounts.from_json(COLOUR, parsed)
    with pytest.raises(ParameterError):
        PeriodCounts.from_json(COLOUR, [])


def test_ranges_are_labels_and_days_of_shorter_periods():
    assert parse_range(COLOUR, "2026-09-04", "2026-09-05") == (20_700, 20_701)
    assert parse_range(COLOUR, None, None) == (None, None)
    assert parse_range(ENERGY, "2026-09-04", "2026-09-04") == (20_700 * 48, 20_700 * 48 + 47)
    assert parse_range(ENERGY, "2026-09-04T00:30Z", "2026-09-05") == (20_700 * 48 + 1, 20_701 * 48 + 47)
    assert parse_range(PAGE, "2026-W36", None) == (PAGE.period.parse_label("2026-W36"), None)
    for first, last in (("2026-09-05", "2026-09-04"), ("September", None), (None, "2026-W36")):
        with pytest.raises(ParameterError):
            parse_range(COLOUR, first, last)
    with pytest.raises(ParameterError, match="ends before it begins"):
        read_store(Kept(COLOUR, {}), COLOUR, 5, 4)


@pytest.fixture
def served():
    with bad_server(replying(b"")) as server:
        yield server


def asked(served):
    return served.heard[-1].head.decode().split()[1]


def test_over_http_the_same(store, served):
    here = read_store(store, COLOUR, 20_700, 20_703)
    served.reply = replying(http(200, json.dumps(here.to_json()).encode()))
    there = read_remote(served.url + "/", "secret-token", COLOUR, 20_700, 20_703)
    assert asked(served) == "/v1/metrics/colour/counts?from=2026-09-04&to=2026-09-07"
    assert served.heard[-1].headers["authorization"] == "Bearer secret-token"
    assert read_estimates(there, "cumulative").to_json() == read_estimates(here, "cumulative").to_json()
    read_remote(served.url, "", COLOUR)
    assert asked(served) == "/v1/metrics/colour/counts"
    assert "authorization" not in served.heard[-1].headers


TOKEN = "does not take this token: .*\\(this token is not known\\)"
REFUSED = {
    "detail": (http(401, b'{"reason": "unknown-token", "detail": "this token is not known"}'), TOKEN),
    "page": (http(502, b"<html>"), "502"),
    "in the middle": (http(502, b"ff\r\n{", Transfer_Encoding="chunked"), "502"),
    "no JSON": (http(200, b"<html>"), "not JSON"),
    "deep": (http(200, b"[" * 100_000), "not JSON"),
    "deep problem": (http(500, b"[" * 60_000), "500"),
    "list": (http(500, b"[1]"), "500"),
    "number": (http(500, b'{"detail": 7}'), "500"),
}


@pytest.mark.parametrize(("raw", "said"), REFUSED.values(), ids=REFUSED)
def test_a_collector_that_refuses_is_quoted(served, raw, said):
    served.reply = replying(raw)
    with pytest.raises(RemoteError, match=said):
        read_remote(served.url, "x", COLOUR)


def test_a_token_does_not_follow_a_redirect(served):
    served.reply = replying(http(302, Location=served.url + "/elsewhere"))
    with pytest.raises(RemoteError, match="302"):
        read_remote(served.url, "secret-token", COLOUR)
    assert [one.head.decode().split()[1] for one in served.heard] == ["/v1/metrics/colour/counts"]


@pytest.mark.parametrize("token", ["ova_secret\r", "ova_secret\nHost: x", "ova secret", "ova_s\u00e9cret"])
def test_a_token_that_cannot_be_sent_is_not_shown(token):
    with pytest.raises(ParameterError, match="token: give") as refused:
        read_remote("http://127.0.0.1:9", token, COLOUR)
    assert "cret" not in str(refused.value)


ADDRESSES = ["collector.example", "ftp://x", "http://", "file:///etc/passwd", "http://x/?a=b", "http://[", "", "://"]


@pytest.mark.parametrize("url", ADDRESSES)
def test_an_address_is_checked(url):
    with pytest.raises(RemoteError, match="no collector's address"):
        read_remote(url, "", COLOUR)


def test_nobody_there():
    with pytest.raises(RemoteError, match="no answer"):
        read_remote("http://127.0.0.1:9", "", COLOUR)


def test_uneven_shapes_are_refused():
    with pytest.raises(ParameterError):
        read_estimates(PeriodCounts(COLOUR, 1, 2, {1: SupportCounts([2], [[1, 1]])}))
