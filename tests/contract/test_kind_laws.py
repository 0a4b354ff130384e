"""Laws of every kind of mechanism, by its exact likelihoods: epsilon, draws, nothing, and what can be inferred.

A new kind adds small instances to `KINDS`. The files of each law have what oracles promise over two rounds and many
reports; those of a kind have what it alone does, and mechanisms that are broken on purpose, which these laws find.
"""

import math
from collections import Counter
from itertools import combinations

import pytest

from overstory.audit.laws import (
    epsilon_is_as_declared,
    law_of,
    payloads_of,
    reports_survive_the_wire,
    rows_are_stochastic,
    samples_follow_the_channel,
    some_cohorts,
)
from overstory.privacy.attacks import linkability, posterior
from overstory.protocol.domains.codes import ELSEWHERE
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import any_mechanism, mechanism
from overstory.protocol.kinds.split import divided
from overstory.protocol.numeric.ranges import RangeRandomizer
from overstory.protocol.search import prefix_search

REACH = 5.5  # standard errors: 4e-8 for each of some 2,000 comparisons here, 8e-5 for all
SECRETS = [number.to_bytes(16, "big") for number in range(2000)]
STRINGS = ["ash", "beech", "cedar", "elm", "oak", "yew"]
CODES = {"domain": "integers", "bits": 5}


def numbers(name):
    return any_mechanism(name, epsilon=1.0, resolution=6, minimum=0.0, maximum=3.0), [i / 4 for i in range(13)]


def items(name, most, **more):
    largest = most if name == "item-bits" else 4  # larger sets show a random part of theirs: see `test_item_sets`
    sets = [part for size in range(largest + 1) for part in combinations(range(4), size)]
    return any_mechanism(name, domain_size=4, most=most, **more), sets


def tables(oracle, epsilon, sizes, each):
    built = divided(oracle=oracle, epsilon=epsilon, sizes=sizes, tables=each)
    return built, list(range(built.domain_size))


def search(**more):
    return prefix_search(values=CODES, **more), [0, 1, 3, 5, 7, 31, ELSEWHERE]


KINDS = {
    "a symbol": (mechanism("grr", domain_size=4, epsilon=1.0), [*range(4)]),
    "a hash": (mechanism("olh", domain_size=9, epsilon=1.0), [*range(9)]),
    "two rounds of a symbol": (mechanism("l-grr", domain_size=4, epsilon_permanent=2, epsilon_report=1), [*range(4)]),
    "bits": (mechanism("oue", domain_size=4, epsilon=1.0), [*range(4)]),
    "two rounds of bits": (mechanism("basic-rappor", domain_size=4), [*range(4)]),
    "fresh bits": (mechanism("wb", domain_size=3, epsilon=1.0, window=2), [*range(3)]),
    "sampled bits": (mechanism("dbitflip", domain_size=4, epsilon=1.0, sampled_bits=2), [*range(4)]),
    "a filter": (mechanism("rappor", num_bits=5, num_hashes=2, num_cohorts=2), STRINGS),
    "a sign": (mechanism("hadamard", domain_size=5, epsilon=1.0), [*range(5)]),
    "one round of a filter": (mechanism("rappor-one-time", num_bits=6, num_cohorts=3, p=0.4, q=0.8), STRINGS),
    "a subset": (mechanism("subset", domain_size=5, epsilon=1.0), [*range(5)]),
    "a point": (mechanism("projective", domain_size=7, epsilon=1.0), [*range(7)]),
    "an item by grr": items("padding-and-sampling", 2, epsilon=1.0, inner="grr"),
    "an item by oue": items("padding-and-sampling", 2, epsilon=1.0, inner="oue"),
    "an item by olh": items("padding-and-sampling", 2, epsilon=1.0, inner="olh"),
    "a bit for every item": items("item-bits", 2, epsilon=1.5),
    "tables by grr": tables("grr", 1.0, "3 2 2", "0 1, 2"),
    "tables by oue": tables("oue", 1.5, "2 2 2", "0 1, 0 2, 1 2"),
    "tables by sue": tables("sue", 2.0, "2 3", "1, 0, 0 1"),
    "tables by points": tables("projective", 1.0, "3 2", "0 1, 0"),
    "levels": (RangeRandomizer(8, 1.0, 3), [*range(8)]),
    "questions": search(epsilon=1.0, step=2, beam=2),
    "questions with known values": search(epsilon=0.5, step=1, beam=4, known=["3", "7"]),
    "a wave": numbers("square-wave"),
    "a window or an end": numbers("hybrid"),
}
each_kind = pytest.mark.parametrize("kind", KINDS)
NOT_REACHED = {"a filter"}  # filters of the worst pair of values need not be among some strings


