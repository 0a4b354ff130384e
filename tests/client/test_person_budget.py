"""The budget of a person: a client keeps to it, and when it falls silent says nothing of a value."""

import itertools
import math
from dataclasses import replace

import pytest

from overstory.client import Outcome
from overstory.client.budget import budget
from overstory.client.consent.allowance import Allowance
from overstory.client.state.state import State
from overstory.privacy.payloads.registry import terms_of
from overstory.privacy.registry.totals import charge, reports_until_the_end
from overstory.protocol.metrics import MetricRegistry, PersonBudget
from support import states_before
from support.devices import DAY, NOON, Clock, device, registry

NAMES = ("red", "green", "blue")
DOMAIN = f'domain = {{kind = "categories", names = {list(NAMES)}}}\nperiod = "day"\n'.replace("'", '"')
BASIC = DOMAIN + 'oracle = "basic-rappor"\nmax_values = 2\nover_cap = "first"\n'
GRR = DOMAIN + 'oracle = "grr"\nparameters = {epsilon = 1.0}\n'
FRESH = DOMAIN + 'oracle = "opt-wb"\nparameters = {epsilon = 1.0, window = 10}\n'
CHAIN = (
    DOMAIN + 'oracle = "l-grr"\nparameters = {epsilon_permanent = 2.0, epsilon_report = 1.0}\nmax_values = 2\n'
    'over_cap = "first"\n'
)


def asked(held, **entries):
    listed = registry(**entries)
    return MetricRegistry(dict(listed), listed.version, held)


def outcomes(folder, of, values, *, flush=True):
    """Report a value a day, and return what became of each."""
    clock = Clock()
    client, found = device(folder, registry=of, clock=clock), []
    for value in values:
        found.append(client.record("theme", value))
        if flush:
            client.flush()
        clock.tomorrow()
    client.flush()
    return found, client


HISTORIES = list(dict.fromkeys((*itertools.product(NAMES[:2], repeat=4), *itertools.permutations((*NAMES, "red"), 4))))
BUDGETS = [
    (BASIC, PersonBudget(2.3, "same-pattern")),
    (BASIC, PersonBudget(1.0)),
    (GRR, PersonBudget(2.5, "same-pattern")),
    (GRR, PersonBudget(2.5)),
    (FRESH, PersonBudget(0.25)),
    (CHAIN, PersonBudget(3.0, "same-pattern")),
    (CHAIN, PersonBudget(3.0)),
]


def patterns(tmp_path, entry, held):
    of = asked(held, theme=entry)
    return {tuple(outcomes(tmp_path / "".join(history), of, history)[0]) for history in HISTORIES}


@pytest.mark.parametrize(("entry", "held"), BUDGETS)
def test_whether_a_report_is_made_is_the_same_for_all_histories_of_values(tmp_path, entry, held):
    (pattern,) = patterns(tmp_path, entry, held)
    assert Outcome.SPENT in pattern, "the budget ends within these reports"
    assert pattern[0] is Outcome.RECORDED


def test_a_budget_that_looks_at_the_values_is_caught(tmp_path, monkeypatch):
    """What the ledger says was spent depends on the values: as a rule for silence it tells them."""

    def by_the_ledger(self, metric):
        return self.spent + metric.mechanism.epsilon_report <= self._budget.epsilon

    def looking(self, registry, held, rows, pending=()):
        honest(self, registry, held, rows, pending)
        self.spent = budget(rows, registry).epsilon

    honest = Allowance.__init__
    monkeypatch.setattr(Allowance, "__init__", looking)
    monkeypatch.setattr(Allowance, "allows", by_the_ledger)
    assert len(patterns(tmp_path, GRR, PersonBudget(2.5, "same-pattern"))) > 1


@pytest.mark.parametrize(("entry", "held"), BUDGETS)
@pytest.mark.parametrize("flush", [True, False])
def test_what_was_spent_is_within_the_budget(tmp_path, entry, held, flush):
    of = asked(held, theme=entry)
    _, client = outcomes(tmp_path, of, NAMES * 3, flush=flush)
    with State(client.paths).snapshot() as rows:
        spent = budget(rows, of)
    assert 0 < (spent.epsilon_any if held.against == "any-history" else spent.epsilon) <= held.epsilon


