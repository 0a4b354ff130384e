"""Laws of a metric over every kind of domain and of mechanism, with and without groups.

What a mechanism promises is enumerated in the files of each law. Here: a registry's entry survives being published, its
digests stay, a device answers once a period by one permanent response, counts add up, and estimates are near the truth.
A new kind of domain, or a mechanism that is no frequency oracle, adds a line to `KINDS`.
"""

import copy
import csv
import hashlib
import inspect
import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.analysis.kinds.split import SearchSupport
from overstory.analysis.reports import ReportBatch
from overstory.client import Client, Outcome, session
from overstory.client.session import MetricRecorder
from overstory.client.state.state import State
from overstory.discovery import find
from overstory.presentation.render_text import as_text
from overstory.protocol.domains import DOMAINS
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import BUILDERS, FAMILIES, REGISTRY, any_mechanism
from overstory.protocol.metrics import load_registry
from overstory.protocol.metrics.metric_table import metric_from_json
from overstory.protocol.metrics.period import DAY
from overstory.protocol.wire.upload import decode_batch, decode_uploads, encode_reports
from overstory.queries.counts import PeriodCounts
from overstory.queries.readings import read
from support.registry_texts import registry_of

PAIR = '{kind = "categories", names = ["1.0", "2.0"]}, {kind = "categories", names = ["no", "yes"]}'
CELLS = [("1.0", "no"), ("1.0", "yes"), ("2.0", "no"), ("2.0", "yes")]
TWO_ROUNDS = "{epsilon_permanent = 6.0, epsilon_report = 4.0}"
FILTER = "num_bits = 16, num_hashes = 1, num_cohorts = 2, f = 0.1, p = 0.1, q = 0.9"
ITEMS = '{kind = "set", of = ["a", "b", "c"], most = 2}'
SETS = [["a"], ["a", "b"], [], ["c"]]
FRACTIONS = [0.2, 0.4, 0.6, 0.9]
SINGLE = "{epsilon = 4.0}"

# A domain, a mechanism, its parameters, and four values to hold.
KINDS = {
    "categories": ('{kind = "categories", names = ["a", "b", "c"], other = "d"}', "l-osue", TWO_ROUNDS, [*"abcd"]),
    "integers": ('{kind = "integers", min = 0, max = 9}', "grr", SINGLE, [0, 3, 5, 9]),
    "bins": ('{kind = "bins", min = 0, max = 1, count = 5}', "ranges", SINGLE, FRACTIONS),
    "strings": ('{kind = "strings", candidates = "versions.txt"}', "rappor", f"{{{FILTER}}}", ["1.0", "2.0", "3", "4"]),
    "pair": (f'{{kind = "table", names = ["v", "c"], of = [{PAIR}]}}', "subset", SINGLE, CELLS),
    "divided": (
        f'{{kind = "table", names = ["v", "c", "t"], tables = "all pairs", of = [{PAIR}, {PAIR.split("}, ")[1]}]}}',
        "divided",
        '{oracle = "oue", epsilon = 4.0}',
        [(*cell, "no") for cell in CELLS],
    ),
    "padded set": (ITEMS, "padding-and-sampling", SINGLE, SETS),
    "set by items": (ITEMS, "item-bits", SINGLE, SETS),
    "mean": ('{kind = "interval", min = 0, max = 1}', "hybrid", SINGLE, FRACTIONS),
    "distribution": ('{kind = "interval", min = 0, max = 1}', "square-wave", SINGLE, FRACTIONS),
    "unknown strings": ('{kind = "unknown-strings", max_bytes = 2}', "prefix-search", SINGLE, ["a", "b", "zz", "c"]),
    "unknown integers": ('{kind = "unknown-integers", bits = 12}', "prefix-search", SINGLE, [80, 443, 7, 9]),
}
NAMES = {kind: kind.replace(" ", "-") for kind in KINDS}
GROUPS = '{by = "release", shares = {"1.0" = 0.5, "1.1" = 0.4}, devices = 100000, floor = 1000}'
DEVICES = 4_000
FOLDER = []
"""Where the registries lie that `metrics` wrote."""
each_kind = pytest.mark.parametrize("kind", KINDS)


