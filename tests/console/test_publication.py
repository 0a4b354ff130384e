"""A period is published once: nothing that comes, is deleted or is asked for changes a public answer about it."""

import json
import random
import tempfile
from contextlib import closing, contextmanager
from dataclasses import dataclass

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.reports import ReportBatch
from overstory.client import Randomizer
from overstory.collector.ingest import Ingest
from overstory.collector.store import open_store
from overstory.console.app import FORMS, SCREENS, download_path
from overstory.console.data import ConsoleData
from overstory.protocol.metrics import Metric, parse_registry
from overstory.protocol.metrics.metric import SLACK
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_reports, encode_upload
from support.collector_in_process import Words
from support.console_browser import served_console
from support.console_in_process import client_of, console_on
from support.console_readings import METRICS, NOW, add_devices, value_of
from support.console_store import add_batch
from support.decoding import shared_estimates
from support.devices import Clock
from support.registry_texts import registry_of

DAY = 86_400
SHARES = {
    "grr": {"oracle": '"grr"', "parameters": "{epsilon = 2.0}"},
    "oue": {"oracle": '"oue"', "parameters": "{epsilon = 2.0}"},
    "groups": {
        "oracle": '"grr"',
        "parameters": "{epsilon = 2.0}",
        "groups": '{by = "release", shares = {"1.0" = 0.6}, devices = 500_000}',
    },
}
"""What is published as shares; `METRICS` has every other reading."""
ADDRESSES = ("", *(f".{form}" for form in FORMS))


@dataclass
class Publishing:
    address: str
    clock: Clock
    data: ConsoleData
    http: httpx.Client

    def get(self, path):
        while (answer := self.http.get(self.address + path)).status_code == 202:
            pass
        return answer.status_code, answer.content

    def answers(self, metric):
        return {end: self.get(f"/about/{metric}{end}") for end in ADDRESSES}

    def label(self, metric):
        results = json.loads(self.get(f"/about/{metric}.json")[1])["results"]
        return None if isinstance(results, str) else results["from"]

    def add(self, metric, period, seed):
        rng = np.random.default_rng(seed)
        held = int(rng.integers(3)) if metric.id in SHARES else value_of(metric.id, rng)
        device = Randomizer(metric.mechanism, secret=b"late%12d" % seed, metric=metric.id)
        report = device.report_in(period, device.permanent(metric.encode(held)))[1]
        add_batch(self.data.store, metric, period, ReportBatch.of(metric.mechanism, [report]))


@contextmanager
def publishing(folder, **keys):
    text = registry_of(
        {**METRICS, **SHARES}, expires="2030-01-01", publish='"estimates"', grace_days="1", retention_days="90", **keys
    )
    registry = parse_registry(STOP + text, folder)
    with open_store(str(folder / "store.db"), create=True) as store, closing(shared_estimates(60.0)) as decoder:
        store.remember(registry)
        clock = Clock(NOW)
        data = ConsoleData(registry, store, clock, decoder)
        with served_console(data, SCREENS) as serving, httpx.Client(timeout=120) as http:
            yield Publishing(serving.address, clock, data, http)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    with publishing(tmp_path_factory.mktemp("full")) as public:
        for metric in public.data.registry.values():
            if metric.id in METRICS:
                add_devices(public.data.store, metric)
            else:
                newest = metric.period.number(NOW) - 1
                for number in range(3 * 120):
                    public.add(metric, newest - number % 3, number)
        yield public


KINDS = tuple({**METRICS, **SHARES})


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", KINDS)
def test_no_late_report_changes_a_byte_of_what_everybody_can_download(full, name):
    metric, before = full.data.registry[name], full.answers(name)
    assert {end for end, (status, _) in before.items() if status == 200} >= {"", ".json", ".csv", ".parquet"}
    over = metric.period.number(NOW) - 1  # it takes reports for another day
    for number in range(3):
        full.add(metric, over + number % 2, 1_000 + number)
        assert full.answers(name) == before
    full.data.store.compact(int(NOW))
    assert full.answers(name) == before
    assert full.label(name) == "2026-11-19"


