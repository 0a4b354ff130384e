"""The budget of a person: a client keeps to it, and when it falls silent says nothing of a value."""

import itertools
from dataclasses import replace

import pytest

from overstory.client import Outcome
from overstory.client.budget import Allowance, ledger_of
from overstory.client.state.state import State
from overstory.privacy.registry.cost import reports_until_the_end
from overstory.protocol.metrics import MetricRegistry, PersonBudget
from support.devices import Clock, device, queue_report, registry

NAMES = ("red", "green", "blue")
DOMAIN = f'domain = {{kind = "categories", names = {list(NAMES)}}}\nperiod = "day"\n'.replace("'", '"')
BASIC = DOMAIN + 'oracle = "basic-rappor"\nmax_values = 2\nover_cap = "first"\n'
GRR = DOMAIN + 'oracle = "grr"\nparameters = {epsilon = 1.0}\n'
FRESH = DOMAIN + 'oracle = "opt-wb"\nparameters = {epsilon = 1.0, window = 10}\n'
ROUNDS = "parameters = {epsilon_permanent = 2.0, epsilon_report = 1.0}\n"
CHAIN = f'{DOMAIN}oracle = "l-grr"\n{ROUNDS}max_values = 2\nover_cap = "first"\n'


def asked(held, **entries):
    return replace(registry(**entries), budget=held)


def outcomes(folder, of, values, *, flush=True):
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
    (BASIC, PersonBudget(1.0)),
    (GRR, PersonBudget(2.5)),
    (FRESH, PersonBudget(0.25)),
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
    """How many noisy answers were used depends on the values: as a rule for silence it tells them."""

    def by_the_answers(self, metric):
        return self.spent + metric.mechanism.epsilon_report <= self.most

    def looking(self, registry, rows, now, pending=()):
        honest(self, registry, rows, now, pending)
        accounts, self.most = ledger_of(rows).accounts, registry.budget.epsilon
        self.spent = sum(len(account.numbered) * account.terms.epsilon_permanent for account in accounts)

    honest = Allowance.__init__
    monkeypatch.setattr(Allowance, "__init__", looking)
    monkeypatch.setattr(Allowance, "allows", by_the_answers)
    assert len(patterns(tmp_path, GRR, PersonBudget(2.5))) > 1


@pytest.mark.parametrize(("entry", "held"), BUDGETS)
@pytest.mark.parametrize("flush", [True, False])
def test_what_was_spent_is_within_the_budget(tmp_path, entry, held, flush):
    of = asked(held, theme=entry)
    found, client = outcomes(tmp_path, of, NAMES * 3, flush=flush)
    assert found.count(Outcome.RECORDED) == reports_until_the_end(held, of["theme"]), "as many as the page says"
    assert found == sorted(found, key=lambda outcome: outcome is Outcome.SPENT), "and it does not begin again"
    with State(client.paths).snapshot() as rows:
        spent = ledger_of(rows)
    assert 0 < spent.epsilon_any <= held.epsilon


def test_status_counts_the_periods_that_had_no_report(tmp_path):
    _, client = outcomes(tmp_path, asked(PersonBudget(1.0), theme=GRR), ["red"] * 4)
    assert client.status().dropped == {"the budget was used up": 3}
    client.record("theme", "red")
    queue_report(client, "theme", "red")
    client.flush()
    assert client.status().dropped == {"the budget was used up": 4}


def test_metrics_share_the_budget_and_an_attribute_its_own(tmp_path):
    listed = registry(one=GRR, two=GRR, other=GRR)
    tagged = {name: replace(metric, attribute=None if name == "other" else "taste") for name, metric in listed.items()}
    held = PersonBudget(3.0, {"taste": 1.5})
    client = device(tmp_path, registry=MetricRegistry(tagged, listed.version, held))
    assert client.record("one", "red") is Outcome.RECORDED
    assert client.record("two", "red") is Outcome.SPENT, "2.0 of this attribute would be more than 1.5"
    assert client.record("other", "red") is Outcome.RECORDED
    client.close()


def test_reports_of_a_metric_that_is_no_longer_listed_still_count(tmp_path):
    listed = registry(one=GRR, two=GRR)
    tagged = {name: replace(metric, attribute="taste") for name, metric in listed.items()}
    held = PersonBudget(9.0, {"taste": 1.5})
    first = device(tmp_path, registry=MetricRegistry(tagged, "1", held))
    assert first.record("one", "red") is Outcome.RECORDED
    first.close()
    later = device(tmp_path, registry=MetricRegistry({"two": tagged["two"]}, "2", held))
    assert later.record("two", "red") is Outcome.SPENT


def test_two_processes_keep_to_it_together(tmp_path):
    of = asked(PersonBudget(1.5), one=GRR, two=GRR)
    first = device(tmp_path, registry=of)
    second = device(tmp_path, registry=of, choice=None)
    assert first.record("one", "red") is Outcome.RECORDED
    assert second.record("two", "red") is Outcome.RECORDED, "neither knows of the other's report yet"
    assert first.flush().written == {"queued": 1}
    assert second.flush().written == {"spent": 1}