def entry(kind, **more):
    domain, oracle, parameters, _ = ASKED[kind]
    about = {"domain": domain, "oracle": f'"{oracle}"', "parameters": parameters}
    return about | {"expires": "2099-01-01", "period": '"day"'} | more


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "versions.txt").write_text("1.0\n2.0\n3\n4\n")
    for grouped in (False, True):
        more = {"groups": GROUPS} if grouped else {}
        entries = {name: entry(kind, **more) for kind, name in NAMES.items()}
        (folder / f"{grouped}.toml").write_text(registry_of(entries))
    read_files = {grouped: load_registry(folder / f"{grouped}.toml") for grouped in (False, True)}
    FOLDER.append(folder)
    return {grouped: {kind: each[name] for kind, name in NAMES.items()} for grouped, each in read_files.items()}


def test_every_kind_is_here():
    """All kinds of domains, and every mechanism that is no frequency oracle (those are in `contract_cases`)."""
    assert {entry[0].partition('"')[2].partition('"')[0] for entry in KINDS.values()} == set(DOMAINS)
    assert {entry[1] for entry in KINDS.values()} >= BUILDERS.keys() - REGISTRY.keys()


@pytest.mark.parametrize(("family", "parameter"), [("symbols", "domain_size"), ("strings", "hash_key")])
def test_an_oracle_is_in_the_family_whose_parameter_it_takes(family, parameter):
    """The families list names, so that a device imports the oracles that it uses and no others."""
    taking = {name for name, build in REGISTRY.items() if parameter in inspect.signature(build).parameters}
    assert set(FAMILIES[family]) == taking


@each_kind
def test_a_group_is_in_the_metrics_digest_and_changes_no_report(metrics, kind):
    plain, grouped = (metrics[which][kind] for which in (False, True))
    assert plain.digest != grouped.digest
    assert plain.mechanism.digest == grouped.mechanism.digest
    assert plain.counts_digest == grouped.counts_digest


def test_digests_are_those_of_the_version_that_this_was_written_with(metrics):
    """Of all kinds together: another one would lose the counts, and the consent, of what is collected already."""
    every = [metrics[grouped][kind].digest for grouped in (False, True) for kind in sorted(KINDS)]
    assert hashlib.sha256(b"".join(every)).hexdigest()[:32] == DIGEST


DIGEST = "ca2131611f84ac9962ffb407345679fc"


@each_kind
def test_a_device_answers_once_a_period_by_one_permanent_response(metrics, kind, tmp_path):
    """With the client itself, whose clock moves on a day; a device that a search or a table passes over says so."""
    metric, value = metrics[False][kind], KINDS[kind][3][0]
    now = [20_778.5 * DAY]
    settings = {"state": tmp_path, "server": "http://127.0.0.1:9", "environ": {}, "clock": lambda: now[0]}
    with Client("kinds", registry=FOLDER[-1] / "False.toml", policy=tmp_path / "none.json", **settings) as client:
        client.consent("on")
        first, again = client.record(metric.id, value), client.record(metric.id, value)
        now[0] += DAY
        later = client.record(metric.id, value)
    assert (first, again) == (Outcome.RECORDED, Outcome.ALREADY)
    assert later is (Outcome.ALREADY if metric.reading == "search" else Outcome.RECORDED)


def held_by(devices, seed):
    return np.random.default_rng(seed).choice(4, devices, p=[0.5, 0.3, 0.15, 0.05])


def sent(metric, kind, seed=1):
    values = [metric.encode(value) for value in KINDS[kind][3]]
    held = held_by(DEVICES, seed)
    return SimulatedDevices.holding(metric.mechanism, values, held, np.random.default_rng(seed)).report(), held


def counted(metric, batch):
    labels = metric.domain.encodings(metric.labels) if metric.mechanism.counted_by_value else None
    return count_reports(metric.mechanism, batch, labels)