def test_no_address_without_a_login_tells_of_a_period_that_is_not_published(full):
    """Every address of the console, in every form: what answers is the same before and after reports of now."""
    metric = full.data.registry["grr"]
    today = metric.period.label(metric.period.number(NOW))
    paths = [screen.path.replace("{metric}", "grr").replace("{period}", today) for screen in SCREENS]
    addresses = paths + [f"{download_path(path)}.{form}" for path in paths for form in FORMS]
    before = {address: full.get(address) for address in addresses}
    answering = {address for address, (status, _) in before.items() if status == 200}
    pages = {address.partition(".")[0] for address in answering} - {"/index"}
    assert pages == {"/", "/about/grr", "/registry"}
    for ago in range(3):
        full.add(metric, metric.period.number(NOW) - min(ago, 1), 2_000 + ago)
    assert {address: full.get(address) for address in addresses} == before


@pytest.mark.parametrize(
    "asked", ["group=1.0", "period=2026-11-20", "from=2026-11-18", "to=2026-11-20", "limit=1", "reading=cumulative"]
)
@pytest.mark.parametrize("end", ADDRESSES[:-1])
def test_a_public_address_has_no_parameter(full, asked, end):
    status, body = full.get(f"/about/groups{end}?{asked}")
    assert (status, b"this page has no such parameter" in body) == (400, True)


def test_few_reports_are_as_good_as_none(tmp_path):
    with publishing(tmp_path) as public:
        metric = public.data.registry["oue"]
        period = metric.period.number(NOW) - 5
        before = public.answers("oue")
        assert (
            b"No period is published now. 20 November 2026 is next, on 22 November 2026, 01:00 UTC, if at least 100"
            in before[""][1]
        )
        for number in range(99):
            public.add(metric, period, number)
            if number in {0, 98}:
                assert public.answers("oue") == before
        public.data.store.compact(int(NOW))
        assert public.answers("oue") == before
        public.add(metric, period, 99)
        assert public.label("oue") == metric.period.label(period)
        for number in range(99):
            public.add(metric, period + 1, 200 + number)
        assert public.label("oue") == metric.period.label(period), "the newer one has too few"


def test_a_period_is_taken_from_the_page_before_its_reports_are_deleted(tmp_path):
    with publishing(tmp_path) as public:
        metric = public.data.registry["oue"]
        period = metric.period.number(NOW) - 5
        for number in range(100):
            public.add(metric, period, number)
        public.data.store.compact(int(NOW))
        published = public.answers("oue")
        deleted = metric.period.start(period + 1) + metric.retention_days * DAY
        public.clock.now = deleted - SLACK - 1
        assert public.answers("oue") == published
        for now in (deleted - SLACK, deleted, deleted + DAY):
            public.clock.now = now
            public.data.store.retain(now)
            assert public.label("oue") is None
        public.clock.now = metric.expires_at + 3 * DAY
        assert b"the collection has ended." in public.get("/about/oue")[1]


def test_a_period_that_the_store_has_thinned_is_published_no_more(tmp_path):
    """The console's registry says 90 days; a store that was served with 30 takes small cells out of the counts."""
    keys = {"expires": "2030-01-01", "publish": '"estimates"', "grace_days": "1"}
    longer, shorter = (
        parse_registry(STOP + registry_of({"olh": HASHED}, **keys, retention_days=days)) for days in ("90", "30")
    )
    metric = longer["olh"]
    period = metric.period.number(NOW) - 5
    rng = np.random.default_rng(7)
    sent = [metric.mechanism.randomize(int(rng.integers(3)), Words(random.Random(seed))) for seed in range(700)]
    with open_store(str(tmp_path / "store.db"), shorter, create=True) as store:
        add_batch(store, metric, period, ReportBatch.of(metric.mechanism, sent))
        store.compact(NOW)
        client = client_of(console_on(store, registry=longer, clock=Clock(NOW + 40 * DAY)))
        assert "Estimated from 700 reports" in client.get("/about/olh").text
        store.retain(NOW + 40 * DAY)
        assert sum(store.tally("olh", period, period).values()) == 700
        assert "No period is published now." in client.get("/about/olh.json").json()["results"]


STOP = 'opt_out = "Switch it off."\n'
HASHED = {"oracle": '"olh"', "parameters": "{epsilon = 2.0, num_seeds = 64}"}
HOUR = 3600


def of_hours(grace):
    days = {"grace_days": str(grace), "retention_days": str(grace + 1), "expires": "2030-01-01"}
    keys = {"period": '"hour"', "publish": '"estimates"', "publish_least": "2", "parameters": "{epsilon = 2.0}"}
    return parse_registry(STOP + registry_of({"hours": {"oracle": '"oue"'}}, **keys, **days))


