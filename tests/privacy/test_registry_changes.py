"""What weakens a promise under the same id is found, whatever it is; what does not is not called so."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from overstory.privacy.registry.changes import Change, Harm, compare_registries
from overstory.privacy.registry.cost import lifetime_epsilon
from overstory.privacy.terms import terms_of
from overstory.protocol.metrics import Metric, parse_registry
from referee.model import cohorts_of, lived, step, truth
from support.devices import oblivious_registry
from support.oblivious_receiver import Receiver
from support.registry_texts import OBLIVIOUS, registry_of

FIRST = Receiver(key_id=1)

PLAIN = {
    "domain": '{kind = "bins", min = 0, max = 2, count = 4}',
    "oracle": '"l-osue"',
    "parameters": "{epsilon_permanent = 3.0, epsilon_report = 1.0}",
    "max_values": "3",
}


def text(*ids, version="1", **said):
    """A registry of metrics alike, whose keys are as TOML writes them; None leaves one out."""
    keys = {key: value for key, value in (PLAIN | said).items() if value is not None}
    return registry_of(dict.fromkeys(ids or ("m",), keys), version=version)


def registry(**said):
    return parse_registry(text(**said))


def changes(new, **old):
    return compare_registries(registry(**old), registry(version="2", **old | new))


def kinds(found):
    return {(change.what, change.kind) for change in found if change.metric}


def weakened(found):
    return {change.what for change in found if change.kind == Harm.WEAKENS}


def test_nothing_changed():
    assert compare_registries(registry(), registry()) == []
    (only,) = changes({})
    assert (only.metric, only.what, only.kind, only.detail) == ("", "registry", Harm.HARMLESS, "version 1 becomes 2")


def test_a_panels_answers_have_no_noise_of_before():
    """All is drawn afresh: a smaller epsilon weakens nothing, and nothing of before is answered again."""
    own = {"panel": '{cycle = "year"}', "oracle": '"grr"', "parameters": "{epsilon = 2.0}", "max_values": None}
    smaller, larger = (changes({"parameters": f"{{epsilon = {epsilon}}}"}, **own) for epsilon in (1.0, 3.0))
    assert kinds(smaller) == {("parameters", Harm.BREAKS)}
    assert weakened(larger) == {"one report", "several reports of one unchanged value"}


ABC = '{kind = "categories", names = ["a", "b", "c"]}'
INTEGERS = '{kind = "integers", min = 0, max = 2}'
TWO_ROUNDS = {
    "domain": ABC,
    "oracle": '"l-grr"',
    "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}",
    "max_values": "2",
}
FRESH = TWO_ROUNDS | {"domain": ABC, "oracle": '"opt-wb"', "parameters": "{epsilon = 3.0, window = 3}"}
ORDERED = {"domain": INTEGERS}
TABLE = {
    "oracle": '"grr"',
    "parameters": "{epsilon = 1.0}",
    "domain": f'{{kind = "table", of = [{ABC[:-1]}, ordered = true}}, {INTEGERS}], names = ["x", "y"]}}',
}
SEEDS = {"oracle": '"loloha"', "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0, num_seeds = 64}"}
STRINGS = SEEDS | {"domain": '{kind = "strings"}', "max_values": "2"}
BUDGET = "[budget]\nepsilon = 20.0\nattributes = {looks = 5.0}\n"
GROUPS = 'groups = {by = "release", shares = {"1" = 0.6, "2" = 0.3}, devices = 500000}'
STOP = {"top": 'opt_out = "Uninstall it."'}
PUBLISHED = STOP | {"publish": '"estimates"'}
RELAY = "[oblivious]\n" + "\n".join(f'{key} = "{value}"' for key, value in OBLIVIOUS.items()) + "\n"
VALUES = {str: ("a", "b", "c", "z"), int: (0, 1, 9), float: (0, 1, 9), tuple: (("a", 0), ("b", 2), ("z", 9))}
"""By type; some of each are in no domain."""

Keys = dict[str, str | None]


def named(*names: str, **more: str) -> str:
    said = "".join(f", {key} = {value}" for key, value in more.items())
    return f'{{kind = "categories", names = {json.dumps(names)}{said}}}'


def parameters(permanent: float, report: float, more: str = "") -> Keys:
    return {"parameters": f"{{epsilon_permanent = {permanent}, epsilon_report = {report}{more}}}"}


def capped(over_cap: str, most: int | None = 2) -> Keys:
    return ORDERED | {"over_cap": f'"{over_cap}"', "max_values": None if most is None else str(most)}


OTHERS = {"domain": named("a", "b", other='"c"')}
BINS = {"domain": '{kind = "bins", min = 0, max = 3, count = 3}'}
BUDGET_OF_STYLE = BUDGET.replace("looks", "style")
BUDGETED = {"attribute": '"looks"', "end": BUDGET}
RELAYED = {"transport": '"oblivious"', "end": RELAY}


EPSILON = [  # what changes, the keys before and after, whether some epsilon that was promised is exceeded
    ("nothing", {}, {}, False),
    ("a larger epsilon of a report", {}, parameters(2.0, 1.5), True),
    ("a larger permanent epsilon", {}, parameters(2.5, 1.0), True),
    ("smaller epsilons", {}, parameters(1.0, 0.5), True),
    ("the oracle", {}, {"oracle": '"l-osue"'}, True),
    ("the oracle, for one of one round", {}, {"oracle": '"grr"', "parameters": "{epsilon = 0.5}"}, True),
    ("fresh noise for permanent responses", {}, FRESH | {"parameters": "{epsilon = 0.5, window = 3}"}, True),
    ("permanent responses for fresh noise", FRESH, parameters(1.5, 0.9) | {"oracle": '"l-osue"'}, True),
    ("fresh noise, a larger epsilon", FRESH, {"parameters": "{epsilon = 4.0, window = 3}"}, True),
    ("fresh noise, a smaller epsilon", FRESH, {"parameters": "{epsilon = 2.0, window = 3}"}, False),
    ("fresh noise, a longer window", FRESH, {"parameters": "{epsilon = 3.0, window = 4}"}, False),
    ("fresh noise, the domain", FRESH, {"domain": named("b", "a", "c")}, False),
    ("fresh noise, the cap", FRESH, {"max_values": "3", "over_cap": '"drop"'}, False),
    ("fresh noise, no cap any more", FRESH, {"max_values": None}, False),
    ("the number of seeds", SEEDS, parameters(2.0, 1.0, ", num_seeds = 128"), True),
    ("the key of the hash", STRINGS, parameters(2.0, 1.0, ', num_seeds = 64, hash_key = "n"'), True),
    ("the number of hashed values", STRINGS, parameters(2.0, 1.0, ", num_seeds = 64, hash_range = 3"), True),
    ("the order of names", {}, {"domain": named("b", "a", "c")}, True),
    ("a name replaced", {}, {"domain": named("a", "b", "z")}, True),
    ("a name added", {}, {"domain": named("a", "b", "c", "z")}, True),
    ("a name is all others", {}, OTHERS, True),
    ("all others are a name", OTHERS, {"domain": ABC}, True),
    ("what all others are called", OTHERS, {"domain": named("a", "b", other='"d"')}, True),
    ("names have an order", {}, {"domain": named("a", "b", "c", ordered="true")}, False),
    ("numbers from 1", ORDERED, {"domain": INTEGERS.replace("0", "1").replace("2", "3")}, True),
    ("numbers to 3", ORDERED, {"domain": INTEGERS.replace("2", "3")}, True),
    ("numbers outside are nothing", ORDERED, {"domain": INTEGERS[:-1] + ', outside = "reject"}'}, True),
    ("numbers outside are the nearest", {"domain": INTEGERS[:-1] + ', outside = "reject"}'}, ORDERED, True),
    ("numbers outside have symbols", ORDERED, {"domain": INTEGERS[:-1] + ', outside = "separate"}'}, True),
    ("bins for integers", ORDERED, BINS, True),
    ("the number of bins", BINS, {"domain": '{kind = "bins", min = 0, max = 3, count = 2}'}, True),
    ("a variable's names have no order", TABLE, {"domain": TABLE["domain"].replace(", ordered = true", "")}, False),
    ("a variable's name", TABLE, {"domain": TABLE["domain"].replace('"y"', '"z"')}, True),
    ("a larger cap", {"max_values": "1"}, {"max_values": "2"}, True),
    ("a smaller cap", {}, {"max_values": "1"}, False),
    ("no cap any more", {}, {"max_values": None}, True),
    ("a cap, where there was none", {"max_values": None}, {"max_values": "2"}, False),
    ("a cap above the domain's size", {"max_values": "4"}, {"max_values": "5"}, False),
    ("first, drop", capped("first"), capped("drop"), True),
    ("first, nearest", capped("first"), capped("nearest"), True),
    ("drop, nearest", capped("drop"), capped("nearest"), True),
    ("drop, first", capped("drop"), capped("first"), False),
    ("nearest, first", capped("nearest"), capped("first"), False),
    ("nearest, drop", capped("nearest"), capped("drop"), True),
    ("first, drop, of fewer values", capped("first", 2), capped("drop", 1), True),
    ("drop, first, of as many responses", capped("drop", 1), capped("first", 2), False),
    ("drop, first, of one value more", capped("drop", 1), capped("first", 3), True),
    ("first, drop, above the domain's size", capped("first", 4), capped("drop", 4), False),
    ("first, nearest, above the domain's size", capped("first", 4), capped("nearest", 4), False),
    ("no cap, nearest", capped("first", None), capped("nearest"), True),
    ("nearest where no cap is", capped("first", None), capped("nearest", None), False),
]

OTHER_PROMISES = [  # the same of what is promised besides; no epsilon of the reports is exceeded by any
    ("a shorter period", {}, {"period": '"12 hours"'}, True),
    ("a longer period", {}, {"period": '"week"'}, False),
    ("a longer retention", {}, {"retention_days": "91"}, True),
    ("a shorter retention", {}, {"retention_days": "89"}, False),
    ("a longer grace", {}, {"grace_days": "40"}, False),
    ("a later end", {}, {"expires": "2099-01-02"}, False),
    ("an earlier end", {}, {"expires": "2098-01-02"}, False),
    ("the window of the page", {}, {"window": "7"}, False),
    ("why a year may reveal much", {}, {"yearly_reason": '"t"'}, False),
    ("the title", {}, {"title": '"t"'}, False),
    ("the description", {}, {"description": '"t"'}, False),
    ("the owner", {}, {"owner": '"t"'}, False),
    ("the purpose", {}, {"purpose": '"https://example.org/2"'}, False),
    ("the attribute", {"attribute": '"looks"'}, {"attribute": None}, False),
    ("an attribute with a budget", BUDGETED, {"attribute": '"style"', "end": BUDGET_OF_STYLE}, True),
    ("a larger budget", BUDGETED, {"end": BUDGET.replace("20", "21")}, True),
    ("a larger budget of an attribute", BUDGETED, {"end": BUDGET.replace("5.0", "6.0")}, True),
    ("no budget any more", BUDGETED, {"end": None}, True),
    ("a budget", {"attribute": '"looks"'}, {"end": BUDGET}, False),
    ("published estimates", STOP, {"publish": '"estimates"'}, True),
    ("no estimates any more", PUBLISHED, {"publish": None}, False),
    ("estimates of fewer reports", PUBLISHED, {"publish_least": "20"}, True),
    ("estimates of more reports", PUBLISHED | {"publish_least": "20"}, {"publish_least": "100"}, False),
    ("late reports to what is published", PUBLISHED, {"grace_days": "40"}, True),
    ("fewer late reports to what is published", PUBLISHED | {"grace_days": "40"}, {"grace_days": None}, False),
    ("groups", {}, {"groups": GROUPS}, True),
    ("more groups", {"groups": GROUPS}, {"groups": GROUPS.replace('"2" = 0.3', '"2" = 0.2, "3" = 0.1')}, False),
    ("groups by something else", {"groups": GROUPS}, {"groups": GROUPS.replace("release", "platform")}, True),
    ("no groups any more", {"groups": GROUPS}, {"groups": None}, False),
    ("another group", {"groups": GROUPS}, {"groups": GROUPS.replace('"2"', '"3"')}, False),
    ("other shares of groups", {"groups": GROUPS}, {"groups": GROUPS.replace("0.6", "0.5")}, False),
    ("oblivious transport", {"end": RELAY}, {"transport": '"oblivious"'}, False),
    ("direct transport", RELAYED, {"transport": '"direct"'}, True),
    ("the relay", RELAYED, {"end": RELAY.replace("relay.ex", "other.ex")}, False),
    ("the relay's operator", RELAYED, {"end": RELAY.replace("Relays", "Others")}, False),
    ("the keys", RELAYED, {"end": RELAY.replace("0029" + "01", "0029" + "02")}, False),
    ("opt_out", {}, STOP, False),
]

SAID = {  # what is said of some of them: the key, and a part of the sentence
    "the description": ("description", "'D' becomes 't': devices ask about it again"),
    "why a year may reveal much": ("yearly_reason", "None becomes 't'"),
    "published estimates": ("publish", ": devices ask about it again"),
    "estimates of fewer reports": ("publish_least", "with 20 reports or more, not with 100"),
    "late reports to what is published": ("grace_days", "takes reports again"),
    "groups": ("groups", "no group becomes release (1, 2): devices ask about the metric again, and no noise protects"),
    "groups by something else": ("groups", "and no noise protects a group"),
    "no groups any more": ("groups", "release (1, 2) becomes no group"),
    "another group": ("groups", "becomes release (1, 3): devices ask about"),
    "other shares of groups": ("groups", "other public shares, devices or floor"),
    "oblivious transport": ("transport", "a relay sees the address, not the collector"),
    "direct transport": ("transport", "oblivious becomes direct: the collector sees the address that a report"),
    "the relay": ("oblivious", ": devices ask about oblivious metrics again"),
    "the relay's operator": ("oblivious", "run by Example Others: devices ask about oblivious metrics again"),
    "the keys": ("oblivious.keys", ": the collector must have the private key of each"),
}


def metrics(**keys: str | None):
    end, top = (keys.pop(key, None) or "" for key in ("end", "top"))
    groups = keys.pop("groups", None) or ""
    given = {key: value for key, value in (TWO_ROUNDS | keys).items() if value is not None}
    head, _, metric = registry_of({"m": given}).partition("\n")
    return parse_registry("\n".join((head, top, metric + groups, end)))


MOST = 3
"""Reports of a history."""


def promises(old: Metric) -> Iterator[tuple[str, int, bool, float]]:
    """Yield what a metric's page promises: of which histories, for how many reports, and whether for any number."""
    terms = terms_of(old.mechanism)
    for reports in range(1, MOST + 1):
        yield "unchanged", reports, False, terms.epsilon_n(reports)
        yield "any", reports, False, terms.epsilon_any(reports)
    yield "unchanged", MOST, True, terms.epsilon_permanent
    for condition in ("values", "responses", "sum"):
        yield condition, MOST, True, lifetime_epsilon(old)


