"""What estimates know of a panel: how many reports a device sends, how many devices there are, what intervals hold."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from overstory.analysis.alarms.alarm import Comparison, find_changes
from overstory.analysis.reports import SupportCounts
from overstory.privacy.registry.changes import compare_registries
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.metric_table import metric_from_json
from overstory.protocol.metrics.panel import Panel, Places
from overstory.protocol.metrics.period import Period
from overstory.queries.counts import ActiveDevices, PeriodCounts
from overstory.queries.readings import EstimateOptions, read
from support.devices import ENTRY, HEAD

WEEK = Period.parse("week")
FIRST = 3_024
TREE = 'domain = {kind = "categories", names = ["oak", "ash"]}\noracle = "%s"\nparameters = {epsilon = 1.0}\n'


def metric(panel='panel = {cycle = "year"}\n', oracle="grr", rest="", period="week"):
    table = (TREE % oracle) + f'period = "{period}"\n' + rest
    return parse_registry(
        HEAD.format(version="1") + panel + ENTRY.format(name="tree", rest=table, expires="2099-01-01")
    )["tree"]


def weeks(of, numbers, reports=500):
    held = {week: SupportCounts([reports], [[200 + week % 7, reports - 200 - week % 7]]) for week in numbers}
    return PeriodCounts(of, min(numbers), max(numbers), held)


@pytest.mark.parametrize(("cycle", "answers"), [("month", 1), ("month", 2), ("quarter", 2)])
@pytest.mark.parametrize("numbers", [range(5), range(13), range(20), (3, 4, 10, 17, 24), ()])
def test_a_device_sends_no_more_reports_than_are_assumed_and_some_device_as_many(cycle, answers, numbers):
    panel = Panel(cycle, answers)
    length = panel.periods(WEEK)
    everywhere = product(range(length), repeat=answers)  # the places that a device may have
    most = max(sum(number % length in places for number in numbers) for places in everywhere)
    assert panel.most_reports(WEEK, numbers) == most


def test_the_share_that_is_asked_for_one_of_several_metrics_is_that_of_devices():
    rest = (TREE % "grr") + 'period = "week"\n'
    shares, ends = {"one": 1, "two": 3, "gone": 2}, {"gone": "2027-06-01"}
    entries = (
        ENTRY.format(name=name, rest=f"{rest}panel = {{share = {share}}}\n", expires=ends.get(name, "2099-01-01"))
        for name, share in shares.items()
    )
    of = parse_registry(HEAD.format(version="1") + 'panel = {cycle = "month", answers = 2}\n' + "".join(entries))
    devices = [Places(number.to_bytes(32, "big"), of) for number in range(4_000)]
    before, after = WEEK.parse_label("2027-W20"), WEEK.parse_label("2027-W30")
    for name, week, part in (
        ("two", before, Fraction(3, 6)),
        ("two", after, Fraction(3, 4)),
        ("gone", before, Fraction(1, 3)),
    ):
        assert of[name].panel.part_of_questions(WEEK.start(week)) == part
        asked = of[name].panel.share_asked(WEEK, part)
        assert asked == 1 - (1 - part / 6) ** 2
        found = sum(device.asks(of[name], week) for device in devices)
        assert 1e-6 < binom.cdf(found, 4_000, float(asked)) < 1 - 1e-6
        assert metric_from_json(of[name].to_json()).panel.part_of_questions(WEEK.start(week)) == part
    one = parse_registry(of.text.partition("[metrics.two]")[0])
    assert not [change for change in compare_registries(one, of) if change.what == "panel"]
    own = metric('panel = {cycle = "month"}\n', rest='panel = {cycle = "year", answers = 1}\n')
    assert (own.panel.part_of_questions(WEEK.start(before)), own.panel.share_asked(WEEK)) == (1, Fraction(1, 54))


@pytest.mark.parametrize(("devices", "most"), [(300, 0.98), (5_000, 0.965), (200_000, 0.965)])
@pytest.mark.parametrize("asked", [[1 / 54], [1 / 54, 1 / 54, 1 / 108], [0.9]])
def test_the_interval_of_the_number_of_devices_covers(devices, most, asked):
    """Exact, over all numbers of reports; of few devices an interval of whole numbers cannot have any coverage."""
    law = np.array([1.0])
    for share in asked:
        law = np.convolve(law, binom.pmf(np.arange(min(devices, int(1.3 * devices * share) + 60) + 1), devices, share))
    told = {int(reports): ActiveDevices.of(int(reports), asked) for reports in np.flatnonzero(law > 1e-12)}
    covered = sum(law[reports] for reports, each in told.items() if each.low <= devices <= each.high)
    assert 0.935 <= covered <= most
    mean = sum(law[reports] * each.estimate for reports, each in told.items())
    assert mean == pytest.approx(devices, rel=1e-3)


def test_a_total_of_one_cycle_takes_its_reports_for_those_of_different_devices():
    panel, always = (read(weeks(metric(text), range(FIRST, FIRST + 54))) for text in ('panel = {cycle = "year"}\n', ""))
    assert (panel.interval_kind, always.interval_kind) == ("population", "reports")
    (one,), (many,) = panel.parts, always.parts
    assert (one.reports_per_device, many.reports_per_device) == (1.0, 54.0)
    estimate, share = one.estimate, one.estimate.raw_frequencies
    alone = estimate.standard_errors**2 + estimate.num_reports * share * (1 - share)
    assert np.allclose(estimate.errors() ** 2, alone)
    assert not panel.notes
    assert "note: standard errors assume 54" in " ".join(f"note: {note}" for note in always.all_notes())


def test_a_second_cycle_may_have_the_same_devices():
    two = weeks(metric(), range(FIRST, FIRST + 60))
    assert read(two).parts[0].reports_per_device == 2.0
    assert "standard errors assume 2 reports per device" in read(two).notes[0]
    with pytest.raises(ParameterError, match="a device of the panel sends at most 2 in them"):
        read(two, "total", EstimateOptions(reports_per_device=3.0))


@pytest.mark.parametrize("oracle", ["grr", "oue"])
def test_errors_of_its_periods_are_said_to_be_of_one_device_only_where_they_are(oracle):
    for words, said in (('panel = {cycle = "year"}\n', False), ("", True)):
        notes = read(weeks(metric(words, oracle), range(FIRST, FIRST + 5)), "per-period").notes
        assert any("keeps its permanent responses" in note for note in notes) is said


def test_what_it_costs_is_said_of_a_year_and_not_of_one_value():
    sentences = read(weeks(metric(), [FIRST])).sentences()
    assert "privacy: grr, epsilon 1 for one report; in any year a device sends at most 1" in sentences
    assert read(weeks(metric(), [FIRST])).to_json()["epsilon_permanent"] is None


def test_the_panel_and_the_number_of_devices_are_facts_of_a_reading():
    reading = read(weeks(metric(), [FIRST, FIRST + 1]), "per-period")
    (line,) = (line for line in reading.sentences() if "devices is asked" in line)
    assert line == (
        "panel: each week 1 of 54 devices is asked; if all reports are in, about 27,000 were active in a week "
        "(95% interval 25,392 to 28,710)"
    )
    told = reading.to_json()
    assert told["devices"] == {"estimate": 27_000, "low": 25_392, "high": 28_710, "share_asked": 1 / 54}
    assert [part["devices"]["estimate"] for part in told["readings"]] == [27_000, 27_000]
    assert "devices" not in read(weeks(metric(""), [FIRST])).to_json()
    assert "about 13,500 of eu were" in replace(weeks(metric(), [FIRST], 250), group="eu").panel_sentences()[0]


@pytest.mark.parametrize("words", ['panel = {cycle = "year"}\n', ""])
def test_pooled_periods_are_the_total_of_as_many(words):
    of, numbers = metric(words), [FIRST, FIRST + 1, FIRST + 2, FIRST + 5, FIRST + 6]
    counted = weeks(of, numbers)
    pooled = read(counted, "per-period", EstimateOptions(pool=3))
    assert [part.last for part in pooled.parts] == numbers
    for part in pooled.parts:
        own = [number for number in numbers if part.last - 3 < number <= part.last]
        (whole,) = read(weeks(of, own), "total", EstimateOptions(interval_kind="population")).parts
        assert (part.first, part.reports_per_device) == (own[0], whole.reports_per_device)
        assert part.estimate.rows() == whole.estimate.rows()
    assert "estimated each period together with the 2 before it" in pooled.sentences()[0]
    with pytest.raises(ParameterError, match="pool = 0"):
        read(counted, "per-period", EstimateOptions(pool=0))
    assert read(counted, "per-period", EstimateOptions(pool=1)).to_json() == read(counted, "per-period").to_json()


def test_a_drift_of_periods_without_common_devices_has_the_error_of_independent_ones():
    of = metric()
    parts = [part.estimate for part in read(weeks(of, range(FIRST, FIRST + 26)), "per-period").parts]
    comparison = Comparison("tree", "2028-W24", parts[13:], parts[:13])
    errors = {}
    for apart in (False, True):
        changes = find_changes([replace(comparison, apart=apart)], alpha=0.999, least=False)
        errors[apart] = changes[0].standard_error
    variance = np.mean([(estimate.errors() / estimate.num_reports)[0] ** 2 for estimate in parts])
    assert errors[True] ** 2 == pytest.approx(2 / 13 * variance, rel=1e-3)
    assert errors[False] ** 2 == pytest.approx(0.7685 * variance, rel=1e-3)


@pytest.mark.parametrize(("devices", "period"), [(100, "week"), (500, "day"), (1_000, "day")])
def test_periods_in_which_nobody_answered_count_for_the_number_of_devices(devices, period):
    """Left out, a year of 500 devices that are asked on a day would show 670."""
    of = metric(period=period)
    places = of.panel.periods(of.period)
    came = np.bincount(np.random.default_rng(devices).integers(0, places, devices), minlength=places)
    held = {FIRST + place: SupportCounts([number], [[number, 0]]) for place, number in enumerate(came) if number}
    counted = PeriodCounts(of, FIRST, FIRST + places - 1, held)
    active = counted.devices()
    assert len(held) < places
    assert abs(active.estimate - devices) <= 0.02 * devices
    assert active.low <= devices <= active.high
    empty = next(place for place in range(1, places) if not came[place]) + FIRST
    assert counted.devices(empty, empty).estimate == 0
    assert counted.devices(FIRST + places, FIRST + places + 5) is None