KINDS_OF_EVENTS = {
    "upload": [-25, -24, -1, -1, -1, 0],  # and committed at once; of the period of so many hours ago
    "queue": [-25, -24, -1, -1, -1, 0],  # and committed within a quarter of an hour
    "poll": range(-1_500, 1_500),  # with a console whose clock is that much off
    "step": [60, 900, 1_800, HOUR, 12 * HOUR, DAY],
    "commit": [0],
    "upkeep": [0],
}


def events_of(rng):
    whats = rng.choices(list(KINDS_OF_EVENTS), weights=[2, 2, 3, 2, 1, 1], k=60)
    return [(what, rng.choice(KINDS_OF_EVENTS[what])) for what in whats]


def history(events, off, grace, seed):
    """Let a collector and a console live through events; return the public bodies by period and form.

    The collector's clock is `off` seconds off; an upload waits in its queue for at most a quarter of an hour.
    """
    registry = of_hours(grace)
    metric, rng, ingest = registry["hours"], random.Random(seed), Ingest(registry)
    now, clock, seen = NOW, Clock(NOW), {}
    queue = []
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db", create=True) as store:
        store.remember(registry)
        client = client_of(console_on(store, registry=registry, clock=clock))
        for what, number in events:
            if what in {"upload", "queue"}:
                period = metric.period.number(now + off) + number
                reports = [
                    metric.mechanism.randomize(rng.randrange(3), Words(rng)) for _ in range(rng.choice([1, 1, 2]))
                ]
                sent = Upload(rng.randbytes(16), "hours", period, encode_reports(metric.mechanism, reports))
                taken = ingest.decide(encode_upload(sent), MEDIA_TYPE, now + off)
                queue.append((now, taken.received))
            if what == "step":
                for at in sorted({min(at + 900, now + number) for at, _ in queue}):
                    commit(store, [batch for begun, batches in queue if begun + 900 <= at for batch in batches])
                    queue = [entry for entry in queue if entry[0] + 900 > at]
                now += number
            if what in {"upload", "commit"}:
                commit(store, [batch for _, batches in queue for batch in batches])
                queue = []
            if what == "upkeep":
                store.compact(now + off)
                store.retain(now + off)
            if what == "poll":
                clock.now = now + number
                facts = client.get("/about/hours.json").json()["results"]
                if not isinstance(facts, str):
                    for end in ("", ".csv", ".json", ".svg"):
                        seen.setdefault((facts["from"], end), set()).add(client.get(f"/about/hours{end}").content)
    return seen


def commit(store, received):
    if received:
        store.add(received)


def changed_answers(seed):
    """Return the answers about a period that were not the same at every poll of a random history."""
    rng = random.Random(seed)
    bodies = history(events_of(rng), rng.randint(-1_500, 1_500), rng.randint(0, 1), seed)
    return {key for key, seen in bodies.items() if len(seen) > 1}


@settings(max_examples=10)
@given(st.integers(0, 1 << 64))
def test_any_two_public_answers_about_a_period_are_equal(seed):
    assert changed_answers(seed) == set()


def test_the_property_notices_the_newest_period_that_is_over(monkeypatch):
    """Planted: a period is shown when it is over, while late reports still count."""
    monkeypatch.setattr(Metric, "newest_final", lambda metric, now: metric.period.number(now) - 1)
    assert any(map(changed_answers, range(40)))


@pytest.mark.parametrize("slack", [0, SLACK])
def test_a_report_that_waits_for_its_commit_when_the_grace_ends_is_noticed(monkeypatch, slack):
    """Planted, with 0: the newest period whose grace is over, to the second."""
    newest = lambda metric, now: metric.period.number(now - metric.grace_days * DAY - slack) - 1  # noqa: E731
    monkeypatch.setattr(Metric, "newest_final", newest)
    two = [("upload", 0), ("upload", 0)]
    late = [("step", HOUR - 60), ("queue", 0), ("step", 60), ("poll", 0), ("commit", 0), ("poll", 0)]
    bodies = history([*two, *late, ("step", HOUR), ("poll", 0), ("poll", 60)], off=0, grace=0, seed=1)
    assert {len(seen) for seen in bodies.values()} == ({1} if slack else {2})
