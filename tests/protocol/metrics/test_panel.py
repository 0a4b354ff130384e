"""Panels: who is asked, for what and when, follows from a key alone, evenly, and moves no more than it must."""

import itertools
import os
from collections import Counter
from fractions import Fraction

import pytest

from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.metric_table import metric_from_json
from overstory.protocol.metrics.panel import CYCLES, Panel, Places
from overstory.protocol.metrics.period import Period
from overstory.protocol.metrics.toml_fields import RegistryError
from support.devices import ENTRY, HEAD

TREE = 'domain = {kind = "categories", names = ["oak", "ash"]}\noracle = "grr"\n'
TREE += 'parameters = {epsilon = 4.0}\nperiod = "%s"\n%s'
WEEK = Period.parse("week")
KEYS = [number.to_bytes(32, "big") for number in range(6000)]


def registry(panel='panel = {cycle = "year"}\n', expires="2099-01-01", period="week", **more):
    entries = (ENTRY.format(name=name, rest=TREE % (period, own), expires=expires) for name, own in more.items())
    return parse_registry(HEAD.format(version="1") + panel + "".join(entries))


def asked(key, of, periods):
    places = Places(key, of)
    return [(name, period) for name in of for period in periods if places.asks(of[name], period)]


@pytest.mark.parametrize("words", ["minute", "30 minutes", "hour", "day", "week"])
@pytest.mark.parametrize("cycle", CYCLES)
def test_two_answers_at_one_place_are_never_nearer_than_a_cycle(words, cycle):
    period, panel = Period.parse(words), Panel(cycle)
    later = panel.periods(period)
    first_ends, second_starts = period.start(1), period.start(later)
    assert 0 <= second_starts - first_ends - panel.seconds < period.seconds  # and no period is wasted


def test_a_device_is_asked_once_in_each_cycle_at_one_place():
    of = registry(one="", two="", three="")
    for key in KEYS[:50]:
        found = asked(key, of, range(3000, 3000 + 3 * 54))
        assert len(found) == 3
        assert len({name for name, _ in found}) == 1
        assert {later - earlier for (_, earlier), (_, later) in itertools.pairwise(found)} == {54}


def test_a_device_whose_question_ends_answers_the_next_one_at_its_place():
    """So a state that was restored from before an answer gives no second one within a year when its metric ends."""
    of, left = registry(one="", two=""), registry(two="")
    for key in KEYS[:50]:
        before, after = (asked(key, metrics, range(3000, 3054)) for metrics in (of, left))
        assert [period for _, period in before] == [period for _, period in after]


def test_places_and_questions_are_drawn_evenly():
    of = registry(one="", two="panel = {share = 3}\n")
    found = [answer for key in KEYS for answer in asked(key, of, range(3000, 3054))]
    assert len(found) == len(KEYS)
    by_name, by_place = (Counter(part) for part in zip(*found, strict=True))
    assert abs(by_name["two"] - 4500) < 5 * (6000 * 0.75 * 0.25) ** 0.5
    expected = len(KEYS) / 54
    chi_squared = sum((by_place[place] - expected) ** 2 / expected for place in range(3000, 3054))
    assert chi_squared < 53 + 5 * (2 * 53) ** 0.5


def test_a_metric_that_comes_or_goes_moves_only_the_devices_that_it_must():
    two, three = registry(one="", two=""), registry(one="", two="", three="")
    moved = Counter()
    for key in KEYS[:2000]:
        (before,), (after,) = (asked(key, of, range(3000, 3054)) for of in (two, three))
        assert after == before or after[0] == "three"
        moved[after[0] == "three"] += 1
    assert abs(moved[True] - 2000 / 3) < 5 * (2000 * 2 / 9) ** 0.5


def test_an_ended_metric_leaves_its_devices_to_the_others():
    ends = ENTRY.format(name="over", rest=TREE % ("week", ""), expires="2020-01-01")
    stays = ENTRY.format(name="stays", rest=TREE % ("week", ""), expires="2099-01-01")
    of = parse_registry(HEAD.format(version="1") + 'panel = {cycle = "year"}\n' + ends + stays)
    assert all(asked(key, of, range(3000, 3054))[0][0] == "stays" for key in KEYS[:200])


def test_the_share_that_is_asked_is_the_one_that_is_stated():
    of = registry(one='panel = {cycle = "quarter", answers = 3}\n')
    panel = of["one"].panel
    assert panel.share_asked(WEEK) == 1 - (1 - Fraction(1, 15)) ** 3
    times = sum(bool(asked(key, of, [3000])) for key in KEYS)
    expected = len(KEYS) * float(panel.share_asked(WEEK))
    assert abs(times - expected) < 5 * expected**0.5


def test_a_metric_may_have_a_panel_of_its_own_or_none():
    of = registry(shares="", own="panel = {}\n", always='panel = "none"\n')
    assert [metric.panel for metric in of.values()] == [Panel(), Panel(own=True), None]
    assert len(asked(os.urandom(32), of, range(3000, 3054))) == 2 + 54


@pytest.mark.parametrize("own", ["", "panel = {share = 7}\n", 'panel = {cycle = "month", answers = 2}\n'])
def test_the_public_entry_says_it(own):
    metric = registry(one=own)["one"]
    assert metric_from_json(metric.to_json()) == metric
    assert metric.panel.to_json() == metric.to_json()["panel"]


def test_what_the_reports_mean_changes_with_a_panel_and_not_with_a_share():
    heads = (("", ""), ("panel = {}\n", ""), ("panel = {}\n", "panel = {share = 2}\n"))
    plain, with_panel, with_share = (registry(head, one=own)["one"] for head, own in heads)
    assert plain.digest != with_panel.digest == with_share.digest
    assert plain.account != with_panel.account
    assert plain.counts_digest == with_panel.counts_digest


@pytest.mark.parametrize(
    ("panel", "own", "said"),
    [
        ('panel = {cycle = "decade"}\n', "", "panel.cycle: 'decade': choose one of month, quarter, year"),
        ("panel = {answers = 0}\n", "", "panel.answers: 0: give a whole number from 1 to 366"),
        ("panel = {answer = 1}\n", "", "no such key"),
        ("panel = true\n", "", "True is no table"),
        ("", "panel = {share = 2}\n", "the application has no panel to have a share of"),
        ("panel = {}\n", "panel = {share = 0}\n", "give a whole number from 1 to 100"),
        ("panel = {}\n", "max_values = 2\n", "every answer of a panel has noise of its own"),
    ],
)
def test_what_cannot_be_is_said(panel, own, said):
    with pytest.raises(RegistryError) as caught:
        registry(panel, one=own)
    assert said in str(caught.value)
