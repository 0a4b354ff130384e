"""A metric's ledger: the numbers of the commands, unbounded losses in words, and a picture that holds them."""

import html
import json
import math
import re

import pytest

from overstory.cli.main import main
from overstory.console.app import SCREENS
from overstory.console.screens.period import PeriodQuery
from overstory.console.screens.privacy import PrivacyScreen
from overstory.console.view import read_query
from overstory.presentation.charts.curves import Loss, loss_over_reports
from overstory.presentation.document import Links
from overstory.presentation.render_html import as_html
from overstory.privacy.registry.page import metric_page
from support.console_store import TEXT, WORDS

METRICS = ("theme", "start", "home")


def view(data, metric, **asked):
    query = read_query(PrivacyScreen.query, [(name, str(number)) for name, number in asked.items()])
    return PrivacyScreen().view(data, query, metric=metric)


@pytest.fixture
def registry_file(tmp_path):
    (tmp_path / "pages.txt").write_text("\n".join(WORDS) + "\n", "utf-8")
    path = tmp_path / "metrics.toml"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.mark.sampled(4)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("asked", [{}, {"reports": 7}, {"reports": 20, "values": 3}])
def test_the_numbers_are_those_of_the_commands(console_data, registry_file, capsys, metric, asked):
    shown = view(console_data, metric, **asked)
    options = [word for name, number in asked.items() for word in (f"--{name}", str(number))]
    assert main(["privacy", metric, "--registry", str(registry_file), *options, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    served = {"metric": metric, **shown.facts["privacy"]}
    assert {name: served[name] for name in printed if name in served} == {n: printed[n] for n in printed if n in served}
    rows = {row["seen"]: row["epsilon"] for row in shown.table.rows}
    assert rows["one report"] == printed["epsilon_report"]
    if "values" in asked:
        assert rows["3 distinct values in 20 reports"] == printed["epsilon_values"]
    if "reports" in asked:
        several = [
            epsilon for seen, epsilon in rows.items() if seen.startswith(f"{asked['reports']} reports, only while")
        ]
        assert several == [printed["epsilon_n"][str(asked["reports"])]]
    cost = metric_page(console_data.metric(metric), reports=asked.get("reports")).to_json()["privacy"]["cost"]
    assert shown.facts["cost"] == cost


def test_what_has_no_bound_says_so_in_words(console_data):
    shown = view(console_data, "theme")
    text = html.unescape(as_html(shown.blocks))
    unbounded = [row for row in shown.table.rows if row["epsilon"] is None]
    assert unbounded
    assert all(row["epsilon_text"] == "no bound" and row["rests_on"].startswith("No bound: ") for row in unbounded)
    assert "of the ledger have no bound" in text or "of the ledger has no bound" in text
    assert "\N{INFINITY}" not in text
    assert not re.search(r"\binf\b|\bnan\b", text)
    assert "no bound" in shown.picture.alt


def test_a_line_is_drawn_through_its_epsilons_and_cut_at_the_edge():
    numbers = [1, 10, 100]
    picture = loss_over_reports("l", "Caption", numbers, [Loss("a", [1.0, 2.0, 4.0]), Loss("b", [1.0, 100.0, 1e4])])
    x, y = (list(map(float, re.search(rf'data-{axis}="(.*?)"', picture.svg)[1].split())) for axis in "xy")

    def number(place, scale):
        low, high, start, stop = scale
        return low * (high / low) ** ((place - start) / (stop - start))

    first, second = (
        [(number(float(a), x), number(float(b), y)) for a, b in (pair.split(",") for pair in points.split())]
        for points in re.findall(r'points="(.*?)"', picture.svg)
    )
    assert [point for pair in first for point in pair] == pytest.approx([1, 1, 10, 2, 100, 4], rel=0.01)
    assert second[-1] == pytest.approx((10**1.5, 1000), rel=0.01), (
        "where a straight line through 100 and 10,000 is 1,000"
    )


def test_a_line_without_bound_is_named_and_points_up():
    picture = loss_over_reports("l", "Caption", [1, 10], [Loss("a", [1.0, math.inf])])
    assert "a: no bound" in picture.svg
    assert "no bound from 10" in picture.alt


@pytest.mark.parametrize("metric", METRICS)
def test_every_page_of_a_metric_has_the_same_row_of_links(console_data, metric):
    period = console_data.metric(metric).period
    newest = period.label(max(console_data.store.periods(metric)))
    older = period.label(min(console_data.store.periods(metric)))
    screens = {each.path: each for each in SCREENS if each.path.startswith("/m/{metric}")}
    assert len(screens) == 4
    rows = {}
    for path, screen in screens.items():
        shown = screen.view(console_data, screen.query(), metric=metric, period=newest)
        rows[path] = next(block for block in shown.blocks if isinstance(block, Links)).places
    ends = {"Over time": "", newest: f"/{newest}", "Compare": "/compare", "Privacy": "/privacy"}
    assert set(rows.values()) == {tuple((text, f"/m/{metric}{end}") for text, end in ends.items())}
    shown = screens["/m/{metric}/{period}"].view(console_data, PeriodQuery(), metric=metric, period=older)
    links = next(block for block in shown.blocks if isinstance(block, Links))
    assert (links.current, [text for text, _ in links.places][1:3]) == (older, [newest, older])
