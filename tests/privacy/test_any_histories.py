"""Any two histories of n reports: the stated epsilon against all pairs of histories of a real device, enumerated.

Nothing of `privacy.histories`, `privacy.any_bits` or `privacy.any_symbols` judges: tables are read off the samplers, a
history's outcomes are counted, and the worst ratio over all pairs of histories is, outcome by outcome, that of the
likeliest history to the least likely one.
"""

from collections import Counter, defaultdict
from decimal import Context, Decimal
from fractions import Fraction
from itertools import combinations, product
from math import inf, isinf

import pytest
from test_epsilons_of_tables import CASES, LONG, made, spread_cohort

from overstory.privacy import Account, Ledger, change_leak, epsilon_between, terms_of
from overstory.privacy.histories.bits import _Steps, patterns
from overstory.protocol.channels import SymbolChannel
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import SymbolMechanism
from overstory.protocol.mechanisms.registry import REGISTRY, mechanism
from overstory.protocol.mechanisms.sets import SetMechanism
from overstory.protocol.sampling import symbol_sampler
from support.enumerated_tables import TableDevice, bit_table, set_table, symbol_table

PRECISE = Context(prec=60)
NOTHING = "nothing"  # to report, which is a response of its own
BLOOM = {"num_bits": 3, "num_hashes": 1, "num_cohorts": 1}
FILTERS = [
    ("rappor", {**BLOOM, "f": 0.5, "p": 0.5, "q": 0.75}),
    ("rappor", {**BLOOM, "f": 0.25, "p": 0.75, "q": 0.25}),
    ("rappor", {**BLOOM, "num_hashes": 2, "f": 0.5, "p": 0.0, "q": 0.5}),
    ("rappor", {**BLOOM, "num_bits": 4, "num_hashes": 2, "f": 0.5, "p": 0.5, "q": 0.75}),
    ("rappor", {**BLOOM, "f": 0.0, "p": 0.25, "q": 0.75}),
    ("rappor", {**BLOOM, "num_hashes": 2, "f": 0.5, "hash_family": "google-rappor-python"}),
    ("rappor-one-time", {**BLOOM, "f": 0.5}),
]
ONE_HOT = [
    ("basic-rappor", {"domain_size": 2, "f": 0.25, "p": 0.25, "q": 0.75}),
    ("basic-rappor", {"domain_size": 3, "f": 0.5, "p": 0.5, "q": 0.75}),
    ("basic-rappor", {"domain_size": 4, "f": 0.5, "p": 0.5, "q": 0.75}),
    ("basic-rappor", {"domain_size": 3, "f": 0.5, "p": 0.75, "q": 0.25}),
    ("basic-rappor-one-time", {"domain_size": 3, "f": 0.5}),
    ("l-grr", {"domain_size": 2, "epsilon_permanent": 3.0, "epsilon_report": 0.5}),
    ("loloha", {"domain_size": 2, **LONG, "hash_range": 4}),
]
ALL = [*CASES, *FILTERS, *ONE_HOT]


def tables(built):
    """(values, device): the sampler's tables in a cohort where values differ as much as they can."""
    cohort = spread_cohort(built) if built.encoding.domain_size is not None else 0
    if isinstance(built, SetMechanism):
        values = range(built.encoding.domain_size)
        table = set_table(built, values)
        outputs = {output for row in table.values() for output in row}
        return values, TableDevice(table, {output: {output: 1} for output in outputs})
    if isinstance(built, SymbolMechanism):
        size = built.encoding.num_symbols
        both = [symbol_table(symbol_sampler(c), size) for c in (built.rounds.permanent, built.rounds.instantaneous)]
        held = sorted({built.encoding.symbol(v, cohort) for v in range(built.encoding.domain_size)})
        size = Fraction(1, size)
        both[0][NOTHING] = Counter(dict.fromkeys(both[1], size))
        return [*held, NOTHING], TableDevice(*both)
    both = [bit_table(c, built.encoding.num_bits) for c in (built.rounds.permanent, built.rounds.instantaneous)]
    if built.encoding.domain_size is not None:
        encode = {v: built.encode(v, cohort) for v in range(built.encoding.domain_size)}
        encode[NOTHING] = built.encoding.nothing

        def label(value, _):
            return value if value == NOTHING else built.response_key(value, cohort)

        return [*encode], TableDevice(*both, encode=encode.get, label=label)
    return None, TableDevice(*both, encode=lambda value: value[0], label=lambda value, _: value)