@each_kind
def test_epsilon_is_the_worst_ratio_of_any_two_values(kind):
    built, values = KINDS[kind]
    rows_are_stochastic(built, values)
    epsilon_is_as_declared(built, values, is_tight=kind not in NOT_REACHED)
    if built.repeats:
        assert built.epsilon_permanent == built.epsilon_report


@each_kind
def test_reports_and_permanent_responses_follow_the_law(kind):
    built, values = KINDS[kind]
    reports_survive_the_wire(built)
    samples_follow_the_channel(built, (values[1], values[-1]))


@each_kind
def test_nothing_is_no_values_response_and_as_private_as_a_value(kind):
    """In no payload may its chance be more than e^epsilon from any value's, of the permanent response."""
    built, values = KINDS[kind]
    cohort = some_cohorts(built)[0]
    drawn = [built.nothing(secret, "law", cohort) for secret in SECRETS]
    assert drawn[:50] == [built.nothing(secret, "law", cohort) for secret in SECRETS[:50]]
    assert all(payload in payloads_of(built, cohort) for payload in set(drawn))
    own = [built.responder(secret, "law", cohort)(values[0]) for secret in SECRETS]
    assert built.fresh or own != drawn
    if built.repeats:
        seen, odds, size = Counter(drawn), math.exp(built.epsilon_report), len(SECRETS)
        for payload, *chances in zip(
            payloads_of(built, cohort), *(law_of(built, value, cohort) for value in values), strict=True
        ):
            most, least = (float(chance) for chance in (max(chances), min(chances)))
            assert seen[payload] <= size * least * odds + REACH * math.sqrt(size * least * odds) + 1
            assert seen[payload] >= size * most / odds - REACH * math.sqrt(size * most / odds) - 1


@each_kind
def test_values_share_a_response_where_they_have_one_key(kind):
    built, values = KINDS[kind]
    for cohort in some_cohorts(built)[:3]:
        devices = [built.responder(secret, "law", cohort) for secret in SECRETS[:40]]
        seen = {}
        for value in values:
            responses = tuple(respond(value) for respond in devices)
            seen.setdefault(built.response_key(value, cohort), set()).add(responses)
        assert all(len(alike) == 1 for alike in seen.values())
        assert len({next(iter(alike)) for alike in seen.values()}) == len(seen)


@each_kind
def test_what_is_believed_of_a_report_is_the_law_of_its_likelihoods(kind):
    built, values = KINDS[kind]
    cohort = some_cohorts(built)[0]
    for payload in payloads_of(built, cohort)[:: max(1, built.payload_limit // 4)][:4]:
        likely = {value: float(built.likelihood(Report(cohort, payload), value)) for value in values}
        believed = posterior(built, [Report(cohort, payload)], dict.fromkeys(values, 1.0))
        assert believed == pytest.approx({value: p / sum(likely.values()) for value, p in likely.items()}, abs=1e-9)


MORE_IS_STATED = {"an item by oue", "an item by olh", "a bit for every item", "a filter"}
"""A bound, or the entropy of a larger set than is looked at here."""


@pytest.mark.parametrize("kind", [kind for kind, (built, _) in KINDS.items() if built.repeats and not built.once])
def test_what_stays_the_same_is_the_entropy_of_the_response(kind):
    """Collision entropy of a value's response and its cohort, of the value that discloses most."""
    built, values = KINDS[kind]
    cohorts = range(built.num_cohorts) if built.num_cohorts < 70 else some_cohorts(built)
    laws = [[float(p) for c in cohorts for p in law_of(built, value, c)] for value in values]
    shares = [[p / len(cohorts) for p in law] for law in laws]
    more = math.log2(built.num_cohorts / len(cohorts))  # of those that are not looked at, which are like these
    stated, most = linkability(built).unchanged, max(shares, key=lambda law: -sum(p * p for p in law))
    exact = -math.log2(sum(p * p for p in most)) + more
    assert stated.bits >= exact - 1e-6
    if kind not in MORE_IS_STATED:
        assert stated.bits == pytest.approx(exact, abs=1e-6)
        assert stated.shannon_bits == pytest.approx(-sum(p * math.log2(p) for p in most if p) + more, abs=1e-6)
    if kind not in MORE_IS_STATED and not more:
        for devices in (1, 2, 50):
            assert stated.crowd(devices) == pytest.approx(1 + (devices - 1) * sum(p * p for p in most), rel=1e-6)