def exceeded(old: Metric, new: Metric, values: Sequence[object]) -> dict[str, float]:
    """Return the promises of the one metric that a device exceeds if the other follows, each with the truth."""
    found = {}
    for condition, reports, ever, promised in promises(old):
        if math.isinf(promised):
            continue
        true = [
            told_apart(condition, [old] * first + [new] * (reports - first), values, ever=ever)
            for first in range(reports + 1)
        ]
        if max(true[:-1]) > max(promised, true[-1]) + 1e-9:
            found[f"{condition}, {'any number of' if ever else reports} reports"] = max(true)
    return found


def told_apart(condition: str, metrics: Sequence[Metric], values: Sequence[object], *, ever: bool) -> float:
    steps = tuple(step(metric) for metric in metrics)
    if condition != "sum":
        return truth(steps, tuple(values), condition, ever=ever)
    accounts = list(dict.fromkeys(metric.account for metric in metrics))  # what a ledger adds up
    mechanisms = [next(each.mechanism for each in metrics if each.account == account) for account in accounts]
    return max(
        sum(
            {
                (m.account, key): m.mechanism.epsilon_permanent for m, (key, _) in zip(metrics, sent, strict=True)
            }.values()
        )
        for cohorts in cohorts_of(mechanisms)
        for history in product(values, repeat=len(metrics))
        for sent in [lived(metrics, history, dict(zip(accounts, cohorts, strict=True)))]
    )


