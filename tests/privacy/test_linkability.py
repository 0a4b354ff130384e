"""What reports of one device share, equal or alike: against real devices, enumeration, and an attempt to link them."""

import itertools
import math
import re

import numpy as np
import pytest

from overstory.privacy.attacks import linkability
from overstory.privacy.shared import Constant, Likeness, bits_text
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import REGISTRY, any_mechanism, mechanism
from overstory.protocol.kinds.symbols import SymbolMechanism
from support.privacy_cases import some_mechanism
from support.referee_device import device

HUNDRED = {"domain_size": 100, "epsilon": 1.0}
NOTHING = ("basic-rappor", "wb", "opt-wb", "opt-dr", "l-grr", "l-sue", "l-osue", "l-soue")


@pytest.mark.parametrize("name", NOTHING)
def test_the_audits_table_of_what_carries_nothing(name):
    stated = linkability(some_mechanism(name))
    assert (stated.bits, stated.unchanged.crowd(10**6)) == (0, 10**6)
    fresh = name in {"wb", "opt-wb"}  # no permanent response lies behind their reports
    assert stated.are_alike is not fresh
    assert (stated.words() == "nothing stays the same from report to report") is fresh
    assert stated.words().startswith("nothing stays" if fresh else "nothing is equal in every report, but reports")


def test_words_name_their_condition():
    assert [bits_text(bits) for bits in (31.0, 7.72, 1.0)] == ["31 bits", "7.8 bits", "1 bit"]
    oue, hadamard = (linkability(mechanism(name, **HUNDRED)).words() for name in ("oue", "hadamard"))
    assert oue.startswith("the same in every report while the value does not change: ")
    assert hadamard == (
        "the same in every report: 7 bits; of a million devices 7,813 share it; with the payload, the same in every "
        "report while the value does not change: 7.8 bits; of a million devices with that value 4,741 share it"
    )
    seed = linkability(mechanism("linear-hash", **HUNDRED))
    assert seed.words().startswith("the same in every report: 31 bits; of a million devices 1 shares it; with the")


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_crowd_of_one_payload_is_counted_among_devices_with_one_value(name):
    """A second audit: of a million devices far fewer share the payload of a value that few of them hold."""
    stated = linkability(some_mechanism(name))
    crowds = re.findall(r"of a million (devices.*?) [\d,]+ shares? it", stated.words())
    assert crowds == ["devices"] * (stated.always.bits > 0) + ["devices with that value"] * stated.has_payload


@pytest.mark.parametrize("devices", [0, -1, 1.5, True])
def test_a_number_of_devices_that_is_none(devices):
    with pytest.raises(ParameterError, match="whole number from 1"):
        Constant.uniform(4).crowd(devices)


TWO = {"epsilon_permanent": 2.0, "epsilon_report": 1.0}
CASES = [
    ("l-osue", TWO | {"domain_size": 3}, (1, 2)),
    ("l-sue", TWO | {"domain_size": 2}, (1, 2, 3)),
    ("opt-dr", {"epsilon_permanent": 3.0, "domain_size": 3}, (1, 2)),
    ("basic-rappor", {"domain_size": 3, "f": 0.5, "p": 0.25, "q": 0.9}, (1, 2)),
    ("rappor", {"num_bits": 4, "num_hashes": 2, "num_cohorts": 2, "f": 0.5, "p": 0.4, "q": 0.8}, (1,)),
    ("wb", {"domain_size": 3, "epsilon": 1.0, "window": 2}, (1, 2)),
    ("l-grr", TWO | {"domain_size": 2}, (1,)),
    ("l-grr", {"domain_size": 5, "epsilon_permanent": 4.0, "epsilon_report": 3.0}, (1,)),
    ("loloha", TWO | {"domain_size": 9}, (1,)),
]


def enumerated(built, value, reports):
    """I(A; B) of all sequences of reports, the cohort in each, from the joint distribution itself."""
    cohorts, total = range(min(built.num_cohorts, 2)), 0.0  # a cohort is as good as any other
    for cohort in cohorts:
        real = device(built, cohort)
        sequences = list(itertools.product(real.outputs(), repeat=reports))
        joint = {(a, b): float(real.chance(value, a + b)) for a, b in itertools.product(sequences, repeat=2)}
        alone = {a: float(real.chance(value, a)) for a in sequences}
        total += sum(p * math.log2(p / alone[a] / alone[b]) for (a, b), p in joint.items() if p) / len(cohorts)
    return math.log2(built.num_cohorts) + total


@pytest.mark.parametrize(("name", "parameters", "many"), CASES, ids=str)
def test_shared_bits_are_those_of_the_enumerated_reports(name, parameters, many):
    built = mechanism(name, **parameters)
    value = 1 if "domain_size" in parameters else "example.org"
    for reports in many:
        assert linkability(built).likeness.is_exact(reports)
        assert linkability(built).shared(reports) == pytest.approx(enumerated(built, value, reports), abs=2e-8)


