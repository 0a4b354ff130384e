"""The contract of everything in the registry of numbers: epsilon, unbiasedness, wire, known answers, account."""

import json
import math
import pickle
from collections import defaultdict
from fractions import Fraction
from itertools import product

import pytest

from overstory.privacy import statement
from overstory.privacy.payloads.registry import terms_from_json, terms_of
from overstory.protocol.channels import SymbolChannel
from overstory.protocol.errors import FormatError, ParameterError, WireError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.bits import l_osue
from overstory.protocol.metrics.mechanisms import FAMILIES, any_mechanism
from overstory.protocol.numeric import RangeRandomizer, SquareWave, means, randomizer, windows
from overstory.protocol.sampling import SeededEntropy, symbol_sampler
from overstory.protocol.wire.upload import decode_batch, encode_reports
from support.exact_draws import exact_distribution, worst_ratio
from support.numeric_vectors import PATH, answer, travelling

ONE = 1 << 32
NAMES = {*FAMILIES["numbers"].builders, "ranges"}
SMALL = {
    "square-wave": ({"epsilon": 1.0, "resolution": 5}, {"epsilon": 4.0, "resolution": 2, "minimum": -3.0}),
    "duchi": ({"epsilon": 1.0, "resolution": 3}, {"epsilon": 0.01, "resolution": 2, "maximum": 9.0}),
    "piecewise": ({"epsilon": 1.0, "resolution": 4}, {"epsilon": 6.0, "resolution": 2}),
    "hybrid": ({"epsilon": 1.0, "resolution": 3}, {"epsilon": 0.5, "resolution": 3}),
    "ranges": ({"epsilon": 1.0, "domain_size": 5, "branching": 2}, {"epsilon": 3.0, "domain_size": 3}),
}
CASES = [pytest.param(name, given, id=f"{name}-{given}") for name, sets in SMALL.items() for given in sets]
KNOWN = json.loads(PATH.read_text(encoding="utf-8"))


def values_of(built):
    """A value of every position, or every symbol; those of a range of numbers lie at steps, the last at its end."""
    if isinstance(built, RangeRandomizer):
        return list(range(built.domain_size))
    width = Fraction(built.domain.width)
    return [Fraction(built.domain.minimum) + width * i / built.resolution for i in range(built.num_positions)]


def cuts_of(read):
    """Every threshold in a canonical form."""
    for key, value in read.items():
        if isinstance(value, dict):
            yield from cuts_of(value)
        elif key == "threshold":
            yield value


def chances(built, value):
    """P(report | value). Numbers are really drawn, from every way random bits can fall; a level's bits have laws of
    their own (the contract of mechanisms), and independent.
    """
    if not isinstance(built, RangeRandomizer):
        return exact_distribution(lambda entropy: built.randomize(value, entropy), [*cuts_of(built.canonical())])
    found = defaultdict(Fraction)
    for level, mechanism in enumerate(built.mechanisms, start=1):
        node, one, zero = built.tree.node(value, level), mechanism.p_star, mechanism.q_star
        for bits in product((0, 1), repeat=mechanism.payload_bits):
            chance = Fraction(1, len(built.mechanisms))
            for i, bit in enumerate(bits):
                raised = one if i == node else zero
                chance *= raised if bit else 1 - raised
            found[Report(level - 1, sum(bit << i for i, bit in enumerate(bits)))] += chance
    return dict(found)


@pytest.fixture
def drawn_at_will(monkeypatch):
    for module in (windows, means):
        monkeypatch.setattr(module, "uniform_below", lambda bound, entropy: entropy.below(bound))


def test_every_name_is_under_contract():
    assert set(SMALL) == NAMES, "give each registry name its parameters here"
    assert {vector["name"] for vector in KNOWN["vectors"]} == NAMES, "add vectors with support.numeric_vectors"
    assert all(any_mechanism(name, **sets[0]).name == name for name, sets in SMALL.items())


@pytest.mark.parametrize(("name", "given"), CASES)
@pytest.mark.usefixtures("drawn_at_will")
def test_epsilon_is_the_worst_log_ratio_of_what_is_drawn(name, given):
    built = any_mechanism(name, **given)
    exact = math.log(worst_ratio([chances(built, value) for value in values_of(built)]))
    assert exact - 1e-12 <= built.epsilon_report <= exact + 1e-9
    assert built.epsilon_report <= given["epsilon"]
    assert built.epsilon_permanent == built.epsilon_report