@pytest.mark.parametrize(("entry", "held"), BUDGETS)
def test_it_ends_after_as_many_reports_as_the_page_says(tmp_path, entry, held):
    of = asked(held, theme=entry)
    found, _ = outcomes(tmp_path, of, NAMES * 3)
    assert found.count(Outcome.RECORDED) == reports_until_the_end(held, of["theme"])
    assert found == sorted(found, key=lambda outcome: outcome is Outcome.SPENT), "and does not begin again"


def test_status_counts_the_periods_that_had_no_report(tmp_path):
    _, client = outcomes(tmp_path, asked(PersonBudget(1.0), theme=GRR), ["red"] * 4)
    assert client.status().dropped == {"the budget was used up": 3}
    client.record("theme", "red")
    client.record("theme", "red")
    client.flush()
    client.flush()
    assert client.status().dropped == {"the budget was used up": 4}


def test_metrics_share_the_budget_and_an_attribute_its_own(tmp_path):
    listed = registry(one=GRR, two=GRR, other=GRR)
    tagged = {name: replace(metric, attribute=None if name == "other" else "taste") for name, metric in listed.items()}
    held = PersonBudget(3.0, "any-history", {"taste": 1.5})
    client = device(tmp_path, registry=MetricRegistry(tagged, listed.version, held))
    assert client.record("one", "red") is Outcome.RECORDED
    assert client.record("two", "red") is Outcome.SPENT, "2.0 of this attribute would be more than 1.5"
    assert client.record("other", "red") is Outcome.RECORDED
    client.close()


def test_reports_of_a_metric_that_is_no_longer_listed_still_count(tmp_path):
    listed = registry(one=GRR, two=GRR)
    tagged = {name: replace(metric, attribute="taste") for name, metric in listed.items()}
    held = PersonBudget(9.0, "any-history", {"taste": 1.5})
    first = device(tmp_path, registry=MetricRegistry(tagged, "1", held))
    assert first.record("one", "red") is Outcome.RECORDED
    first.close()
    later = device(tmp_path, registry=MetricRegistry({"two": tagged["two"]}, "2", held))
    assert later.record("two", "red") is Outcome.SPENT


def test_a_lower_cap_does_not_forget_what_a_higher_one_allowed(tmp_path):
    high = BASIC.replace("max_values = 2", "max_values = 3")
    _, client = outcomes(tmp_path, asked(PersonBudget(7.0, "same-pattern"), theme=high), NAMES)
    client.close()
    low = device(
        tmp_path, registry=asked(PersonBudget(7.0, "same-pattern"), theme=BASIC), clock=Clock(client._clock.now)
    )
    low.record("theme", "red")
    low.close()
    with State(low.paths).snapshot() as rows:
        assert rows.recall("cap theme") == 3
        later_on = charge("same-pattern", terms_of(low.registry["theme"].mechanism), 100, 3)
        assert later_on > charge("same-pattern", terms_of(low.registry["theme"].mechanism), 100, 2)


FIVE = (*NAMES, "black", "white")
MANY = GRR.replace('"blue"', '"blue", "black", "white"')
CAPPED = MANY + 'max_values = 2\nover_cap = "first"\n'


def reported(folder, clock, of, values, choice="on"):
    """Report a value a day under a registry and a choice; return what became of each, and the state."""
    with device(folder, registry=of, clock=clock, choice=choice) as client:
        found = []
        for value in values:
            found.append(client.record("theme", value))
            client.flush()
            clock.tomorrow()
    return found, State(client.paths)


@pytest.mark.parametrize(("choice", "then"), [("on", 0), ("local", 2)])
def test_reports_made_while_there_was_no_budget_and_no_cap_count(tmp_path, choice, then):
    """A registry with a budget and a cap, then one without either, then the first again: it went on for ever.

    What was kept here alone under no cap may be reported under a cap later, for it is known: that counts, too.
    """
    clock, capped = Clock(), asked(PersonBudget(3.0, "same-pattern"), theme=CAPPED)
    reported(tmp_path, clock, capped, NAMES[:1])
    reported(tmp_path, clock, asked(None, theme=MANY), FIVE * 2, choice)
    found, state = reported(tmp_path, clock, capped, FIVE)
    assert found == [Outcome.RECORDED] * then + [Outcome.SPENT] * (5 - then)
    with state.snapshot() as rows:
        assert rows.recall("cap theme") == 0
        assert budget(rows, capped).epsilon == pytest.approx(5.0 if choice == "on" else 2.0)


