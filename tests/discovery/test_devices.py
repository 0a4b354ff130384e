"""The device's half: one group, one answer, and exactly the epsilon that is stated, by enumeration."""

import itertools
import math
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest

from overstory.client import ConsentError, OfferLedger
from overstory.discovery import (
    Answer,
    CodedIntegers,
    CodedStrings,
    Device,
    bitwise,
    discover,
    find,
    gather,
    prefix_extension,
)
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.search.plans import thresholds

TINY = CodedIntegers(3)


def symbol_chances(question, code, cohort):
    """P(every report) of a question's mechanism, from its channel, exactly."""
    encoding, channel = question.mechanism.encoding, question.mechanism.channel
    own = encoding.symbol(question.value(code), cohort)
    return [channel.keep if symbol == own else channel.other for symbol in range(encoding.num_symbols)]


def worst_ratio(plan, group, cohorts):
    """The largest log ratio over all outputs of one group's device, between any two codes."""
    worst = 0.0
    for cohort in cohorts:
        outputs = []
        for code in range(8):
            per_question = [symbol_chances(q, plan.held(q, code), cohort) for q in plan.groups[group].questions]
            outputs.append([math.prod(chances) for chances in itertools.product(*per_question)])
        for a, b in itertools.permutations(outputs, 2):
            worst = max(worst, *(math.log(x / y) for x, y in zip(a, b, strict=True)))
    return worst


@pytest.mark.parametrize("oracle", ["olh", "linear-hash", "hadamard", "grr"])
def test_a_partitioned_device_reveals_what_is_stated(oracle):
    plan = prefix_extension(epsilon=1.2, domain=TINY, step=1, oracle=oracle)
    for group in range(len(plan.groups)):
        cohorts = range(min(plan.groups[group].questions[0].mechanism.num_cohorts, 16))
        exact = worst_ratio(plan, group, cohorts)
        stated = plan.groups[group].epsilon
        assert exact <= stated + 1e-12
        assert stated - 1e-9 <= exact
    assert plan.epsilon <= 1.2


def test_a_split_budget_adds_up_to_what_is_stated():
    plan = bitwise(epsilon=1.5, domain=TINY, buckets=4)
    exact = worst_ratio(plan, 0, range(8))
    assert plan.epsilon <= 1.5
    assert plan.epsilon - 1e-7 <= exact <= plan.epsilon


def test_a_dictionary_costs_nothing_more():
    plan = discover(epsilon=1.1, domain=TINY, known=[1, 5], step=2, beam=2)
    for group in range(len(plan.groups)):
        assert worst_ratio(plan, group, range(24)) <= plan.epsilon <= 1.1


def test_a_broken_plan_fails_the_same_check():
    """A device that answers two questions at the whole epsilon each."""
    plan = prefix_extension(epsilon=1.2, domain=TINY, step=1, oracle="grr")
    from overstory.protocol.search.plans import Group, Plan

    both = tuple(q for group in plan.groups[:2] for q in group.questions)
    broken = Plan(domain=TINY, groups=(Group(1 << 32, both),))
    assert worst_ratio(broken, 0, range(1)) > 1.2
    assert worst_ratio(broken, 0, range(1)) <= broken.epsilon  # but the statement adds them up


def test_known_values_answer_elsewhere():
    plan = discover(epsilon=2.0, domain=CodedIntegers(16), known=[7, 9], step=4)
    dictionary, search = plan.groups[0].questions[0], plan.groups[1].questions[0]
    assert plan.held(dictionary, 7) == 7
    assert plan.held(dictionary, 8) is None
    assert plan.held(search, 7) is None
    assert plan.held(search, 8) == 8
    names = {search.value(code) for code in range(1 << 16)}
    assert search.value(None) not in names


@pytest.mark.parametrize("oracle", ["olh", "linear-hash", "grr", "hadamard"])
def test_elsewhere_is_no_prefix(oracle):
    plan = prefix_extension(epsilon=2.0, domain=CodedIntegers(10), levels=(4, 10), oracle=oracle)
    for question in plan.levels:
        names = {question.value(code) for code in range(1 << 10)}
        assert len(names) == 1 << question.num_bits
        assert question.value(None) not in names