@each_kind
def test_counts_of_groups_add_up_in_any_order(metrics, kind):
    metric = metrics[True][kind]
    batch, _ = sent(metric, kind)
    order = np.random.default_rng(2).permutation(len(batch))
    parts = [rows_of(batch, order[:1_500]), rows_of(batch, order[1_500:])]
    whole = counted(metric, batch)
    for one, other in (parts, reversed(parts)):
        both = counted(metric, one) + counted(metric, other)
        assert np.array_equal(both.ones, whole.ones)
        assert np.array_equal(both.totals, whole.totals)


def rows_of(batch, rows):
    return ReportBatch(batch.cohorts[rows], batch.bits[rows], batch.num_bits, batch.num_cohorts)


@each_kind
def test_a_mechanism_travels(metrics, kind):
    metric = metrics[False][kind]
    built, value = metric.mechanism, metric.encode(KINDS[kind][3][0])
    again = any_mechanism(KINDS[kind][1], **built.parameters)
    for other in (pickle.loads(pickle.dumps(built)), copy.deepcopy(built), again):
        assert other == built
        assert other.digest == built.digest
        assert other.responder(bytes(16), "m", 0)(value) == built.responder(bytes(16), "m", 0)(value)


def departures(metric, kind, group, shift=0.0, of=None):
    batch, held = of or sent(metric, kind, seed=3)
    (part,) = read(PeriodCounts(metric, 1, 1, {1: counted(metric, batch)}, group=group)).to_json()["readings"]
    values = ASKED[kind][3]
    if "tables" in part:
        tables, pairs = part["tables"], []
        for table in tables:
            places = [metric.domain.names.index(name) for name in table["variables"]]
            for cell in table["cells"]:
                of = [tuple(value[place] for place in places) == (cell["row"], cell["column"]) for value in values]
                pairs.append((cell["share"], cell["standard_error"], np.mean(np.array(of)[held])))
    elif metric.reading in {"shares", "items"}:
        is_set, rows = metric.reading == "items", part["estimates"]
        pairs = [
            (row["frequency"], row["standard_error"] / DEVICES, np.mean(np.array(
                [row["value"] in value if is_set else metric.domain.label(metric.encode(value)) == row["value"]
                 for value in values])[held]))
            for row in rows
        ]  # fmt: skip
    elif metric.reading in {"mean", "distribution"}:
        row = part["estimates"][0]
        pairs = [(row["value"], row["standard_error"], np.mean(np.array(values)[held]))]
    else:
        shares = [row for row in part["estimates"] if row["kind"] == "share"]
        encoded = np.array([metric.encode(value) for value in values])[held]
        pairs = [(row["value"], row["standard_error"], np.mean(encoded == n)) for n, row in enumerate(shares)]
    return [(estimate - truth - shift) / error for estimate, error, truth in pairs]


READ = [kind for kind in KINDS if not kind.startswith("unknown")]
"""A search reads answers, not counts: `test_search_laws` and the tests of a live search have its recall."""


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("kind", READ)
def test_estimates_are_within_five_standard_errors(metrics, kind, grouped):
    """Of about 150 estimates, chance takes one beyond five once in 10,000 runs; the seed is fixed."""
    found = departures(metrics[grouped][kind], kind, "1.0" if grouped else None)
    assert len(found) >= 1
    assert max(map(abs, found)) < 5


@pytest.mark.parametrize("kind", READ)
def test_a_wrong_estimate_is_noticed(metrics, kind):
    """Estimates a third too large, in the unit of the values."""
    assert max(map(abs, departures(metrics[False][kind], kind, None, shift=0.33))) > 5


PARTS = {"total": [(1, 2)], "per-period": [(1, 1), (2, 2)], "cumulative": [(1, 1), (1, 2)]}


