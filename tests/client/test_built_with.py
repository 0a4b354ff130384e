"""Law 8: a device never takes parameters weaker than those its program was built with."""

import math
import os
import pickle
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial

import pytest

from overstory.client import OfferLedger, Randomizer, offers
from overstory.client.randomizer import refuse_weaker
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.mechanisms.registry import mechanism

SECRET = b"a device's secret, long enough"
BUILT = mechanism("rappor", f=0.5, p=0.5, q=0.75)

WEAKER = {
    "less permanent noise": mechanism("rappor", f=0.25, p=0.5, q=0.75),
    "less instantaneous noise": mechanism("rappor", f=0.5, p=0.25, q=0.75),
    "more hashes": mechanism("rappor", num_hashes=3, f=0.5, p=0.5, q=0.75),
    "a change that shows": mechanism("oue", domain_size=100, epsilon=1.0),
    "no permanent noise": mechanism("rappor", f=0.0, p=0.5, q=0.6),
}
NO_WEAKER = {
    "the same": mechanism("rappor", f=0.5, p=0.5, q=0.75),
    "more noise": mechanism("rappor", f=0.5, p=0.5, q=0.7),
    "fewer bits": mechanism("rappor", num_bits=64, f=0.5, p=0.5, q=0.75),
    "another oracle": mechanism("basic-rappor", domain_size=100, f=0.5, p=0.5, q=0.75),
}


@pytest.mark.parametrize("offered", WEAKER.values(), ids=WEAKER)
def test_weaker_parameters_are_refused(offered):
    with pytest.raises(ParameterError, match="protect less"):
        Randomizer(offered, secret=SECRET, metric="m", built_with=BUILT)


@pytest.mark.parametrize("offered", NO_WEAKER.values(), ids=NO_WEAKER)
def test_parameters_that_protect_as_much_are_taken(offered):
    refuse_weaker(offered, BUILT)
    Randomizer(offered, secret=SECRET, metric="m", built_with=BUILT, offers=OfferLedger())


def test_weaker_only_in_between_is_weaker():
    """The redesign at RAPPOR's own two epsilons reveals a little more in 2 to 19 reports: that is seen."""
    redesigned = mechanism("rappor", num_hashes=1, f=0.2002, p=0.2239, q=0.5306)
    assert redesigned.epsilon_report <= BUILT.epsilon_report
    assert redesigned.epsilon_permanent <= BUILT.epsilon_permanent
    with pytest.raises(ParameterError, match=r"epsilon of \d+ reports"):
        refuse_weaker(redesigned, BUILT)


def test_without_permanent_noise_the_leak_of_a_change_is_looked_at():
    fresh = mechanism("basic-rappor", domain_size=5, f=0.0, p=0.25, q=0.75)
    assert fresh.epsilon_permanent == math.inf
    with pytest.raises(ParameterError, match="a change of value within"):
        refuse_weaker(mechanism("basic-rappor", domain_size=5, f=0.25, p=0.25, q=0.75), fresh)
    refuse_weaker(mechanism("basic-rappor", domain_size=5, f=0.0, p=0.3, q=0.7), fresh)


@pytest.mark.parametrize(
    ("change", "says"), [({"num_cohorts": 32}, "32 cohorts or seeds"), ({"num_bits": 129}, "a change of value within")]
)
def test_what_lets_a_device_be_told_again_is_refused(change, says):
    with pytest.raises(ParameterError, match=says):
        refuse_weaker(mechanism("rappor", **change), BUILT)


def test_a_larger_report_is_refused():
    grr, subset = mechanism("grr", domain_size=8, epsilon=1.0), mechanism("subset", domain_size=8, epsilon=0.5)
    with pytest.raises(ParameterError, match="8 bits in a report, at most 3"):
        refuse_weaker(subset, grr)


# --- offers add up: F5

DEVICES = 120
GRR = [mechanism("grr", domain_size=4, epsilon=1.0 - number * 1e-6) for number in range(51)]


def test_without_a_ledger_other_parameters_are_refused():
    Randomizer(GRR[0], secret=SECRET, metric="m", built_with=GRR[0])
    with pytest.raises(ParameterError, match="give offers=OfferLedger"):
        Randomizer(GRR[1], secret=SECRET, metric="m", built_with=GRR[0])


def attacked(offers_of, devices=DEVICES):
    """The share of values guessed from all that fifty offers get out of each device, by the posterior."""
    keep, right = math.exp(1.0) / (math.exp(1.0) + 3), 0
    for device in range(devices):
        secret, value = device.to_bytes(16, "big"), device % 4
        odds = [0.0] * 4
        for report in offers_of(secret, value):
            odds[report] += math.log(keep / ((1 - keep) / 3))
        right += max(range(4), key=lambda guess: (odds[guess], guess)) == value
    return right / devices


def taken(secret, value, offers):
    """The reports that a device makes under each offer that it accepts."""
    for offered in GRR[1:]:
        try:
            device = Randomizer(offered, secret=secret, metric="m", built_with=GRR[0], offers=offers)
        except ParameterError:
            continue
        yield device.report(value).bits


def test_fifty_offers_say_no_more_than_the_ledger_states():
    """Each is not weaker; together they gave 99% of the values. The best guess at epsilon 1 is right for 47.5%."""
    ledger = OfferLedger()
    guessed = attacked(lambda secret, value: taken(secret, value, ledger))
    most = math.exp(1.0) / (math.exp(1.0) + 3)
    assert guessed <= most + 5 * math.sqrt(most * (1 - most) / DEVICES)
    assert guessed > 0.35  # something is learned: the attack works
    assert all(ledger.spent(device.to_bytes(16, "big"), "m") <= 1.0 for device in range(DEVICES))