def strings(built, reports):
    """Strings are plenty: every filter there is, and as many strings of each as there are reports."""
    bits, hashes = built.encoding.num_bits, built.encoding.num_hashes
    google = built.encoding.family != "overstory-v1"
    weights = range(1, hashes + 1) if google else [hashes]
    filters = [sum(1 << bit for bit in chosen) for weight in weights for chosen in combinations(range(bits), weight)]
    copies = [(held, copy) for held in filters for copy in range(1 if google else reports)]
    return [*copies, (built.encoding.nothing, NOTHING)]


def worst_of_all(built, reports, device=None):
    """The worst log ratio over all pairs of histories and all outcomes."""
    values, real = tables(built)
    device = device or real
    values = strings(built, reports) if values is None else values
    seen, most, least, times = {}, defaultdict(Decimal), {}, Counter()
    histories = [history for history in product(values, repeat=reports) if in_order(history)]
    for history in histories:
        for outcome, chance in outcomes(device, history, seen):
            most[outcome] = max(most[outcome], chance)
            least[outcome] = min(least.get(outcome, chance), chance)
            times[outcome] += 1
    if any(count < len(histories) for count in times.values()):
        return Decimal("Infinity")  # one of the histories never does this, another does
    return max(PRECISE.ln(PRECISE.divide(most[outcome], least[outcome])) for outcome in most)


def in_order(history):
    """Of the strings with one filter, which are alike, the first comes first."""
    if not isinstance(history[0], tuple):
        return True
    copies = defaultdict(list)
    for held, copy in history:
        if copy != NOTHING and copy not in copies[held]:
            copies[held].append(copy)
    return all(order == list(range(len(order))) for order in copies.values())


def outcomes(device, history, seen):
    """Every outcome of a history, in turn, with its probability to sixty digits; impossible ones are left out."""
    groups = defaultdict(list)
    for time, value in enumerate(history):
        groups[device.label(value, time)].append(time)
    rows = []
    for times in groups.values():
        key = device.encode(history[times[0]]), len(times)
        if key not in seen:
            chances = device.seen(*key).items()
            seen[key] = [(o, PRECISE.divide(Decimal(p.numerator), Decimal(p.denominator))) for o, p in chances]
        rows.append([(list(zip(times, reports, strict=True)), chance) for reports, chance in seen[key]])
    for parts in product(*rows):
        chance = Decimal(1)
        for _, factor in parts:
            chance = PRECISE.multiply(chance, factor)
        yield tuple(report for _, report in sorted(pair for part, _ in parts for pair in part)), chance


def feasible(built):
    """How many reports can be enumerated: not more than a few hundred thousand (history, outcome) pairs."""
    values, device = tables(built)
    for reports in (3, 2):
        held = len(strings(built, reports) if values is None else values)
        if (held * len(device.instantaneous)) ** reports <= 300_000:
            return reports
    return 2


@pytest.fixture(params=ALL, ids=lambda case: f"{case[0]}-{'-'.join(map(str, case[1].values()))}", scope="module")
def built(request):
    return made(request.param[0], **request.param[1])


def test_every_mechanism_of_the_registry_is_here():
    assert {name for name, _ in ALL} >= set(REGISTRY)


@pytest.mark.sampled(12)
def test_no_two_histories_are_further_apart_than_stated_and_some_are_as_far(built):
    terms = terms_of(built)
    for reports in range(1, feasible(built) + 1):
        true, stated = worst_of_all(built, reports), terms.epsilon_any(reports)
        if true.is_infinite():
            assert stated == inf
        else:
            assert Decimal(stated) >= true
            assert Decimal(stated) * Decimal("0.99") < true or not terms.epsilon_any_is_exact(reports)
            assert Decimal(stated) - true < Decimal("1e-9") or not terms.epsilon_any_is_exact(reports)


def test_what_is_exact():
    for name, given in ALL:
        terms = terms_of(made(name, **given))
        google = given.get("hash_family") == "google-rappor-python"
        assert terms.epsilon_any_is_exact(1)
        assert [terms.epsilon_any_is_exact(n) for n in (2, 3)] == [not google] * 2, name