@pytest.mark.parametrize("aggregation", PARTS)
@pytest.mark.parametrize("kind", READ)
def test_json_file_text_and_picture_have_the_same_parts(metrics, kind, aggregation):
    metric = metrics[False][kind]
    counts = counted(metric, sent(metric, kind)[0])
    reading = read(PeriodCounts(metric, 1, 2, {1: counts, 2: counts}), aggregation)
    ends = [tuple(map(metric.period.label, part)) for part in PARTS[aggregation]]
    assert [(part["from"], part["to"]) for part in reading.to_json()["readings"]] == ends
    rows = list(csv.DictReader(reading.csv_lines()))
    assert list(dict.fromkeys((row["from"], row["to"]) for row in rows)) == ends
    assert len(rows) % len(ends) == 0
    pictures = reading.pictures()
    assert len(pictures) >= 1
    assert len({picture.name for picture in pictures}) == len(pictures)
    assert pa.table(reading).num_rows == len(rows)
    assert reading._repr_html_().count("<img ") == len(pictures)  # as a notebook shows it
    text = as_text(reading.blocks(written="every.csv"))
    assert f"{2 * counts.num_reports:,} reports of {metric.id} in 2 periods between {ends[0][0]} and" in text
    assert f"every {reading.every}: every.csv\n" in text


@pytest.mark.parametrize("kind", READ)
def test_no_reports_are_said_and_not_estimated(metrics, kind):
    metric = metrics[False][kind]
    nothing = PeriodCounts(metric, 1, 2, {})
    reading = read(nothing)
    assert (reading.to_json()["readings"], reading.pictures()) == ([], [])
    assert as_text(reading.blocks()).startswith(f"no reports of {metric.id} between")
    with pytest.raises(ParameterError, match="reading = 'weekly': choose one of total, per-period, cumulative"):
        read(nothing, "weekly")  # type: ignore[arg-type]


# --- in a panel: devices that are asked seldom, with noise of their own each time ------------------------------------
EPSILONS = {"epsilon": 2.0, "epsilon_permanent": 2.0, "epsilon_report": 1.0, "window": 2}
ROUNDS = {"f": 0.3, "p": 0.1, "q": 0.9}
LETTERS = '{kind = "categories", names = ["a", "b", "c"], other = "d"}'


def oracle_entry(name, of):
    taken = inspect.signature(REGISTRY[name]).parameters
    rounds = ROUNDS if "f" in taken and taken["f"].default is not None else {"f": 0.3}
    given = ", ".join(f"{key} = {value}" for key, value in (EPSILONS | rounds).items() if key in taken)
    if of == "symbols":
        return LETTERS, name, f"{{{given}}}", [*"abcd"]
    given = f"{FILTER.partition(', f')[0]}, {given}" if "num_bits" in taken else given
    return KINDS["strings"][0], name, f"{{{given}}}", KINDS["strings"][3]


ORACLES = {f"{name} of {of}": oracle_entry(name, of) for of in ("symbols", "strings") for name in FAMILIES[of]}
ASKED = KINDS | ORACLES
MONTH = 32  # days of a cycle
each_asked = pytest.mark.parametrize("kind", ASKED)


@pytest.fixture(scope="module")
def panels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("panels")
    (folder / "versions.txt").write_text("1.0\n2.0\n3\n4\n")
    own = {"groups": GROUPS, "panel": '{cycle = "month"}'}
    entries = {kind.replace(" ", "-"): entry(kind, **own) for kind in ASKED}
    (folder / "panels.toml").write_text(registry_of(entries))
    FOLDER.append(folder)
    registry = load_registry(folder / "panels.toml")
    return {kind: registry[kind.replace(" ", "-")] for kind in ASKED}


@each_asked
def test_what_is_published_is_read_again(panels, kind):
    """With groups and a panel, and without; counts stay when a panel comes."""
    whole = panels[kind]
    for metric in (whole, replace(whole, panel=None), replace(whole, groups=None, panel=None)):
        again = metric_from_json(json.loads(json.dumps(metric.to_json())))
        assert again.to_json() == metric.to_json()
        assert (again.digest, again.mechanism.digest) == (metric.digest, metric.mechanism.digest)
        assert (again.panel, again.counts_digest) == (metric.panel, whole.counts_digest)