@pytest.mark.parametrize(("name", "given"), CASES)
@pytest.mark.usefixtures("drawn_at_will")
def test_reports_are_unbiased(name, given):
    built = any_mechanism(name, **given)
    for value in values_of(built):
        mean = defaultdict(Fraction)
        for report, chance in chances(built, value).items():
            for what, estimate in estimates(built, report):
                mean[what] += chance * estimate
        for what, expected in truths(built, value):
            slack = Fraction(built.domain.width) / (2 * built.resolution) if isinstance(built, SquareWave) else 0
            assert abs(mean[what] - expected) <= slack


@pytest.mark.parametrize(("name", "given"), [case for case in CASES if case.values[0] != "ranges"])
@pytest.mark.usefixtures("drawn_at_will")
def test_nothing_to_report_is_as_private_as_a_value(name, given, monkeypatch):
    built = any_mechanism(name, **given)

    def silent(entropy):
        monkeypatch.setattr(randomizer, "KeyedEntropy", lambda *_, **__: entropy)
        return Report(0, built.nothing(bytes(16), "m"))

    monkeypatch.setattr(randomizer, "uniform_below", lambda bound, entropy: entropy.below(bound))
    nothing = exact_distribution(silent, [*cuts_of(built.canonical())])
    for value in values_of(built):
        assert math.log(worst_ratio([nothing, chances(built, value)])) <= built.epsilon_report + 1e-12


@pytest.mark.parametrize(("name", "given"), CASES)
def test_a_device_answers_as_those_of_mechanisms_do(name, given):
    built, secret = any_mechanism(name, **given), bytes(16)
    for cohort in range(built.num_cohorts):
        responder, draws = built.responder(secret, "m", cohort), []
        for value in values_of(built):
            again = pickle.loads(pickle.dumps(built)).responder(secret, "m", cohort)
            assert responder(value) == again(value) == built.instantaneous(responder(value), None)
            draws.append((built.response_key(value, cohort), responder(value)))
        assert all(built.valid(payload) for _, payload in draws)
        assert len(set(draws)) == len({key for key, _ in draws})  # one response for one key
        assert built.valid(built.nothing(secret, "m", cohort))
    assert (built.fresh, built.epsilon_n(9)) == (False, built.epsilon_report)


def test_a_level_of_two_rounds_has_no_round_of_its_own():
    def two_rounds(size, epsilon):
        return l_osue(domain_size=size, epsilon_permanent=2 * epsilon, epsilon_report=epsilon)

    with pytest.raises(ParameterError, match="second round"):
        _ = RangeRandomizer(9, 1.0, level_oracle=two_rounds).instantaneous


class EagerDuchi(means.Duchi):
    """Sends the rounded end more often than it says."""

    def draw(self, position, entropy):
        end = int(means.uniform_below(self.resolution, entropy) < position)
        return symbol_sampler(SymbolChannel(2, self.channel.alpha + Fraction(1, 8)))(end, entropy.bits)


class NearestDuchi(means.Duchi):
    """Rounds to the nearer end instead of at random: as private, and biased."""

    def draw(self, position, entropy):
        return symbol_sampler(self.channel)(int(2 * position > self.resolution), entropy.bits)


class LookingHybrid(means.Hybrid):
    """Chooses its branch by the value."""

    def draw(self, position, entropy):
        if 2 * position > self.resolution:
            return self.piecewise.draw(position, entropy) << 1 | 1
        return self.duchi.draw(position, entropy) << 1