@pytest.mark.parametrize(
    ("name", "given", "reports"),
    [
        ("basic-rappor", {"domain_size": 2, "f": 0.25, "p": 0.25, "q": 0.75}, 5),
        pytest.param("basic-rappor", {"domain_size": 2, "f": 0.5, "p": 0.5, "q": 0.75}, 6, marks=pytest.mark.slow),
        pytest.param("basic-rappor", {"domain_size": 3, "f": 0.5, "p": 0.5, "q": 0.75}, 4, marks=pytest.mark.slow),
        ("opt-dr", {"domain_size": 2, "epsilon_permanent": 2.0}, 5),
        ("l-grr", {"domain_size": 2, **LONG}, 7),
        ("l-grr", {"domain_size": 3, **LONG}, 5),
        pytest.param("l-grr", {"domain_size": 3, **LONG}, 6, marks=pytest.mark.slow),
        ("loloha", {"domain_size": 2, **LONG, "hash_range": 3}, 6),
    ],
)
def test_more_reports_than_are_searched(name, given, reports):
    built = made(name, **given)
    true, terms = worst_of_all(built, reports), terms_of(built)
    stated = Decimal(terms.epsilon_any(reports))
    assert stated >= true
    assert stated < 2 * true
    assert stated - true < Decimal("1e-9") or not terms.epsilon_any_is_exact(reports)


def test_a_device_that_keeps_more_than_it_says_is_caught():
    built = made("l-grr", domain_size=3, **LONG)
    stated = Decimal(terms_of(built).epsilon_any(2))
    for permanent, instantaneous in ((1.05, 1), (1, 1.05)):
        channels = built.rounds.permanent, built.rounds.instantaneous
        kept = [c.alpha * int(100 * by) / 100 for c, by in zip(channels, (permanent, instantaneous), strict=True)]
        broken = [symbol_table(symbol_sampler(on_grid(3, alpha)), 3) for alpha in kept]
        broken[0][NOTHING] = Counter(dict.fromkeys(range(3), Fraction(1, 3)))
        assert worst_of_all(built, 2, TableDevice(*broken)) > stated


def on_grid(size, alpha):
    return SymbolChannel(size, (alpha * 2**32).__floor__() / alpha.__class__(2**32))


def test_a_device_that_draws_again_is_no_longer_worst_at_that():
    """Nothing that a history repeats is remembered: what any two histories tell is n reports, and less here."""
    built = made("basic-rappor", domain_size=3)
    _, device = tables(built)
    device.label = lambda _, time: time
    true = worst_of_all(built, 3, device)
    assert true < Decimal(terms_of(built).epsilon_any(3))
    assert abs(true - 3 * Decimal(built.epsilon_report)) < Decimal("1e-9")


def test_the_audits_figures():
    """What was printed for 3 reports was 1.378 at most, 2.330, 2.330; RAPPOR's change in 4 reports was 25.18.

    The audit found 2.661 for the last of the three; to report nothing has come since.
    """
    basic, chain = made("basic-rappor", domain_size=3), made("l-grr", domain_size=3, **LONG)
    hashed = made("loloha", domain_size=2, **LONG, hash_range=3)
    assert [round(terms_of(one).epsilon_any(3), 3) for one in (basic, chain, hashed)] == [1.777, 3.210, 2.682]
    rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    one, other = ["a"] * 4, ["a", "b", "c", "d"]
    # In the cohort where these four filters overlap least.
    apart = max(epsilon_between(rappor, one, other, cohort=cohort) for cohort in range(16))
    assert 37.1 < apart <= terms_of(rappor).epsilon_any(4)
    changed = epsilon_between(made("basic-rappor", domain_size=4), [0] * 30, [0] * 15 + [1] * 15)
    assert round(changed, 2) == 22.04
    assert changed <= terms_of(made("basic-rappor", domain_size=4)).epsilon_any(30)


LONGER = [
    ("basic-rappor", {"domain_size": 4}),
    ("opt-dr", {"domain_size": 3, "epsilon_permanent": 2.0}),
    ("opt-dr", {"domain_size": 100, "epsilon_permanent": 1.0}),
    ("l-grr", {"domain_size": 100, **LONG}),
    ("loloha", {**LONG}),
    ("l-osue", {"domain_size": 10, **LONG}),
    ("rappor", {"num_bits": 128, "num_hashes": 2, "num_cohorts": 16, "f": 0.5, "p": 0.5, "q": 0.75}),
    ("rappor", {"num_bits": 32, "num_hashes": 1, "num_cohorts": 64, "f": 0.25, "p": 0.35, "q": 0.65}),
]


@pytest.mark.parametrize(("name", "given"), LONGER, ids=lambda part: part if isinstance(part, str) else "")
def test_it_rises_with_every_report_stays_finite_and_covers_the_other_numbers(name, given):
    built = mechanism(name, **given)
    terms = terms_of(built)
    stated = [terms.epsilon_any(n) for n in range(1, 40)]
    assert stated == sorted(stated)
    assert all(terms.epsilon_any(n) >= max(terms.epsilon_n(n), terms.change_leak(n)) for n in (2, 3, 4, 5, 12, 40))
    rounds = terms.rounds.instantaneous
    once = rounds.epsilon if isinstance(built, SymbolMechanism) else whole(rounds, built.encoding.num_bits)
    for n in (100, 10**4, 10**6):
        assert stated[-1] < terms.epsilon_any(n) < n * once