def by_words(given):
    return given if isinstance(given, str) else ""


def stated(found: Sequence[Change]) -> float:
    return max(
        (float(total) for each in found for total in re.findall(r"cost ([0-9.]+) together", each.detail)), default=0
    )


@pytest.mark.parametrize(("what", "before", "after", "weakens"), EPSILON, ids=by_words)
def test_a_change_weakens_where_a_device_exceeds_a_promised_epsilon_and_nowhere_else(what, before, after, weakens):
    """Held against all histories of up to three reports, before and after the change, of a model of the device."""
    old, new = metrics(**before), metrics(**before | after)
    found, values = compare_registries(old, new), VALUES[old["m"].domain.value_type]
    beyond = exceeded(old["m"], new["m"], values)
    assert (bool(weakened(found)), bool(beyond)) == (weakens, weakens), (found, beyond)
    if old["m"].account != new["m"].account and not (old["m"].mechanism.fresh or new["m"].mechanism.fresh):
        assert stated(found) > beyond["unchanged, any number of reports"] - 1e-9


@pytest.mark.parametrize(("what", "before", "after", "weakens"), OTHER_PROMISES, ids=by_words)
def test_a_change_of_other_promises(what, before, after, weakens):
    old, new = metrics(**before), metrics(**before | after)
    found = compare_registries(old, new)
    assert found
    assert bool(weakened(found)) == weakens
    assert not exceeded(old["m"], new["m"], ("a", "z"))
    key, says = SAID.get(what, ("", ""))
    assert any(says in change.detail for change in found if key in ("", change.what)), found