def test_the_group_follows_from_the_secret_and_nothing_else():
    plan = prefix_extension(epsilon=2.0)
    secrets = [i.to_bytes(16, "big") for i in range(2000)]
    groups = [plan.group_of(secret, "m") for secret in secrets]
    assert groups == [Device(plan, secret=secret, metric="m", consented=True).group for secret in secrets]
    assert groups != [plan.group_of(secret, "other") for secret in secrets]
    counts = Counter(groups)
    for index in range(len(plan.groups)):
        expected = 2000 * plan.share(index)
        assert abs(counts[index] - expected) < 6 * math.sqrt(expected)


def test_asking_again_repeats_the_answer():
    device = Device(prefix_extension(epsilon=0.5), secret=b"s" * 16, metric="m", consented=True)
    again = Device(prefix_extension(epsilon=0.5), secret=b"s" * 16, metric="m", consented=True)
    assert len({device.answer(77) for _ in range(20)} | {again.answer(77)}) == 1
    assert device.epsilon <= 0.5


@pytest.mark.parametrize(
    "plan",
    [
        prefix_extension(epsilon=6.0, domain=CodedIntegers(12), step=4, beam=8),
        prefix_extension(epsilon=6.0, domain=CodedIntegers(12), step=6, beam=8, oracle="linear-hash"),
        prefix_extension(epsilon=6.0, domain=CodedIntegers(12), step=6, beam=8, oracle="hadamard"),
        discover(epsilon=6.0, domain=CodedStrings(2), known=["ok"], step=6, beam=8),
        bitwise(epsilon=60.0, domain=CodedIntegers(12), buckets=256),
        bitwise(epsilon=6.0, domain=CodedIntegers(12), buckets=256, partitioned=True, oracle="linear-hash"),
    ],
    ids=["olh", "linear", "hadamard", "dictionary", "split", "partitioned"],
)
def test_what_real_devices_hold_is_found(plan):
    values = ["ok", "no", "ok"] if isinstance(plan.domain, CodedStrings) else [4000, 77, 4000]
    answers = [
        Device(plan, secret=i.to_bytes(16, "big"), metric="m", consented=True).answer(values[i % 3])
        for i in range(1500)
    ]
    found = find(plan, gather(plan, answers), correction="bonferroni")
    wanted = [b"ok", b"no"] if isinstance(plan.domain, CodedStrings) else [4000, 77]
    assert found.raw_values[:2] == tuple(wanted)
    assert found.found()[:2] == tuple(wanted)
    assert abs(found.counts[0] - 1000) < 5 * found.standard_errors[0]


