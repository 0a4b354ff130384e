"""Law 4: the permanent response is the same for ever on one device, independent on another; nothing true is stored."""

import dataclasses
import hmac
import json
import os
import pickle
import subprocess
import sys
import threading
from collections import Counter
from fractions import Fraction
from itertools import product
from unittest import mock

import pytest

from overstory.audit.laws import Alarm, check_binomial
from overstory.client import Randomizer
from overstory.protocol.kinds.bits import BitMechanism, as_googles_client
from overstory.protocol.kinds.registry import any_mechanism, mechanism
from overstory.protocol.sampling import context
from support.contract_cases import TYPICAL_CASES, Case, domain_of, shares_responses, some_values
from support.contract_samples import Sample, as_rows, check_independent, held_values, view_of
from support.reachable import reachable_objects

SECRET = bytes(range(32))
SET = {"domain_size": 5, "most": 3, "epsilon": 1.0}
NUMBER = {"epsilon": 1.0, "resolution": 3, "minimum": -10.0, "maximum": 50.0}
DEVICES = 1500

ANOTHER_PROCESS = """
import json, os, sys
from overstory.client import Randomizer
from overstory.protocol.kinds.registry import any_mechanism

def answers(device, values):
    return [[device.permanent(v) for v in values], device.cohort, [device.report(v)[1] for v in values]]

def in_fork(device, values):
    read, write = os.pipe()
    if not os.fork():
        os.write(write, json.dumps(answers(device, values)).encode())
        os._exit(0)
    os.close(write)
    with open(read) as pipe:
        return json.load(pipe)

found = []
for name, parameters, values in json.load(sys.stdin):
    device = Randomizer(any_mechanism(name, **parameters), secret=bytes(range(32)), metric="law")
    held = [tuple(value) if isinstance(value, list) else value for value in values]  # JSON has no tuples
    found.append([answers(device, held), in_fork(device, held), answers(device, held)])
json.dump(found, sys.stdout)
"""


def device_of(case, **choices):
    return Randomizer(case.build(), **({"secret": SECRET, "metric": "law"} | choices))


def repeats_rarely(mechanism):
    return not mechanism.rounds.instantaneous.is_identity and mechanism.encoding.num_bits > 8