@pytest.mark.parametrize(
    ("new", "breaks"),
    [
        ({"parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}"}, {"parameters"}),
        ({"oracle": '"l-sue"'}, {"oracle"}),
        ({"period": '"week"'}, {"period"}),
        ({"period": '"hour"'}, {"period"}),
        ({"domain": '{kind = "bins", min = 0, max = 3, count = 4}'}, {"domain"}),
        ({"domain": '{kind = "bins", min = 0, max = 2, count = 4, outside = "reject"}'}, {"domain"}),
        ({"domain": '{kind = "bins", min = 0, max = 2, count = 5}'}, {"domain", "parameters"}),
        ({"retention_days": "1", "grace_days": "1", "max_values": "1", "expires": "2026-12-01"}, set()),
    ],
)
def test_what_breaks_stored_counts(new, breaks):
    assert {change.what for change in changes(new) if change.kind == Harm.BREAKS} == breaks


def test_metrics_that_come_and_go():
    two = parse_registry(text("m", "n"))
    (new,) = [change for change in compare_registries(registry(), two) if change.metric]
    (gone,) = [change for change in compare_registries(two, registry()) if change.metric]
    assert (new.metric, new.what, new.kind) == (gone.metric, gone.what, gone.kind) == ("n", "metric", Harm.HARMLESS)
    assert "asked" in new.detail
    assert "no longer listed" in gone.detail


