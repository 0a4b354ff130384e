"""A metric of unknown values on a device: one answer, in the first period with a record, and never another."""

import pytest

from overstory.client import Outcome
from overstory.protocol.wire.upload import decode_batch, decode_uploads
from support.devices import Clock, device, registry, rows_of

WORDS = 'domain = {kind = "unknown-strings", max_bytes = 8}\noracle = "prefix-search"\nperiod = "day"\n'
PLAIN = WORDS + "parameters = {epsilon = 3.0}\n"


PANEL = WORDS + 'parameters = {epsilon = 3.0}\npanel = {cycle = "month"}\n'
LATER = PANEL.replace("8}", '8, known = ["oak"]}')


def answers(client, metric="word"):
    bodies = [row.body for row in rows_of(client, metric=metric)]
    return [report for body in bodies for upload in decode_uploads(body, 1) for report in decode_batch(upload.reports)]


@pytest.mark.parametrize(("value", "outcome"), [("x" * 99, Outcome.RECORDED), (None, Outcome.UNFIT)])
def test_a_value_without_a_code_and_no_value_are_answered_too(tmp_path, value, outcome):
    client = device(tmp_path, registry=registry(word=PLAIN))
    assert client.record("word", value) is outcome
    client.flush()
    (answer,) = answers(client)
    search = client.registry["word"].mechanism
    assert answer.bits < search.parts[search.place_of(answer.cohort)[0]].payload_limit


def test_a_restart_and_a_second_process_know_the_answer(tmp_path, clock):
    first = device(tmp_path, clock=clock, registry=registry(word=PLAIN))
    second = device(tmp_path, clock=clock, registry=registry(word=PLAIN))
    assert first.record("word", "oak") is Outcome.RECORDED
    clock.tomorrow()
    assert second.record("word", "elm") is Outcome.RECORDED  # neither is written yet
    assert first.flush().written == {"queued": 1}
    assert second.flush().written == {"already": 1}
    clock.tomorrow()
    third = device(tmp_path, clock=clock, registry=registry(word=PLAIN))
    assert third.record("word", "ash") is Outcome.ALREADY
    assert second.record("word", "ash") is Outcome.ALREADY
    assert len(answers(first)) == 1


def test_an_answer_that_the_person_kept_is_not_the_one_that_is_sent(tmp_path, clock):
    client = device(tmp_path, clock=clock, choice="local", registry=registry(word=PLAIN))
    assert client.record("word", "oak") is Outcome.RECORDED
    assert client.flush().written == {"kept": 1}
    clock.tomorrow()
    assert client.record("word", "oak") is Outcome.ALREADY
    client.consent("on")
    assert client.record("word", "oak") is Outcome.RECORDED
    assert client.flush().written == {"queued": 1}
    clock.tomorrow()
    assert client.record("word", "oak") is Outcome.ALREADY


def test_another_plan_asks_those_whose_place_comes_later_and_nobody_again_in_the_cycle(tmp_path):
    """32 days are a cycle of a month: a first plan asks for 16 days, another one for the next 16."""
    answered = []
    for number in range(24):
        folder, clock = tmp_path / str(number), Clock()
        outcomes = []
        for plan, days in ((PANEL, 16), (LATER, 16), (PANEL, 16)):
            client = device(folder, clock=clock, registry=registry(word=plan))
            client.consent("on")
            for _ in range(days):
                outcomes.append(client.record("word", "oak"))
                client.flush()
                clock.tomorrow()
        assert {*outcomes} == {Outcome.UNASKED, Outcome.RECORDED}
        places = [day for day, outcome in enumerate(outcomes) if outcome is Outcome.RECORDED]
        assert places in ([places[0]], [places[0], places[0] + 32])
        assert len({report.cohort for report in answers(client)}) == len(places), "a question and noise of its own"
        answered.append(places[0] // 16)
    assert {*answered} == {0, 1}, "some devices are asked by each plan"


def test_without_a_panel_another_plan_asks_again_and_the_same_one_does_not(tmp_path, clock):
    found = []
    for plan in (PLAIN, PLAIN.replace("3.0", "2.0"), PLAIN):
        client = device(tmp_path, clock=clock, registry=registry(word=plan))
        client.consent("on")
        found.append(client.record("word", "oak"))
        client.flush()
        clock.tomorrow()
    assert found == [Outcome.RECORDED, Outcome.RECORDED, Outcome.ALREADY]