def test_a_device_is_asked_once_a_cycle_and_only_then_sends(panels, tmp_path):
    """With the client itself, of all kinds at once, for two cycles: every upload is a report that the metric has."""
    now = [20_778.5 * DAY]
    settings = {"state": tmp_path, "server": "http://127.0.0.1:9", "environ": {}, "clock": lambda: now[0]}
    days = {kind: [] for kind in ASKED}
    with Client("kinds", registry=FOLDER[-1] / "panels.toml", policy=tmp_path / "none.json", **settings) as client:
        client.consent("on")
        for day in range(2 * MONTH):
            for kind, metric in panels.items():
                outcome = client.record(metric.id, ASKED[kind][3][day % 4])
                assert outcome in {Outcome.RECORDED, Outcome.UNASKED}
                days[kind] += [day] * (outcome is Outcome.RECORDED)
            client.flush()
            now[0] += DAY
        with State(client.paths).snapshot() as rows:
            bodies = {kind: [row.body for row in rows.outbox.rows(metric.id)] for kind, metric in panels.items()}
            assert all(response.permanent is None for response in rows.responses())
    for kind, metric in panels.items():
        first, second = days[kind]
        assert second == first + MONTH
        assert len(bodies[kind]) == 2
        for body in bodies[kind]:
            (upload,) = decode_uploads(body, 1)
            batch = decode_batch(upload.reports)
            assert (batch.digest, upload.group) == (metric.mechanism.digest, "other")
            assert all(metric.mechanism.valid(report.bits) for report in batch)
    assert len({places[0] for places in days.values()}) > len(days) // 4, "each has a place of its own"


def answers(metric, values, period, salt=b""):
    found = []
    for number, value in enumerate(values):
        key = hashlib.blake2b(salt + number.to_bytes(4, "big")).digest()[:32]
        body = MetricRecorder(metric, key, "1.0", asks=lambda _: True).make(value, period).body
        (upload,) = decode_uploads(body, 1)
        found += [*decode_batch(upload.reports)]
    return found


def batch_of(metric, reports):
    return ReportBatch.from_wire(decode_batch(encode_reports(metric.mechanism, reports)))


@each_asked
def test_answers_of_a_panel_decode_to_what_devices_hold(panels, kind):
    """Of about 150 estimates, chance takes one beyond five standard errors once in 10,000 runs; the keys are fixed."""
    metric, held = panels[kind], held_by(DEVICES, seed=3)
    batch = batch_of(metric, answers(metric, [ASKED[kind][3][which] for which in held], period=20_778))
    if metric.reading == "search":
        plan = metric.mechanism.plan
        asked = [SearchSupport(metric.mechanism).reports_of(batch, group) for group in range(len(plan.questions))]
        often = {value.encode() if isinstance(value, str) else value for value in ASKED[kind][3][:2]}
        assert often <= {*find(plan, asked).found()}
    else:
        assert max(map(abs, departures(metric, kind, "1.0", of=(batch, held)))) < 5


def likeness(metric, value):
    """Return how alike the answers of two cycles are: the correlation of their likelihoods, and equal cohorts.

    Both are in standard deviations from what independent answers have.
    """
    built, encoded = metric.mechanism, metric.encode(value)
    cycles = [answers(metric, [value] * ALIKE, period) for period in (20_778, 20_778 + MONTH)]
    likely = [[math.log(built.likelihood(report, encoded)) for report in reports] for reports in cycles]
    equal = sum(one.cohort == other.cohort for one, other in zip(*cycles, strict=True))
    expected = ALIKE / built.num_cohorts
    spread = math.sqrt(expected * (1 - 1 / built.num_cohorts)) or 1.0
    return float(np.corrcoef(likely)[0, 1]) * math.sqrt(ALIKE), (equal - expected) / max(spread, 1.0)


ALIKE = 1_000
"""Devices whose answers of two cycles are compared."""


@each_asked
def test_answers_of_two_cycles_have_noise_of_their_own(panels, kind):
    assert max(map(abs, likeness(panels[kind], ASKED[kind][3][0]))) < 5


@pytest.mark.parametrize("kind", ["grr of symbols", "l-osue of symbols", "rappor of strings", "set by items"])
def test_noise_that_is_drawn_once_for_two_cycles_is_noticed(panels, kind, monkeypatch):
    """Broken on purpose: the key that the metric would have without a panel."""
    monkeypatch.setattr(session, "key_of_answer", lambda key, _: key)
    noise, cohorts = likeness(panels[kind], ASKED[kind][3][0])
    assert noise > 5
    assert cohorts > 5 or panels[kind].mechanism.num_cohorts == 1