@pytest.mark.usefixtures("drawn_at_will")
def test_broken_randomizers_are_caught():
    eager, biased, looking = (kind(1.0, resolution=3) for kind in (EagerDuchi, NearestDuchi, LookingHybrid))
    cuts = [*cuts_of(eager.canonical()), *cuts_of(looking.canonical()), eager.thresholds()["threshold"] + ONE // 8]

    def drawn(built):
        return [
            exact_distribution(lambda entropy, value=value: built.randomize(value, entropy), cuts)
            for value in values_of(built)
        ]

    assert math.log(worst_ratio(drawn(eager))) > eager.epsilon_report + 0.1
    assert worst_ratio(drawn(looking)) == math.inf
    bias = [
        sum(chance * biased.debias(report.bits) for report, chance in chances.items()) - value
        for value, chances in zip(values_of(biased), drawn(biased), strict=True)
    ]
    assert [abs(error) > 0.1 for error in bias] == [False, True, True, False]
    assert math.log(worst_ratio(drawn(biased))) <= biased.epsilon_report + 1e-12


def estimates(built, report):
    """What one report says: of the value, or of every node of its level (so many times as there are levels)."""
    if not isinstance(built, RangeRandomizer):
        return [("value", built.debias(report.bits))]
    mechanism = built.mechanisms[report.cohort]
    p, q, levels = mechanism.p_star, mechanism.q_star, built.num_cohorts
    return [
        ((report.cohort, node), levels * ((report.bits >> node & 1) - q) / (p - q))
        for node in range(mechanism.payload_bits)
    ]


def truths(built, value):
    if not isinstance(built, RangeRandomizer):
        return [("value", value)]
    sizes = enumerate(built.tree.level_sizes)
    return [((level, node), built.tree.node(value, level + 1) == node) for level, n in sizes for node in range(n)]


@pytest.mark.parametrize(("name", "given"), CASES)
def test_reports_survive_the_wire(name, given):
    built = any_mechanism(name, **given)
    sent = [built.randomize(value, SeededEntropy(i)) for i, value in enumerate(values_of(built) * 5)]
    raw = encode_reports(built, [travelling(built, report) for report in sent])
    batch = decode_batch(raw)
    assert batch.digest == built.digest
    back = list(batch)
    assert [built.from_wire(report) for report in back] == sent if name == "ranges" else back == sent


def test_a_report_that_its_level_has_not_is_refused():
    ranges = any_mechanism("ranges", epsilon=1.0, domain_size=100)
    assert ranges.from_wire(Report(0, 3)).level == 1
    with pytest.raises(WireError, match="level 1 has bits past its 2"):
        ranges.from_wire(Report(0, 4))
    with pytest.raises(ParameterError, match="cohort"):
        ranges.from_wire(Report(4, 0))


def test_a_level_with_cohorts_does_not_travel():
    from overstory.protocol.mechanisms.symbols import olh

    hashed = RangeRandomizer(100, 1.0, level_oracle=lambda size, epsilon: olh(domain_size=size, epsilon=epsilon))
    with pytest.raises(ParameterError, match="cohorts do not travel"):
        hashed.to_wire(hashed.randomize(3, SeededEntropy(1)))


@pytest.mark.parametrize(("name", "given"), CASES)
def test_parameters_make_it_again_and_its_form_is_plain(name, given):
    built = any_mechanism(name, **given)
    again = any_mechanism(name, **built.parameters)
    assert (again, again.digest) == (built, built.digest)
    assert json.loads(json.dumps(built.canonical(), allow_nan=False)) == built.canonical()
    assert any_mechanism(name, **{**given, "epsilon": 1.25}).digest != built.digest


@pytest.mark.parametrize(("name", "given"), CASES)
def test_terms_say_what_it_costs(name, given):
    built = any_mechanism(name, **given)
    terms = terms_of(built)
    assert terms.epsilon_n(1) == terms.epsilon_n(50) == built.epsilon_report
    assert terms.change_leak(2) == math.inf
    assert terms.epsilon_values(2) == 2 * built.epsilon_report
    assert statement(built).epsilon_permanent == built.epsilon_permanent
    assert terms.most_values == statement(built).domain_size == len(values_of(built))


@pytest.mark.parametrize("odds", [[1, 2], [1, 0], [-2, -1], [1], "no", [1.5, "x"]])
def test_terms_that_promise_nothing_are_refused(odds):
    with pytest.raises(FormatError, match="no terms of numbers"):
        terms_from_json({"kind": "numbers", "odds": odds, "most_values": 4})


def inputs(vector):
    return {key: vector[key] for key in ("name", "parameters", "value", "secret", "metric", "seed")}


@pytest.mark.parametrize("vector", KNOWN["vectors"], ids=lambda vector: f"{vector['name']}-{vector['metric']}")
def test_known_answers(vector):
    assert answer(**inputs(vector)) == vector["answer"]


@pytest.mark.parametrize("fault", KNOWN["altered"], ids=lambda fault: "-".join([*fault["change"]]))
def test_altered_inputs_do_not_give_the_known_answers(fault):
    vector = KNOWN["vectors"][fault["vector"]]
    given = answer(**inputs(vector) | fault["change"])
    assert all(given[part] != vector["answer"][part] for part in fault["must_change"])


@pytest.mark.parametrize("fault", KNOWN["refused"], ids=lambda fault: fault["message"])
def test_refused_inputs(fault):
    with pytest.raises(ParameterError) as caught:
        answer(**inputs(KNOWN["vectors"][fault["vector"]]) | fault["change"])
    assert fault["message"] in str(caught.value)


@pytest.mark.parametrize("fault", KNOWN["damaged_batches"], ids=lambda fault: fault["reason"])
def test_damaged_batches(fault):
    raw = bytearray.fromhex(KNOWN["vectors"][fault["vector"]]["answer"]["batch"])
    raw[fault["byte"]] ^= fault["xor"]
    with pytest.raises(WireError) as caught:
        decode_batch(bytes(raw))
    assert caught.value.reason == fault["reason"]