def test_a_larger_limit_lets_through_what_it_states():
    ledger = OfferLedger(limit=3.0)
    guessed = attacked(lambda secret, value: taken(secret, value, ledger))
    most = math.exp(3.0) / (math.exp(3.0) + 3)
    assert 0.5 < guessed <= most + 5 * math.sqrt(most * (1 - most) / DEVICES)
    assert 2.9 < ledger.spent(bytes(16), "m") <= 3.0


def test_the_attack_takes_all_values_where_nobody_keeps_account():
    """The device as it was: every offer that is not weaker."""
    forgetful = lambda secret, value: (Randomizer(o, secret=secret, metric="m").report(value).bits for o in GRR[1:])  # noqa: E731
    assert attacked(forgetful) > 0.97


def test_a_ledger_in_a_file_survives_a_restart_and_is_shared(tmp_path):
    path = tmp_path / "offers.json"
    Randomizer(GRR[1], secret=SECRET, metric="m", built_with=GRR[0], offers=OfferLedger(path))
    first, second = OfferLedger(path), OfferLedger(path)
    for ledger in (first, second):
        Randomizer(GRR[1], secret=SECRET, metric="m", built_with=GRR[0], offers=ledger)  # charged before
        with pytest.raises(ParameterError, match="would pass the limit"):
            Randomizer(GRR[2], secret=SECRET, metric="m", built_with=GRR[0], offers=ledger)
        Randomizer(GRR[2], secret=SECRET, metric="another", built_with=GRR[0], offers=ledger)
    text = path.read_text()
    assert "another" not in text
    assert SECRET.hex() not in text
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"offers": {"x": [["00", "", 0, []]]}}', '{"offers": {"x": [1]}}']
)
def test_a_ledger_that_cannot_be_read_is_not_replaced_by_an_empty_one(tmp_path, content):
    path = tmp_path / "offers.json"
    path.write_text(content)
    with pytest.raises(FormatError, match="no ledger of offers"):
        OfferLedger(path)
    assert path.read_text() == content


@pytest.mark.parametrize("limit", [0, -1, True, "2", float("nan")])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(ParameterError, match="give an epsilon above 0"):
        OfferLedger(limit=limit)


def test_noise_that_is_all_fresh_has_no_permanent_cost_and_no_limit():
    fresh = [mechanism("opt-wb", domain_size=4, epsilon=1.0 - number * 0.01, window=4) for number in range(4)]
    ledger = OfferLedger()
    for offered in fresh:
        Randomizer(offered, secret=SECRET, metric="m", built_with=fresh[0], offers=ledger)
    assert ledger.spent(SECRET, "m") == math.inf


# --- several threads

THREADS = 4


@pytest.fixture
def hasty():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*tasks):
    """Run functions at once, each in a thread of its own, and return what they returned."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        start = threading.Barrier(len(tasks))

        def run(task):
            start.wait()
            return task()

        return list(pool.map(run, tasks))


def charged(ledger, number, epsilon=0.9):
    return ledger.charge(SECRET, "m", bytes([number]) * 16, epsilon)


def over_the_limit(ledgers):
    """How many ledgers accept more than their limit from threads that charge at once."""
    return sum(sum(together(*(partial(charged, one, number) for number in range(THREADS)))) > 1 for one in ledgers)


def test_threads_that_charge_at_once_stay_within_the_limit(tmp_path, hasty):
    assert over_the_limit(OfferLedger(limit=1.0) for _ in range(100)) == 0
    assert over_the_limit(OfferLedger(tmp_path / str(run), limit=1.0) for run in range(10)) == 0


def test_a_ledger_without_its_lock_is_caught(hasty):
    def unlocked():
        ledger = OfferLedger(limit=1.0)
        ledger._lock = nullcontext()
        return ledger

    assert over_the_limit(unlocked() for _ in range(100)) > 0


def test_a_charge_is_not_lost_to_a_thread_that_reads(tmp_path, monkeypatch):
    """The reader comes after the charge has read the file, and before it writes: it must not put the old one back."""
    ledger, adds = OfferLedger(tmp_path / "offers.json", limit=100.0), offers.add_up
    readers = [threading.Thread(target=ledger.offers, args=(SECRET, "m")) for _ in range(3)]
    waiting = iter(readers)

    def interrupted(costs):
        reader = next(waiting)
        reader.start()
        reader.join(0.2)
        return adds(costs)

    monkeypatch.setattr(offers, "add_up", interrupted)
    assert [charged(ledger, number) for number in range(3)] == [True] * 3
    for reader in readers:
        reader.join()
    assert len(ledger.offers(SECRET, "m")) == len(OfferLedger(ledger.path).offers(SECRET, "m")) == 3


def test_a_charge_that_could_not_be_written_is_not_remembered(tmp_path, monkeypatch):
    ledger = OfferLedger(tmp_path / "offers.json", limit=1.0)

    def full(*_):
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(offers, "write_atomically", full)
        with pytest.raises(OSError, match="no space"):
            charged(ledger, 0)
    assert ledger.offers(SECRET, "m") == ()
    assert charged(ledger, 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_charge_leaves_the_child_a_ledger_that_works():
    ledger, ended = OfferLedger(limit=1.0), threading.Event()
    held = threading.Event()

    def hold():
        with ledger._lock:
            held.set()
            ended.wait(30)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)  # a child that waits for ever is ended
        os._exit(0 if charged(ledger, 0) else 1)
    ended.set()
    holder.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_ledger_is_pickled_without_its_lock(tmp_path):
    ledger = OfferLedger(tmp_path / "offers.json", limit=1.0)
    assert charged(ledger, 0)
    again = pickle.loads(pickle.dumps(ledger))
    assert again.offers(SECRET, "m") == ledger.offers(SECRET, "m")
    assert not charged(again, 1)
