"""A search under the laws of every oracle: exact epsilon, also over time; permanence; counts; the wire."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from test_kind_laws import KINDS

from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.analysis.kinds.split import SearchSupport
from overstory.analysis.reports import ReportBatch
from overstory.audit.laws import law_of, log_of, payloads_of
from overstory.client import Randomizer
from overstory.privacy.terms import terms_from_json, terms_of
from overstory.protocol.domains.codes import ELSEWHERE
from overstory.protocol.errors import ParameterError
from overstory.protocol.search import SearchMechanism, prefix_search

STRINGS = {"domain": "strings", "max_bytes": 3}
SEARCHES = {name: built for name, (built, _) in KINDS.items() if isinstance(built, SearchMechanism)}
SEARCHES["strings"] = prefix_search(values=STRINGS, epsilon=4.0, known=["oak"], known_share=0.5)
SECRETS = [number.to_bytes(16, "big") for number in range(3000)]
SPREADS = 5.5
"""Standard deviations: a statistical check here fails by chance less than once in 10^7 looks."""

every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


def codes(search):
    width = search.plan.domain.width
    return [*sorted({0, 1, 5, (1 << width) - 1, *search.plan.known}), ELSEWHERE]


def numbers(search, each=12):
    for start, stop in zip(search.bounds, search.bounds[1:], strict=False):
        yield from {start + (stop - 1 - start) * i // (each - 1) for i in range(each)}


def chances(search, cohort, code):
    """P(answer | code), exact; None is nothing to report."""
    size = len(payloads_of(search, cohort))
    return [Fraction(1, size)] * size if code is None else law_of(search, code, cohort)


# --- law 1: epsilon, of one answer and of any history -------------------------------------------------------------
def once(history):
    """What a device answers about: its first value (`test_search_recording` holds the client to it)."""
    return history[:1]


def at_every_change(history):
    """Broken on purpose: a changed value is answered again."""
    return [value for before, value in zip((object(), *history), history, strict=False) if value != before]


def in_every_period_anew(history):
    """Broken on purpose: a device of a search without permanent answers."""
    return list(history)


def worst_of_histories(search, cohort, answered):
    values = (codes(search)[0], codes(search)[1], ELSEWHERE, None)
    worst = Fraction(1)
    laws = []
    for history in product(values, repeat=2):
        parts = [chances(search, cohort, value) for value in answered(history)]
        laws.append(
            {
                seen: math.prod(p[i] for p, i in zip(parts, seen, strict=True))
                for seen in product(*map(range, map(len, parts)))
            }
        )
    seen = set().union(*laws)
    for transcript in seen:
        likely = [law.get(transcript, Fraction(0)) for law in laws]
        if not min(likely):
            return math.inf
        worst = max(worst, max(likely) / min(likely))
    return float(log_of(worst))


SMALLEST = prefix_search(values={"domain": "integers", "bits": 3}, epsilon=1.0, beam=2, step=2)


def test_any_two_histories_cost_one_epsilon():
    terms = terms_of(SMALLEST)
    for cohort in numbers(SMALLEST, each=4):
        assert worst_of_histories(SMALLEST, cohort, once) <= SMALLEST.epsilon_report
    assert terms.epsilon_any(1) == terms.epsilon_any(2) == terms.epsilon_any(365) == SMALLEST.epsilon_report
    assert terms.epsilon_any_is_exact(365)
    assert terms.epsilon_values(9) == SMALLEST.epsilon_report
    assert not terms.proves_changes
    assert terms_from_json(terms.canonical()) == terms


@pytest.mark.parametrize("broken", [at_every_change, in_every_period_anew])
def test_a_device_that_answers_more_than_once_is_caught(broken):
    cohorts = list(numbers(SMALLEST, each=4))
    assert max(worst_of_histories(SMALLEST, cohort, broken) for cohort in cohorts) > SMALLEST.epsilon_report + 0.1


# --- laws 2 to 4: what a device draws -----------------------------------------------------------------------------
def agreement(search, first, second):
    """How often two answers are the same, over what chance gives, in standard deviations."""
    pairs = list(zip(first, second, strict=True))
    shares = [
        sum(a == symbol for a, _ in pairs) * sum(b == symbol for _, b in pairs) for symbol in {a for a, _ in pairs}
    ]
    expected = sum(shares) / len(pairs)
    return abs(sum(a == b for a, b in pairs) - expected) / math.sqrt(expected)


@every_search
def test_an_answer_is_permanent_and_another_metric_or_plan_or_value_has_its_own(search):
    cohort, code = next(numbers(search, each=2)), codes(search)[0]
    answers = [search.responder(secret, "m", cohort)(code) for secret in SECRETS]
    assert answers == [search.responder(secret, "m", cohort)(code) for secret in SECRETS]
    assert agreement(search, answers, answers) > SPREADS, "the check sees one that is shared"
    others = [search.responder(secret, "another", cohort)(code) for secret in SECRETS]
    nothing = [search.nothing(secret, "m", cohort) for secret in SECRETS]
    assert agreement(search, answers, nothing) < SPREADS
    noise = [a == search.encode(code, cohort) for a in answers], [a == search.encode(code, cohort) for a in others]
    assert agreement(search, *noise) < SPREADS
    plan = prefix_search(**search.parameters | {"epsilon": search.parameters["epsilon"] * 0.9})
    later = [plan.responder(secret, "m", cohort)(code) == plan.encode(code, cohort) for secret in SECRETS]
    assert agreement(search, noise[0], later) < SPREADS


@every_search
def test_a_devices_question_follows_from_its_secret_and_from_no_value(search):
    devices = [Randomizer(search, secret=secret, metric="m") for secret in SECRETS]
    for device in devices[:50]:
        reports = [device.report(code) for code in codes(search)]
        assert {report.cohort for report in reports} == {device.cohort}
        assert all(
            0 <= report.bits < search.parts[search.place_of(device.cohort)[0]].payload_limit for report in reports
        )
    ends = [0, *(question.threshold for question in search.plan.questions)]
    for group, size in enumerate(np.bincount([search.place_of(device.cohort)[0] for device in devices])):
        share = (ends[group + 1] - ends[group]) / 2**32
        assert abs(size - len(devices) * share) <= SPREADS * math.sqrt(len(devices) * share * (1 - share))


# --- laws 6 and 7: counts and the wire ------------------------------------------------------------------------------
@every_search
def test_counts_are_the_answers_to_each_question_and_add_up_in_any_order(search):
    devices = SimulatedDevices.holding(
        search, codes(search), np.arange(900) % len(codes(search)), np.random.default_rng(1)
    )
    reports, parts = devices.report(), list(devices.batches(size=217))
    assert np.array_equal(np.concatenate([part.bits for part in parts]), reports.bits), (
        "whatever rows are drawn together"
    )
    counts = count_reports(search, reports)
    assert (
        counts.totals.tolist()
        == np.bincount([search.place_of(int(n))[0] for n in reports.cohorts], minlength=len(search.parts)).tolist()
    )
    answered = [SearchSupport(search).reports_of(reports, group) for group in range(len(search.parts))]
    assert [len(batch) for batch in answered] == counts.totals.tolist()
    with pytest.raises(ParameterError, match="bits and"):
        count_reports(search, ReportBatch(reports.cohorts, reports.bits, search.payload_bits + 1, search.num_cohorts))


@every_search
def test_simulated_devices_answer_by_the_devices_law(search):
    size, code = 20_000, codes(search)[1]
    devices = SimulatedDevices.holding(search, [code], np.zeros(size, np.int32), np.random.default_rng(2))
    reports = devices.report()
    true = [
        search.encode(code, int(cohort)) == int(bits[0])
        for cohort, bits in zip(reports.cohorts, reports.bits, strict=True)
    ]
    keep = [float(search.parts[search.place_of(int(cohort))[0]].channel.keep) for cohort in reports.cohorts]
    spread = math.sqrt(sum(p * (1 - p) for p in keep))
    assert abs(sum(true) - sum(keep)) < SPREADS * spread