def whole(channel, bits):
    """The second round's own epsilon over any two permanent responses of so many bits."""
    keep, raised = float(channel.keep_one), float(channel.raise_zero)
    logs = [PRECISE.ln(Decimal(a) / Decimal(b)) for a, b in ((keep, raised), (1 - keep, 1 - raised))]
    return bits * float(max(abs(log) for log in logs))


def test_one_memoized_round_proves_a_change():
    for name in ("grr", "olh", "subset", "oue", "dbitflip", "rappor-one-time"):
        built = made(name, **next(given for known, given in ALL if known == name))
        assert isinf(terms_of(built).epsilon_any(2)), name
        assert change_leak(built) == inf


def test_fresh_noise_is_as_it_was():
    built = made("opt-wb", domain_size=3, epsilon=1.0, window=10)
    terms = terms_of(built)
    assert terms.epsilon_any(10) == terms.epsilon_n(10) == pytest.approx(1.0)
    assert terms.epsilon_any_is_exact(10)


def test_a_ledger_has_it_account_by_account():
    colour, shape = mechanism("basic-rappor", domain_size=4), mechanism("basic-rappor", domain_size=3)
    accounts = [
        Account(name, built.digest.hex(), terms_of(built), ((0, reports),))
        for name, built, reports in (("colour", colour, 30), ("shape", shape, 2))
    ]
    ledger = Ledger((accounts[0],))
    assert ledger.epsilon_any == terms_of(colour).epsilon_any(30) < inf
    ledger = Ledger((*accounts,))
    parts = terms_of(colour).epsilon_any(30) + terms_of(shape).epsilon_any(2)
    assert ledger.epsilon_any == pytest.approx(parts)


def test_what_is_no_number_of_reports():
    for reports in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="at least 1"):
            terms_of(mechanism("basic-rappor", domain_size=3)).epsilon_any(reports)
    with pytest.raises(ParameterError, match="at least 1"):
        terms_of(mechanism("basic-rappor", domain_size=3)).epsilon_any_is_exact(0)


def test_all_pairs_of_patterns_are_looked_at():
    """Counted another way: pairs of labellings of the reports, up to the order of reports, labels and the two."""
    for reports in (2, 3, 4):
        pairs = set()
        labels = list(product(range(reports), repeat=reports))
        for first, second in product((one for one in labels if sorted(one) == list(one)), labels):
            pairs.add(frozenset((named(first, second), named(second, first))))
        found = {frozenset((named(*spread(p)), named(*reversed(spread(p))))) for p in patterns(reports)}
        assert found == pairs


def spread(pattern):
    """The two labellings of a pattern, report by report."""
    labels = [pair for pair, count in pattern for _ in range(count)]
    return [one for one, _ in labels], [other for _, other in labels]


def named(first, second):
    """What two labellings have in common with all that only name or order otherwise: neighbourhoods, refined."""
    colours = [0] * len(first)
    for _ in range(4):
        around = [
            (
                colours[i],
                tuple(sorted((colours[j], second[j] == second[i]) for j in range(len(first)) if first[j] == first[i])),
                tuple(sorted((colours[j], first[j] == first[i]) for j in range(len(first)) if second[j] == second[i])),
            )
            for i in range(len(first))
        ]
        order = {one: index for index, one in enumerate(sorted(set(around)))}
        colours = [order[one] for one in around]
    return tuple(sorted(around))


@pytest.mark.parametrize(("ones", "responses"), [(0, 2), (1, 4), (2, 3), (3, 2)])
def test_the_steps_of_filters_lower_every_one_that_is_left(ones, responses):
    """The search numbers states by their digits: here by the digits themselves."""
    steps = _Steps.of(ones, responses)
    assert steps.digits == tuple(sorted(steps.digits))
    for bits, moves in zip(steps.bits, steps.moves, strict=True):
        assert [before for before, _ in moves] == sorted((before for before, _ in moves), reverse=True)
        lowered = {steps.digits[before]: steps.digits[then] for before, then in moves}
        left = [state for state in steps.digits if all(d >= b for d, b in zip(state, bits, strict=True))]
        assert lowered == {state: tuple(d - b for d, b in zip(state, bits, strict=True)) for state in left}
