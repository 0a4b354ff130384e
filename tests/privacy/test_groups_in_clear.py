"""What people and reviewers read of a metric's groups: they are sent in clear, and nothing protects them."""

import datetime as dt
import math

import pytest

from overstory.client.consent.consent import Agreement
from overstory.planning.registry import plan_registry
from overstory.privacy.registry.page import metric_page
from overstory.privacy.registry.warnings import registry_notes, registry_warnings
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.groups import Groups
from support.registry_texts import plain_registry, registry_text

RELEASES = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'


def registry(groups=None, **keys):
    return parse_registry(plain_registry("m", **({} if groups is None else {"groups": groups}), **keys))


def test_the_page_says_what_is_sent_in_clear():
    facts = dict(metric_page(registry(RELEASES)["m"]).facts)
    assert facts["What is sent in clear"] == (
        "release, one of 1.0, 1.1, other: the group that the device is in. No noise protects it: epsilon protects the "
        "value alone. By public shares, each group has at least 1,000 devices"
    )
    assert "What is sent in clear" not in dict(metric_page(registry()["m"]).facts)


def test_a_person_is_asked_again_where_the_groups_are_others():
    agreed = Agreement.to(registry(RELEASES)["m"])
    assert list(agreed.changes(registry(RELEASES)["m"])) == []
    assert list(agreed.changes(registry(RELEASES.replace("0.6", "0.5"))["m"])) == [], "figures are not sent"
    for other in (None, RELEASES.replace('"1.1"', '"1.2"'), RELEASES.replace("release", "country")):
        (reason,) = agreed.changes(registry(other)["m"])
        assert "is not what was shown" in reason


@pytest.mark.parametrize("window", [True, False])
def test_a_plan_counts_the_rarest_group_among_what_links_reports(window):
    """A second audit: "nothing stays the same from report to report", though each names its group."""
    needs = "needs = {epsilon_window = 2.0, window = 4, reports = 10000}"
    needs = needs if window else "needs = {epsilon_report = 1.0, reports = 10000}"
    text = registry_text(f"groups = {RELEASES}", needs).replace('oracle = "grr"\nparameters = {epsilon = 1.0}\n', "")
    (planned,) = plan_registry(text, None)[1]
    words = planned.metric_words()
    assert "nothing stays the same" not in words
    said = "in the group other (10% of all devices, whatever their value), the same in every report: 3.4 bits; of a mil"
    assert said in words
    assert planned.linkable.always.bits == pytest.approx(math.log2(10))


def test_a_group_of_which_nobody_is_said_to_be_is_at_least_one_device():
    groups = Groups("release", {"1.0": 0.75, "1.1": 0.25}, devices=4000)
    assert groups.with_share() == ("1.1", 0.25)
    assert groups.with_share("other") == ("other", 1 / 4000)


def warned(groups, **keys):
    text = plain_registry("m", groups=groups, **keys)
    return [fault.message for fault in registry_warnings(parse_registry(text), text, dt.date(2026, 11, 23))]


def test_lint_warns_of_a_low_floor_and_of_shares_that_leave_nothing():
    assert not any("floor" in message or "shares" in message for message in warned(RELEASES))
    assert any("floor = 50: the group is sent in clear" in m for m in warned(RELEASES.replace("0}", "0, floor = 50}")))
    assert any("the shares leave no device for 'other'" in m for m in warned(RELEASES.replace("0.3", "0.4")))


def test_lint_warns_where_few_counts_of_a_group_stay_past_retention():
    few = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 20000}'
    hashed = {"oracle": '"olh"', "parameters": "{epsilon = 1.0, num_seeds = 256}"}
    (said,) = (message for message in warned(few, **hashed) if "counts stay only" in message)
    assert "the rarest group has about 7.8 in a period for each of 256 cohorts or seeds" in said
    assert not any("counts stay only" in message for message in (*warned(RELEASES, **hashed), *warned(few)))


def test_lint_notes_the_rarest_group():
    notes = list(registry_notes(registry(RELEASES)))
    said = "m: reports name the device's release in clear, and no epsilon protects it; the rarest group, other, has"
    assert notes == [f"{said} 50,000 of 500,000 devices"]


def linked(sizes, devices, reports, rng):
    """Return the share of devices whose reports of several metrics somebody joins by the group alone."""
    groups = rng.choice(len(sizes), size=devices, p=sizes)
    return sum((groups == group).sum() == 1 for group in groups) / devices if reports > 1 else 0.0


def test_what_lint_refuses_is_what_would_join_a_devices_reports():
    """The attack: whoever sees all uploads of a period joins those of two metrics that name the same rare group."""
    import numpy as np

    rng, devices = np.random.default_rng(20261123), 20_000
    rare = [0.5, *[0.5 / 10_000] * 10_000]  # half the devices in groups of one or two: build numbers, say
    assert linked(rare, devices, 2, rng) > 0.1
    assert linked([0.5, 0.4, 0.1], devices, 2, rng) == 0.0
    shares = ", ".join(f'"b{number}" = {0.5 / 100}' for number in range(100))
    from overstory.protocol.metrics import RegistryError

    with pytest.raises(RegistryError, match=r"'b0' has 100 of 20,000 devices, fewer than the floor of 1,000"):
        registry(f'{{by = "build", shares = {{{shares}}}, devices = 20000}}')
