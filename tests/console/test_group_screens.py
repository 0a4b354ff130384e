"""Groups in the console: a choice on the pages over time and of a period, and a table of all groups."""

import json
import re
from html import unescape

import numpy as np
import pytest

from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.store import open_store
from overstory.console.data import ConsoleData
from overstory.protocol.metrics import parse_registry
from support.console_in_process import analyst_of
from support.decoding import shared_estimates
from support.devices import Clock
from support.registry_texts import COLOURS, registry_of
from support.running import within
from support.store_samples import received_batch

NOW = 1_795_262_400.0
WEEK = "2026-W47"
GROUPS = '{by = "release", shares = {"1.0" = 0.6, "1.1+build 2" = 0.4}, devices = 500000}'
TEXT = registry_of(
    {"colour": {"groups": GROUPS}, "plain": {}}, domain=COLOURS, period='"week"', title='"Colour"', expires="2040-01-01"
)
HELD = {"1.0": [0.7, 0.2, 0.1], "1.1+build 2": [0.1, 0.2, 0.7], "other": [0.2, 0.2, 0.6]}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    (folder / "metrics.toml").write_text(TEXT)
    registry = parse_registry(TEXT)
    metric, batches = registry["colour"], []
    for week in (2967, 2968):
        for seed, (group, shares) in enumerate(HELD.items()):
            held = np.repeat(np.arange(3), (np.array(shares) * 2000).astype(int))
            sent = FrequencyOracle(metric.mechanism).simulate(held, np.random.default_rng([week, seed]))
            batches.append(received_batch(metric, week, sent)._replace(group=group))
    with open_store(str(folder / "store.db"), registry, create=True) as store:
        store.add(batches)
        yield analyst_of(ConsoleData(registry, store, Clock(NOW), shared_estimates(60))), folder


def page(served, address, status=200):
    answer = served[0].get(address)
    assert answer.status_code == status
    return str(answer.text)


def test_the_period_has_a_table_of_its_groups(served):
    html = page(served, f"/m/colour/{WEEK}")
    section = html[html.index('id="groups"') :]
    body = section[section.index("<tbody") : section.index("</tbody")]
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in body.split("<tr")[1:]]
    cells = [[unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in rows]
    assert [row[:3] for row in cells] == [["1.0", "300,000", "2,000"], ["1.1+build 2", "200,000", "2,000"]]
    assert "By release" in html
    assert "no noise protects it" in html
    assert "other" not in [row[0] for row in cells], "by public shares nobody is in other"
    for row, group in zip(cells, ("1.0", "1.1+build 2"), strict=True):
        shares = [float(cell.split("%")[0]) / 100 for cell in row[3:]]
        assert sorted(shares) == pytest.approx(sorted(HELD[group]), abs=0.2)


@pytest.mark.parametrize("address", [f"/m/colour/{WEEK}", "/m/colour"])
def test_a_group_is_chosen_and_its_numbers_are_those_of_decode(served, address):
    html = page(served, f"{address}?group=1.1%2Bbuild+2")
    assert ", release 1.1+build 2" in unescape(html)
    assert 'id="groups"' not in html, "the table is of all devices"
    given = ["--store", "store.db", "--registry", "metrics.toml", "--metric", "colour", "--from", WEEK, "--json"]
    ran = within("decode", *given, "--group", "1.1+build 2", "--interval", "population", cwd=served[1])
    expected = {row["value"]: row["count"] for row in json.loads(ran.stdout)["readings"][0]["estimates"]}
    rows = json.loads(page(served, f"{address}.json?group=1.1%2Bbuild+2"))
    listed = next(part for part in rows.values() if isinstance(part, list) and part and "value" in part[0])
    newest = {row["value"]: row["count"] for row in listed if row["to"] == WEEK}
    assert newest == pytest.approx(expected)


def test_the_link_of_a_group_leads_to_its_page(served):
    html = page(served, f"/m/colour/{WEEK}")
    links = [unescape(link) for link in re.findall(r'href="([^"]*[?]group=[^"]*)"', html)]
    assert links == [f"/m/colour/{WEEK}?group=1.0", f"/m/colour/{WEEK}?group=1.1%2Bbuild%202"]
    for link, group in zip(links, ("1.0", "1.1+build 2"), strict=True):
        assert f"Colour, week of 16 November, release {group}: " in unescape(page(served, link))


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("/m/colour?group=2", "there is no group '2'"),
        (f"/m/colour/{WEEK}?group=other", "fewer than the floor of 1,000: its results are hidden"),
        ("/m/plain?group=1.0", "plain has no groups"),
        ("/m/colour?group=%3Cscript%3E", "there is no group '<script>'"),
    ],
)
def test_a_group_that_cannot_be_shown_is_one_sentence(served, address, says):
    html = page(served, address, 400)
    assert says in unescape(html)
    assert "<script>" not in html.partition("</head>")[2]


def test_a_metric_without_groups_has_no_choice(served):
    assert 'name="group"' not in page(served, "/m/plain")
    assert 'name="group"' in page(served, "/m/colour")