@pytest.mark.parametrize("domain_size", [2, 3, 4])
def test_more_reports_of_a_symbol_share_at_most_what_is_stated(domain_size):
    given = {"domain_size": domain_size, "epsilon_permanent": 4.0, "epsilon_report": 3.0}
    built = mechanism("l-grr", **given)
    two, stated = enumerated(built, 1, 2), linkability(built)
    assert not stated.likeness.is_exact(2)
    assert enumerated(built, 1, 1) < two <= stated.shared(2)
    assert "share at most" in stated.words()


def test_one_round_shares_its_payload_and_no_round_but_a_fresh_one_nothing():
    oue = linkability(mechanism("oue", domain_size=5, epsilon=1.0))
    assert oue.shared(1) == oue.shared(30) == oue.unchanged.shannon_bits
    assert linkability(mechanism("opt-wb", domain_size=5, epsilon=1.0, window=3)).shared(30) == 0
    ranges = linkability(any_mechanism("ranges", domain_size=16, epsilon=1.0, branching=4))
    assert ranges.shared(1) == ranges.unchanged.shannon_bits


def test_what_many_bits_share_as_a_review_measured_it():
    hundred, thousand = (linkability(mechanism("l-osue", domain_size=d, **TWO)) for d in (100, 1000))
    assert [round(hundred.shared(n), 1) for n in (1, 3, 30)] == [2.7, 17.0, 53.1]
    assert [round(thousand.shared(n)) for n in (1, 3, 30)] == [27, 168, 527]
    assert "can be put together without one" not in hundred.carried()
    assert "can be put together without one" in thousand.carried()
    for stated in (hundred, thousand):
        assert "nothing stays the same" not in stated.words()
    assert "two share 26.6 bits, 30 and 30 share 527.1 bits" in thousand.words()
    assert thousand.to_json()["shared"]["two_reports"] == thousand.shared(1)


def linked(built, devices, rng, *, permanent=True):
    """The share of devices of one value of which a second report is most like their first, by exact likelihoods."""
    value = 1
    if isinstance(built, SymbolMechanism):
        return linked_symbols(built, devices, rng)
    size, rounds = built.encoding.num_bits, built.rounds
    rates = np.full(size, float(rounds.permanent.raise_zero))
    rates[value] = float(rounds.permanent.keep_one)
    keep, raised = float(rounds.instantaneous.keep_one), float(rounds.instantaneous.raise_zero)
    responses = rng.random((devices, size)) < rates
    first = rng.random((devices, size)) < np.where(responses, keep, raised)
    if not permanent:
        responses = rng.random((devices, size)) < rates
    second = rng.random((devices, size)) < np.where(responses, keep, raised)
    lit, unlit = np.where(first, keep, 1 - keep), np.where(first, raised, 1 - raised)
    after = rates * lit / (rates * lit + (1 - rates) * unlit)
    one = after * keep + (1 - after) * raised
    score = second @ np.log(one).T + ~second @ np.log1p(-one).T
    return np.mean(score.argmax(axis=1) == np.arange(devices))


def linked_symbols(built, devices, rng):
    k, rounds = built.encoding.num_symbols, built.rounds
    seeds = rng.integers(built.num_cohorts, size=devices)
    own = np.array([built.encoding.symbol(1, int(seed)) for seed in seeds])

    def through(channel, symbols):
        return np.where(rng.random(devices) < float(channel.alpha), symbols, rng.integers(k, size=devices))

    response = through(rounds.permanent, own)
    first, second = (through(rounds.instantaneous, response) for _ in range(2))
    own_first = first == own
    hits = 0
    for number in range(devices):
        same = seeds == seeds[number]
        score = np.where(same, 1 + (first == second[number]) + 0.1 * own_first, 0) + 1e-6 * rng.random(devices)
        hits += score.argmax() == number
    return hits / devices


def test_single_reports_of_many_bits_link_devices_and_those_of_a_seed_do_not():
    rng = np.random.default_rng(7)
    bits = mechanism("l-osue", domain_size=1000, **TWO)
    assert linkability(bits).shared(1) > math.log2(200)
    assert linked(bits, 200, rng) > 0.9
    # 20,000 devices over 256 seeds: about 78 share a seed, and 8.1 bits bound the share that is recognized
    seeds = mechanism("loloha", domain_size=1000, num_seeds=256, **TWO)
    bound = (linkability(seeds).shared(1) + 1) / math.log2(20_000)
    share = linked(seeds, 20_000, rng)
    assert share < bound
    assert share < 4 * 256 / 20_000


def test_without_a_permanent_response_the_attempt_to_link_fails():
    rng = np.random.default_rng(8)
    bits = mechanism("l-osue", domain_size=1000, **TWO)
    assert linked(bits, 200, rng, permanent=False) < 0.05


@pytest.mark.parametrize("broken", [0.0, 0.5])
def test_a_figure_that_ignores_the_permanent_response_is_seen_by_the_enumeration(broken):
    built = mechanism("l-osue", domain_size=3, **TWO)
    assert broken * linkability(built).shared(1) != pytest.approx(enumerated(built, 1, 1), abs=2e-8)


@pytest.mark.parametrize("reports", [0, 1001, 1.0])
def test_a_number_of_reports_that_is_none(reports):
    with pytest.raises(ParameterError, match="reports"):
        Likeness().beyond(reports)