def test_the_devices_half_needs_the_standard_library_alone():
    code = (
        "import sys; from overstory.discovery import Device, discover;"
        "Device(discover(epsilon=1.0, known=[3]), secret=b'x' * 16, metric='m', consented=True).answer(5);"
        "print([m for m in ('numpy', 'scipy', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_answers_that_fit_no_plan_are_refused():
    plan = prefix_extension(epsilon=2.0, domain=CodedIntegers(8), step=4)
    with pytest.raises(ParameterError, match="answer 0: group 2 does not exist"):
        gather(plan, [Answer(2, (Report(0, 0),))])
    with pytest.raises(ParameterError, match="0 reports, 1 asked for"):
        gather(plan, [Answer(1, ())])
    other = bitwise(epsilon=2.0, domain=CodedIntegers(2), buckets=4, partitioned=True)
    with pytest.raises(ParameterError, match="other questions than its plan asks"):
        find(plan, gather(other, []))
    with pytest.raises(ParameterError, match="answers of 0 groups"):
        find(plan, ())


def test_plans_differ_where_reports_would():
    plans = [
        prefix_extension(epsilon=2.0),
        prefix_extension(epsilon=2.0, key="m"),
        prefix_extension(epsilon=2.1),
        prefix_extension(epsilon=2.0, step=4),
        prefix_extension(epsilon=2.0, oracle="linear-hash"),
        discover(epsilon=2.0),
        discover(epsilon=2.0, known=[1]),
        discover(epsilon=2.0, known=[2]),
        discover(epsilon=2.0, key="m"),
        bitwise(epsilon=2.0),
        bitwise(epsilon=2.0, key="m"),
        bitwise(epsilon=2.0, partitioned=True),
    ]
    assert len({plan.digest for plan in plans}) == len(plans)
    assert prefix_extension(epsilon=2.0).digest == plans[0].digest


def test_any_oracle_can_be_plugged_in():
    from overstory.protocol.mechanisms.registry import mechanism

    def binary(epsilon, domain_size, key):
        return mechanism("blh", epsilon=epsilon, hash_key=key, num_seeds=1 << 31)

    plan = prefix_extension(epsilon=5.0, domain=CodedIntegers(8), step=4, oracle=binary)
    assert plan.levels[0].mechanism.name == "blh"
    assert plan.epsilon <= 5.0


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: prefix_extension(epsilon=0), "epsilon = 0"),
        (lambda: prefix_extension(epsilon=1.0, step=0), "step = 0"),
        (lambda: prefix_extension(epsilon=1.0, beam=0), "beam = 0"),
        (lambda: prefix_extension(epsilon=1.0, step=20), "give shorter steps or a smaller beam, or the oracle linear"),
        (lambda: prefix_extension(epsilon=1.0, levels=(8, 8, 64)), "rising lengths"),
        (lambda: prefix_extension(epsilon=1.0, levels=(8, 32)), "end with the domain's width, 64"),
        (lambda: prefix_extension(epsilon=1.0, levels=()), "give prefix lengths"),
        (lambda: prefix_extension(epsilon=1.0, shares=[1, 2]), "2 shares for 8 levels"),
        (lambda: prefix_extension(epsilon=1.0, shares=[1, 1, 1, 1, 1, 1, 1, 0]), "above 0 for each group"),
        (lambda: prefix_extension(epsilon=1.0, oracle="none"), "there is no mechanism 'none'"),
        (lambda: prefix_extension(epsilon=1.0, oracle="dbitflip"), "dbitflip cannot search"),
        (lambda: discover(epsilon=1.0, known=[1], known_share=1.0), "known_share = 1.0"),
        (lambda: discover(epsilon=1.0, known=[-1]), "outside the domain"),
        (lambda: discover(epsilon=1.0, step=99), "step = 99"),
        (lambda: bitwise(epsilon=1.0, buckets=3), "give a power of two"),
        (lambda: prefix_extension(epsilon=1.0, key="k" * 63), "at most 64 bytes; this one has 65"),
        (lambda: discover(epsilon=1.0, known=[1], key="k" * 60), "at most 64 bytes; this one has 66"),
        (lambda: bitwise(epsilon=1.0, key="k" * 65), "at most 64 bytes"),
        (lambda: bitwise(epsilon=1.0, key=5), "key = 5: give text"),
        (lambda: bitwise(epsilon=1.0, oracle="olh"), "give an oracle over numbers"),
        (
            lambda: Device(prefix_extension(epsilon=1.0), secret=b"short", metric="m", consented=True),
            "at least 16 bytes",
        ),
        (
            lambda: Device(prefix_extension(epsilon=1.0), secret=b"s" * 16, metric="", consented=True),
            "give the metric's id",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(build, says):
    with pytest.raises(ParameterError, match=says):
        build()


def test_thresholds_follow_their_weights():
    drawn = np.diff([0, *thresholds([3, 1, 4])]) / 2**32
    assert np.allclose(drawn, [3 / 8, 1 / 8, 4 / 8], atol=1e-9)


@pytest.mark.parametrize("group", [-1, 8])
def test_a_group_that_no_plan_has_is_refused(group):
    with pytest.raises(ParameterError, match=rf"group {group} does not exist: the plan has groups 0 \.\. 7"):
        Device(prefix_extension(epsilon=1.0), secret=b"s" * 16, metric="m", consented=True, group=group)


def test_a_weaker_plan_is_refused():
    built, weaker, stronger = (prefix_extension(epsilon=e) for e in (1.0, 1.1, 0.9))
    Device(stronger, secret=b"s" * 16, metric="m", consented=True, built_with=built, ledger=OfferLedger())
    with pytest.raises(ParameterError, match="above the 1 that this program was built with"):
        Device(weaker, secret=b"s" * 16, metric="m", consented=True, built_with=built)


def test_a_ledger_takes_no_second_plan_whatever_its_epsilon_where_none_was_built_with():
    ledger = OfferLedger()
    Device(prefix_extension(epsilon=1.0), secret=b"s" * 16, metric="m", consented=True, ledger=ledger).answer(7)
    for epsilon in (0.5, 1.0, 50.0):
        with pytest.raises(ParameterError, match="would pass the ledger's limit"):
            Device(
                prefix_extension(epsilon=epsilon, key="2"), secret=b"s" * 16, metric="m", consented=True, ledger=ledger
            )


def test_a_plugged_in_oracle_over_a_small_domain_is_hashed_into():
    plan = prefix_extension(epsilon=2.0, domain=CodedIntegers(40), levels=(20, 40), beam=4, oracle="hadamard")
    question = plan.levels[1]
    assert not question.is_linear
    assert 0 <= question.value(123456789) < question.domain_size
    assert question.value(123456789) != question.value(987654321)


def test_a_bit_of_no_value_is_refused():
    with pytest.raises(ParameterError, match="a bit of no value"):
        bitwise(epsilon=1.0, domain=TINY, buckets=4).groups[0].questions[0].value(None)


# --- offers add up: F5

LEVEL = {"epsilon": 1.0, "domain": CodedIntegers(2), "levels": (2,), "oracle": "olh"}
BUILT = prefix_extension(**LEVEL)
DEVICES = 300


def guesses(plans, ledger, devices=DEVICES):
    """The share of two-bit values guessed from all answers that each device gives to plans told apart by their key."""
    right = 0
    for number in range(devices):
        secret, value = number.to_bytes(16, "big"), number % 4
        odds = [0.0] * 4
        for plan in plans:
            try:
                device = Device(plan, secret=secret, metric="m", consented=True, built_with=BUILT, ledger=ledger)
            except ParameterError:
                continue
            (report,) = device.answer(value).reports
            (question,) = plan.groups[0].questions
            for code in range(4):
                chances = symbol_chances(question, code, report.cohort)
                odds[code] += math.log(chances[report.bits])
        right += max(range(4), key=lambda code: (odds[code], code)) == value
    return right / devices


KEYED = [prefix_extension(**LEVEL, key=f"offer {number}") for number in range(40)]


def test_plans_told_apart_by_their_key_say_no_more_than_the_ledger_states():
    """Forty plans, none weaker: 97% of the values. The best guess at epsilon 1 among four is right for 47.5%."""
    ledger, most = OfferLedger(), math.e / (math.e + 3)
    guessed = guesses(KEYED, ledger)
    assert 0.3 < guessed <= most + 5 * math.sqrt(most * (1 - most) / DEVICES)
    assert all(ledger.spent(number.to_bytes(16, "big"), "m") <= 1.0 for number in range(DEVICES))


def test_the_attack_takes_most_values_where_every_plan_is_answered():
    assert guesses(KEYED, OfferLedger(limit=100.0), 100) > 0.9


def test_without_a_ledger_another_plan_is_refused():
    Device(BUILT, secret=b"s" * 16, metric="m", consented=True, built_with=BUILT)
    with pytest.raises(ParameterError, match=r"give ledger=OfferLedger\(file\)"):
        Device(KEYED[0], secret=b"s" * 16, metric="m", consented=True, built_with=BUILT)


def test_a_second_value_is_charged_and_past_the_limit_the_first_answer_is_repeated(tmp_path):
    plan, path = prefix_extension(epsilon=1.0), tmp_path / "answers.json"

    def device(limit=None):
        ledger = OfferLedger(path, limit=limit)
        return Device(plan, secret=b"s" * 16, metric="m", consented=True, ledger=ledger)

    first = device().answer(7)
    assert device().spent <= 1.0
    assert [device().answer(value) for value in (7, 8, 9)] == [first] * 3  # after a restart, too
    assert device().nothing() == first
    allowed = device(limit=2.5)
    assert [allowed.answer(8), allowed.answer(9)][1] == first
    assert 1.9 < allowed.spent <= 2.0
    assert (b"s" * 16).hex() not in path.read_text()


def test_a_device_that_has_no_value_answers_all_the_same():
    plan = prefix_extension(epsilon=1.0, domain=CodedIntegers(8), step=4)
    answers = [
        Device(plan, secret=number.to_bytes(16, "big"), metric="m", consented=True).nothing() for number in range(2000)
    ]
    found = find(plan, gather(plan, answers), correction="bonferroni")
    assert found.found() == ()
    assert {len(answer.reports) for answer in answers} == {1}


def test_nothing_is_answered_before_consent_nor_after_it_is_withdrawn():
    plan, agreed = prefix_extension(epsilon=1.0), [True]
    with pytest.raises(ConsentError, match="has not agreed"):
        Device(plan, secret=b"s" * 16, metric="m", consented=False).answer(7)
    device = Device(plan, secret=b"s" * 16, metric="m", consented=lambda: agreed[0])
    device.answer(7)
    agreed[0] = False
    for ask in (lambda: device.answer(7), device.nothing):
        with pytest.raises(ConsentError):
            ask()
    with pytest.raises(TypeError, match="consented"):
        Device(plan, secret=b"s" * 16, metric="m")
    with pytest.raises(ParameterError, match="consented = 'yes'"):
        Device(plan, secret=b"s" * 16, metric="m", consented="yes")
