"""Law 4 across metrics, parameters and families: the joint law of two permanent responses is the product of theirs.

One stream of noise for two responses is no second draw. In Google's derivation the noise of f = 1/4 is a part of that
of f = 1/2, so that two responses to one filter prove bits of it: what each would cost alone says nothing of both.
"""

import hmac
import os
from collections import Counter
from fractions import Fraction
from itertools import product
from unittest import mock

import pytest

from overstory.protocol.kinds.rappor import as_googles_client
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.sampling import context
from support.contract_statistics import Alarm, check_binomial

GOOGLE = {"num_bits": 32, "num_hashes": 2, "num_cohorts": 1, "p": 0.5, "q": 0.75, "hash_family": "google-rappor-python"}
OWN = GOOGLE | {"hash_family": "overstory-v1"}
DEVICES = 10_000
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
    check_product_law(PAIRS[name], [os.urandom(32) for _ in range(DEVICES)])


@pytest.mark.parametrize("name", ["metrics", "parameters", "metrics and parameters", "second rounds"])
def test_googles_own_derivation_shares_its_noise_and_is_caught(name):
    with pytest.raises(Alarm):
        check_product_law(PAIRS[name], [os.urandom(32) for _ in range(DEVICES)], as_googles_client)


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