def test_the_same_in_other_processes_and_forks():
    """Another interpreter, with another hash seed, and its fork; fresh bits differ between a fork and its parent."""
    cases = [(c.name, c.parameters, some_values(c.build(), 8)) for c in TYPICAL_CASES]
    cases += [(name, SET, [(), (3,), (0, 1, 2, 4)]) for name in ("padding-and-sampling", "item-bits")]
    cases += [("divided", {"oracle": "oue", "epsilon": 1.0, "sizes": "3 2 2", "tables": "0 1, 2"}, [0, 5, 11])]
    cases += [("prefix-search", {"values": {"domain": "integers", "bits": 5}, "epsilon": 1.0}, [0, 5, 31])]
    cases += [(name, NUMBER, [-10.0, 0.3, 50.0]) for name in ("hybrid", "square-wave")]
    environment = os.environ | {"PYTHONHASHSEED": "4242"}
    done = subprocess.run(
        [sys.executable, "-c", ANOTHER_PROCESS],
        input=json.dumps(cases),
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    for case, (before, child, after) in zip(cases, json.loads(done.stdout), strict=True):
        name, parameters, values = case
        here = Randomizer(any_mechanism(name, **parameters), secret=SECRET, metric="law")
        assert before[:2] == child[:2] == after[:2] == [[here.permanent(v) for v in values], here.cohort], case
        if isinstance(here.mechanism, BitMechanism) and repeats_rarely(here.mechanism):
            assert child[2] != after[2], f"{case}: a fork repeated its parent's fresh bits"


def test_the_same_among_threads():
    """Switched between threads as often as possible."""
    case, interval = TYPICAL_CASES[0], sys.getswitchinterval()
    values = [f"value-{i}" for i in range(20)]
    alone = device_of(case)
    expected = [alone.permanent(v) for v in values] * 50
    device, found, failures = device_of(case), [], []

    def work():
        try:
            found.append([device.permanent(v) for v in values * 50])
        except Exception as error:  # noqa: BLE001 - whatever it is, the test must see it
            failures.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    assert found == [expected] * 8


def responses(mechanism, values, secrets, metric="law", cohort=0):
    view = view_of(mechanism)
    answers = [mechanism.responder(s, metric, cohort)(v) for s, v in zip(secrets, values, strict=True)]
    truth = as_rows((view.truth(v, cohort) for v in values), view.size)
    return Sample(1, None, truth, (as_rows(map(view.row, answers), view.size),))


def without_equal_codes(first, second):
    """Drop the devices whose true bits agree: what is encoded alike may have one response."""
    differ = (first.truth != second.truth).any(axis=1)
    return [Sample(1, None, s.truth[differ], (s.reports[0][differ],)) for s in (first, second)]


def other_parameters(mechanism):
    return dataclasses.replace(mechanism, name=f"{mechanism.name}, another")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", TYPICAL_CASES, ids=str)
def test_others_are_independent(case):
    built = case.build()
    values, secrets = held_values(built, DEVICES), [os.urandom(32) for _ in range(DEVICES)]
    base, channel = responses(built, values, secrets), view_of(built).channels[0]
    others = {"secret": responses(built, values, secrets[1:] + secrets[:1])}
    others["value"] = responses(built, values[1:] + values[:1], secrets)
    if built.num_cohorts > 1:
        others["cohort"] = responses(built, values, secrets, cohort=1)
    others["metric"] = responses(built, values, secrets, metric="law2")
    others["parameters"] = responses(other_parameters(built), values, secrets)
    for name, other in others.items():
        alike = name == "value" and shares_responses(built)
        pair = without_equal_codes(base, other) if alike else (base, other)
        check_independent(*pair, channel)


def test_a_derivation_that_forgets_the_metric_is_caught():
    built = TYPICAL_CASES[0].build()
    values, secrets = held_values(built, DEVICES), [os.urandom(32) for _ in range(DEVICES)]
    with pytest.raises(Alarm):
        check_independent(responses(built, values, secrets), responses(built, values, secrets), built.rounds.permanent)


def true_things_in(device, value):
    true_bits = view_of(device.mechanism).true_payload(value, device.cohort)
    held = reachable_objects(device)
    bits = [one for one in held if type(one) is int and one == true_bits and true_bits > 2**20]
    return bits + [one for one in held if isinstance(one, str | bytes) and one in (value, str(value).encode())]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", TYPICAL_CASES, ids=str)
def test_nothing_true_is_kept(case):
    device = device_of(case)
    value = 5 if domain_of(device.mechanism) else "a private matter"
    for _ in range(3):
        device.report(value)
    assert not true_things_in(device, value)


def test_values_that_share_a_symbol_share_its_response():
    """LOLOHA's idea: a device has at most as many responses as there are symbols, and they follow the symbols."""
    device = device_of(Case("loloha", {"epsilon_permanent": 2.0, "epsilon_report": 1.0}))
    values = [f"value-{i}" for i in range(200)]
    answers = {device.mechanism.encoding.symbol(v, device.cohort): device.permanent(v) for v in values}
    assert len(answers) == device.mechanism.encoding.num_symbols
    assert all(device.permanent(v) == answers[device.mechanism.encoding.symbol(v, device.cohort)] for v in values)


@pytest.mark.parametrize("kept", ["a private matter", b"a private matter", "its true bits"])
def test_a_device_that_keeps_something_true_is_caught(kept):
    device = device_of(TYPICAL_CASES[0])
    value = "a private matter"
    device.leak = [device.mechanism.encode(value, device.cohort) if kept == "its true bits" else kept]
    assert true_things_in(device, value)


def test_a_randomizer_is_not_pickled():
    with pytest.raises(TypeError, match="build it anew from the secret"):
        pickle.dumps(device_of(TYPICAL_CASES[0]))


GOOGLE = {"num_bits": 32, "num_hashes": 2, "num_cohorts": 1, "p": 0.5, "q": 0.75, "hash_family": "google-rappor-python"}
OWN = GOOGLE | {"hash_family": "overstory-v1"}
MANY = 10_000
VALUE = "a page"

# What is asked twice of one device: (metric, parameters), twice.
PAIRS = {
    "metrics": (("law", GOOGLE | {"f": 0.5}), ("law2", GOOGLE | {"f": 0.5})),
    "parameters": (("law", GOOGLE | {"f": 0.5}), ("law", GOOGLE | {"f": 0.25})),
    "metrics and parameters": (("law", GOOGLE | {"f": 0.5}), ("law2", GOOGLE | {"f": 0.25})),
    "second rounds": (("law", GOOGLE | {"f": 0.5}), ("law", GOOGLE | {"f": 0.5, "q": 0.625})),
    "families": (("law", GOOGLE | {"f": 0.5}), ("law", OWN | {"f": 0.5})),
    "own parameters": (("law", OWN | {"f": 0.5}), ("law", OWN | {"f": 0.25})),
    "own metrics": (("law", OWN | {"f": 0.5}), ("law2", OWN | {"f": 0.5})),
}


def check_product_law(asked, secrets, derive=lambda built: built):
    """Each of the four pairs of bits comes as often as two independent draws give it, given both true bits."""
    built = [derive(mechanism("rappor", **parameters)) for _, parameters in asked]
    true = [one.encode(VALUE, 0) for one in built]
    channels = [one.rounds.permanent for one in built]
    seen = {(a, b): Counter() for a, b in product((0, 1), repeat=2)}
    for secret in secrets:
        first, second = (one.responder(secret, metric, 0)(VALUE) for one, (metric, _) in zip(built, asked, strict=True))
        for bit in range(32):
            held = true[0] >> bit & 1, true[1] >> bit & 1
            seen[held][first >> bit & 1, second >> bit & 1] += 1
    for held, counts in seen.items():
        for said in product((0, 1), repeat=2):
            chance = Fraction(1)
            for channel, true_bit, bit in zip(channels, held, said, strict=True):
                one = channel.keep_one if true_bit else channel.raise_zero
                chance *= one if bit else 1 - one
            check_binomial([counts[said]], [counts.total()], float(chance), f"{said} given the true bits {held}")


@pytest.mark.parametrize("name", PAIRS)
def test_two_responses_of_one_device_follow_the_product_law(name):
    check_product_law(PAIRS[name], [os.urandom(32) for _ in range(MANY)])


@pytest.mark.parametrize("name", ["metrics", "parameters", "metrics and parameters", "second rounds"])
def test_googles_own_derivation_shares_its_noise_and_is_caught(name):
    with pytest.raises(Alarm):
        check_product_law(PAIRS[name], [os.urandom(32) for _ in range(MANY)], as_googles_client)


def joint_law(derive):
    """P(bits under f = 1/2 and f = 1/4 | true bit), over all bytes that each key's digest may have there."""
    built = [derive(mechanism("rappor", **GOOGLE | {"f": f})) for f in (0.5, 0.25)]
    given, keys = {}, []

    def digest(key, *_):
        if key not in keys:
            keys.append(key)
        return bytes([given.get(key, 0)]) * 32

    with mock.patch.object(hmac, "digest", digest):
        answers = [
            one.permanence.responder(one.rounds.permanent, 1, b"s" * 16, context("law", one.digest, 0)) for one in built
        ]
        for answer in answers:
            answer(b"", 0)
        law = {}
        for true in (0, 1):
            seen = Counter()
            for octets in product(range(256), repeat=len(keys)):
                given.update(zip(keys, octets, strict=True))
                seen[tuple(answer(b"", true) for answer in answers)] += 1
            law[true] = {said: Fraction(count, seen.total()) for said, count in seen.items()}
    return law


def test_the_joint_law_under_two_f_is_the_product_by_enumeration():
    """Of a true 0 the bit is 1 with 1/4 and with 1/8; of a true 1, with 3/4 and with 7/8."""
    chances = {0: (Fraction(1, 4), Fraction(1, 8)), 1: (Fraction(3, 4), Fraction(7, 8))}
    law = joint_law(lambda built: built)
    for true, (first, second) in chances.items():
        for a, b in product((0, 1), repeat=2):
            assert law[true][a, b] == (first if a else 1 - first) * (second if b else 1 - second)


def test_of_googles_own_derivation_two_f_prove_bits():
    """What shared noise gives away: 0 then 1 proves a true 1, 1 then 0 a true 0, each with probability 1/8."""
    law = joint_law(as_googles_client)
    assert law[0] == {(0, 0): Fraction(3, 4), (1, 0): Fraction(1, 8), (1, 1): Fraction(1, 8)}
    assert law[1] == {(0, 0): Fraction(1, 8), (0, 1): Fraction(1, 8), (1, 1): Fraction(3, 4)}