def test_a_metric_that_comes_back_is_compared_with_what_it_was():
    found = compare_registries(registry(), parse_registry(text("n")), registry(version="3", retention_days="91"))
    assert ("retention_days", Harm.WEAKENS) in kinds(found)
    (listed,) = [change.detail for change in found if change.metric == "m" and change.what == "metric"]
    assert listed == "listed again, as last in version 1: what was reported then counts too"


def test_every_earlier_registry_has_its_promises_and_each_is_said_once():
    days = [registry(version=str(number), retention_days=str(kept)) for number, kept in enumerate((30, 90, 60, 90, 90))]
    said = [change.detail for change in compare_registries(*days) if change.what == "retention_days"]
    assert said == [
        "since version 2: reports are kept for 90 days, not for 60",
        "since version 0: reports are kept for 90 days, not for 30",
    ]


def spent(*epsilons):
    history = [registry(parameters=f"{{epsilon_permanent = {one}, epsilon_report = 1.0}}") for one in epsilons]
    return [c.detail for c in compare_registries(*history) if c.what == "parameters" and c.kind == Harm.WEAKENS]


def test_all_parameters_that_a_device_may_have_reported_by_add_up_and_the_same_ones_count_once():
    ((back,), (third,), (kept,)) = spent(3.0, 3.5, 3.0), spent(3.0, 3.5, 2.5), spent(3.0, 3.5, 3.5)
    same = "; responses under an earlier registry with the same parameters and domain are the same: they cost once"
    assert back.endswith(f"cost 6.5 together, where 3.5 was promised{same}")
    assert third.endswith("cost 9 together, where 3.5 was promised")
    assert kept.startswith("since version 1: devices that have reported draw new permanent responses")
    assert kept.endswith(f"cost 6.5 together, where 3 was promised{same}")
    assert "cost 9 together, where 3 was promised" in spent(3.0, 3.5, 3.0, 2.5)[0]
    assert spent(3.0, 3.0) == []