@pytest.mark.parametrize(("most", "outcome"), [(3.5, Outcome.SPENT), (4.0, Outcome.RECORDED)])
def test_responses_beyond_a_cap_that_an_earlier_version_remembered_count(tmp_path, most, outcome):
    """Three of them, and one of nothing that may still come."""
    clock, capped = Clock(), asked(PersonBudget(most, "same-pattern"), theme=CAPPED)
    _, state = reported(tmp_path, clock, asked(None, theme=MANY), NAMES)
    with state.transaction() as rows:
        rows.remember("cap theme", 2)
    found, _ = reported(tmp_path, clock, capped, FIVE)
    assert found == [outcome] * 5
    with state.snapshot() as rows:
        assert budget(rows, capped).epsilon <= 4.0


def test_a_cap_that_was_there_before_the_budget_is_known(tmp_path):
    clock = Clock()
    reported(tmp_path, clock, asked(None, theme=CAPPED), FIVE)
    found, _ = reported(tmp_path, clock, asked(PersonBudget(2.5, "same-pattern"), theme=CAPPED), FIVE)
    assert found == [Outcome.RECORDED] * 5


# --- states of before


def after(folder, of, names):
    """Report red, or a page, of each metric a day; return what became of it, and what was spent by the ledger."""
    clock, found = Clock(NOON + 10 * DAY), []
    with device(folder, registry=of, clock=clock) as client:
        for name in names:
            found.append(client.record(name, "a page" if name in ("page", "site") else "red"))
            clock.tomorrow()
        client.flush()
    with State(client.paths).snapshot() as rows:
        return found, budget(rows, of)


def test_two_metrics_of_a_state_that_kept_no_terms_do_not_end_each_other(tmp_path):
    """Each took the other one's reports for infinite, for ever; the registry knows their terms."""
    of = asked(PersonBudget(5.0, "same-pattern"), one=GRR, two=GRR)
    states_before.write(tmp_path / "state", states_before.reports_2(of, [("one", "red"), ("two", "red")]))
    found, spent = after(tmp_path, of, ["one", "two", "one", "two"])
    assert found == [Outcome.RECORDED] * 3 + [Outcome.SPENT]
    assert spent.epsilon == pytest.approx(2.0), "by the values: each has had one"


def test_reports_of_a_mechanism_that_nobody_knows_any_more_leave_nothing_of_a_budget(tmp_path):
    both, later = registry(one=GRR, two=GRR.replace("1.0", "0.5")), asked(PersonBudget(900.0), two=GRR)
    states_before.write(tmp_path / "state", states_before.reports_2(both, [("one", "red"), ("two", "red")]))
    found, spent = after(tmp_path, later, ["two"])
    assert found == [Outcome.SPENT]
    assert math.isinf(spent.epsilon)


@pytest.mark.parametrize("schema", [1, 2])
def test_metrics_that_shared_their_noise_leave_nothing_of_a_budget(tmp_path, schema):
    """The ledger says of them that there is no bound: then nothing is left of any budget."""
    for names, outcome in ((("page",), Outcome.RECORDED), (("page", "site"), Outcome.SPENT)):
        folder = tmp_path / str(len(names))
        listed = states_before.registry_2(**dict.fromkeys(names, 0.5))
        rows = list(states_before.reports_2(listed, [("colour", "red"), *((name, "a page") for name in names)]))
        if schema == 1:
            states_before.write(folder / "state", rows)
        else:
            states_before.write_2(folder / "state", rows, dict(states_before.terms_2(listed)).items())
        of = MetricRegistry(dict(listed), listed.version, PersonBudget(900.0, "same-pattern"))
        found, spent = after(folder, of, ["page", "colour"])
        assert found == [outcome] * 2
        assert math.isinf(spent.epsilon) == (outcome is Outcome.SPENT)


def test_two_processes_keep_to_it_together(tmp_path):
    of = asked(PersonBudget(1.5), one=GRR, two=GRR)
    first = device(tmp_path, registry=of)
    second = device(tmp_path, registry=of, choice=None)
    assert first.record("one", "red") is Outcome.RECORDED
    assert second.record("two", "red") is Outcome.RECORDED, "neither knows of the other's report yet"
    assert first.flush().written == {"queued": 1}
    assert second.flush().written == {"spent": 1}


def test_what_is_kept_here_alone_costs_nothing(tmp_path):
    clock = Clock()
    client = device(tmp_path, registry=asked(PersonBudget(1.0), theme=GRR), choice="local", clock=clock)
    for _ in range(3):
        assert client.record("theme", "red") is Outcome.RECORDED
        clock.tomorrow()
    client.consent("on")
    assert client.record("theme", "red") is Outcome.RECORDED
    client.close()
