"""A metric of unknown values on a device: one answer, in the first period with a record, and never another."""

import itertools

import pytest

from overstory.client import Outcome
from overstory.client.person.explanation import explain
from overstory.client.randomizer import randomizer_of
from overstory.client.state.state import State
from overstory.protocol.wire.upload import decode_batch, decode_uploads
from support.devices import Clock, device, registry, rows_of
from support.running import within

WORDS = 'domain = {kind = "unknown-strings", max_bytes = 8}\noracle = "prefix-search"\nperiod = "day"\n'
PLAIN = WORDS + "parameters = {epsilon = 3.0}\n"


def wave(number, waves=2, epsilon=3.0):
    return registry(word=WORDS + f"parameters = {{epsilon = {epsilon}, wave = {number}, waves = {waves}}}\n")


def asked_in(folder, number, *, want=True):
    """A device that is asked in a wave of two, or is not."""
    devices = (device(folder / str(attempt), clock=Clock(), registry=wave(number)) for attempt in itertools.count())
    return next(client for client in devices if (client.record("word", "first") is not Outcome.UNASKED) == want)


def answers(client, metric="word"):
    bodies = [row.body for row in rows_of(client, metric=metric)]
    return [report for body in bodies for upload in decode_uploads(body, 1) for report in decode_batch(upload.reports)]


@pytest.mark.parametrize("later", [["oak", "oak", "oak"], ["elm", "oak", "x" * 99], [None, 7, "elm"]])
def test_a_device_answers_once_whether_its_value_changes_or_not(tmp_path, later, clock):
    client = device(tmp_path, clock=clock, registry=registry(word=PLAIN))
    outcomes = [client.record("word", "oak")]
    for value in later:
        client.flush()
        clock.tomorrow()
        outcomes.append(client.record("word", value))
    client.flush()
    assert outcomes == [Outcome.RECORDED, *[Outcome.ALREADY] * 3]
    (answer,) = answers(client)
    (spent,) = client.status().spent
    assert (spent.reports, spent.distinct) == (1, 1)
    assert spent.epsilon_pattern == client.registry["word"].mechanism.epsilon_report
    metric = client.registry["word"]
    secret = State(client.paths).begin().key("word")
    own = randomizer_of(metric, secret)
    assert answer == (own.cohort, own.permanent(metric.encode("oak")))


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


@pytest.mark.parametrize(("asked", "epsilon", "then"), [(False, 2.0, "recorded"), (True, 3.0, "unasked")])
def test_a_device_is_asked_in_one_wave_of_two_and_stays_for_that_wave(tmp_path, asked, epsilon, then):
    client = asked_in(tmp_path, 1, want=asked)
    assert client.flush().written == ({"queued": 1} if asked else {})
    later = device(client.paths.folder.parent, registry=wave(2, epsilon=epsilon))
    assert later.record("word", "second") == then


def test_the_person_reads_which_question_this_device_answers(tmp_path):
    client = device(tmp_path, registry=registry(word=PLAIN))
    client.record("word", "oak")
    client.flush()
    state, metric = State(client.paths), client.registry["word"]
    explained = explain(state, metric, "oak")
    assert explained.encoded.startswith('"oak", code 0x6f616b80')
    question = metric.mechanism.questions[metric.mechanism.group_of(explained.cohort)]
    assert explained.encoded.endswith(f"asked about the first {question.num_bits} of the code's 72 bits")
    assert explained.known == 1
    assert explained.report == explained.permanent
    assert explain(state, metric, "x" * 99).encoded.startswith("a value that the search does not cover")


def test_the_question_to_the_person_says_that_there_is_one_report(tmp_path):
    metrics = wave(1, waves=4)
    (tmp_path / "metrics.toml").write_text(metrics.text)
    client = device(tmp_path, registry=metrics, choice=None)
    assert client.record("word", "oak") is Outcome.NOT_ASKED
    where = ("--app", client.paths.folder, "--registry", "metrics.toml", "--server", "https://example.org")
    shown = " ".join(within("on", *where, cwd=tmp_path).stdout.split())
    assert "one report per device, and no other" in shown
    assert "one device in 4 is asked" in shown
    assert shown.count("epsilon 3.0000") == 2
    assert "(one per day until" not in shown