def test_one_version_for_two_registries_is_told():
    (whole, *_) = compare_registries(registry(), registry(retention_days="91"))
    assert "consent could not tell the two apart" in whole.detail


def test_candidates_of_counts_by_candidate(tmp_path):
    def read(oracle, content):
        (tmp_path / "trees.txt").write_text(content)
        return parse_registry(text(domain='{kind = "strings", candidates = "trees.txt"}', **oracle), tmp_path)

    for oracle, kind in (
        ({"oracle": '"olh"', "parameters": "{epsilon = 1.0}"}, Harm.HARMLESS),
        ({"oracle": '"rappor"', "parameters": "{}"}, Harm.HARMLESS),
    ):
        found = compare_registries(read(oracle, "oak\n"), read(oracle, "oak\nash\n"))
        assert kinds(found) == {("candidates", kind)}


def test_a_lifetime_is_the_caps_values_or_the_domains_and_nothing():
    def lifetime(**said):
        return lifetime_epsilon(registry(**said)["m"])

    assert lifetime() == pytest.approx(9.0, abs=1e-6)
    assert lifetime(over_cap='"drop"') == pytest.approx(12.0, abs=1e-6)
    assert lifetime(max_values=None) == lifetime(max_values="9") == pytest.approx(15.0, abs=1e-6)
    strings = {"domain": '{kind = "strings"}', "oracle": '"rappor"', "parameters": "{}"}
    assert math.isinf(lifetime(max_values=None, **strings))


def test_a_panel_that_begins_gives_up_what_was_promised_of_an_unchanged_value():
    """A year tells less, and ten years of one value more than one permanent response did."""
    rounds = {"max_values": None, "parameters": "{epsilon_permanent = 3.0, epsilon_report = 2.0}"}
    found = changes({"panel": '{cycle = "year"}'}, **rounds)
    assert ("panel", Harm.HARMLESS) in kinds(found)
    assert weakened(found) == {"several reports of one unchanged value", "any number of reports of one unchanged value"}
    assert not [change for change in found if "permanent responses" in change.detail]  # a panel's answers repeat none
    back = changes({"panel": '"none"'}, **rounds, panel='{cycle = "year"}')
    assert "panel" in weakened(back)
    assert not [change for change in back if "permanent responses" in change.detail]  # and leave none


YEARLY = 'panel = {cycle = "year"}\n'
GRR = {"oracle": '"grr"', "parameters": "{epsilon = 1.0}", "max_values": None}


def of_a_panel(**metrics):
    listed = {name: PLAIN | GRR | more for name, more in metrics.items()}
    listed = {name: {key: value for key, value in keys.items() if value is not None} for name, keys in listed.items()}
    return parse_registry(YEARLY + registry_of(listed))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, []),
        ({"oracle": '"oue"'}, []),
        ({"parameters": "{epsilon = 6.0}"}, ["of all metrics together: epsilon 1 becomes 6"]),
        ({"panel": '{cycle = "year"}'}, ["of all metrics together: epsilon 1 becomes 2"]),
    ],
)
def test_a_metric_that_comes_weakens_what_a_year_tells_and_one_of_a_shared_panel_that_is_no_dearer_does_not(more, said):
    one, two = of_a_panel(m={}), of_a_panel(m={}, n=more)
    assert [change.detail for change in compare_registries(one, two) if change.kind is Harm.WEAKENS] == said
    assert not weakened(compare_registries(two, one))


def test_shorter_periods_of_a_panel_are_no_more_answers():
    week, day = (of_a_panel(m={"period": f'"{period}"'}) for period in ("week", "day"))
    assert kinds(compare_registries(week, day)) == {("period", Harm.BREAKS)}


@pytest.mark.parametrize(
    ("more", "key_id", "begins"), [(b"", 1, "1 ("), (FIRST.keys, 2, "2 (")], ids=["another", "more"]
)
def test_a_key_more_is_counted_and_a_key_of_the_same_id_is_another_key(more, key_id, begins):
    keys = (FIRST.keys, Receiver(key_id=key_id).keys + more)
    found = compare_registries(*(oblivious_registry("https://relay.example.net/", each) for each in keys))
    (detail,) = (change.detail for change in found if change.what == "oblivious.keys")
    before, after = detail.partition(":")[0].split(" becomes ")
    assert before.startswith("1 (")
    assert after.startswith(begins)
    assert before != after
