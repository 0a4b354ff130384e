"""Consent withdrawn at any moment: nothing is asked of a collector after it, whoever is in the middle of what."""

import datetime as dt

import pytest

from overstory.client.consent import choose
from overstory.client.upload.http import Response
from overstory.privacy.registry.changes import compare_registries
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from support.devices import DAY, NOON, Clock, device, rows_of
from support.registry_texts import plain_registry

TODAY = dt.date(2026, 11, 21)
REGISTRY = parse_registry(
    plain_registry("meter", retention_days="3000", grace_days="3000", domain='{kind = "integers", min = 0, max = 9}')
)


def client(folder, **settings):
    return device(folder, registry=REGISTRY, choice=None, spread=0, **settings)


def states(of):
    return {(str(row.state), row.answer) for row in rows_of(of)}


def sending_while(folder, days, *choices):
    asked = []

    def transport(request):
        asked.append(request)
        for choice in choices:  # another process, between the request and its answer
            choose(sending.paths, REGISTRY, choice, TODAY)
        return Response(503)

    sending = client(folder, server="http://collector.example", transport=transport, clock=Clock(NOON + days * DAY))
    sending.consent("on")
    for day in range(days):
        recording = client(folder, clock=Clock(NOON + day * DAY))
        assert recording.record("meter", day) == "recorded"
        assert recording.flush().written == {"queued": 1}
    return sending, asked


def test_off_while_a_report_travels_keeps_the_others_from_leaving(tmp_path):
    sending, asked = sending_while(tmp_path, 5, "off")
    sending.flush()
    assert len(asked) == 1
    assert states(sending) == {("dropped", "consent withdrawn")}
    assert sending.flush().sent is None
    choose(sending.paths, REGISTRY, "on", TODAY)
    sending.flush()
    assert len(asked) == 1, "and does not come back with a later consent"


def test_off_and_on_again_in_the_middle_of_a_round_end_it(tmp_path):
    sending, asked = sending_while(tmp_path, 2, "off", "on")
    sending.flush()
    sending.flush()
    assert len(asked) == 1


# A longer grace opens periods whose batch ids are forgotten: reviewers are told
@pytest.mark.parametrize(("days", "told"), [(60, True), (10, False)])
def test_a_longer_grace_says_what_it_opens_again(days, told):
    before = parse_registry(EXAMPLE)
    after = parse_registry(EXAMPLE.rstrip() + f"\ngrace_days = {days}\n")
    (change,) = [change for change in compare_registries(before, after) if change.what == "grace_days"]
    assert ("would count twice" in change.detail) is told
