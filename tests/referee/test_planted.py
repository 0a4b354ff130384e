"""The findings of the second audit, each planted again by `monkeypatch`: the referee finds its lie in some life."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, Phase, find, settings

from referee import life, sentences, surfaces
from referee.stories import stories
from referee.worlds import metric

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Finding:  # a finding: its lies, the worlds in which they are told, and how it is planted
    ways: tuple[str, ...]  # of a lie, see `life.Lie`
    worlds: tuple[str, ...]  # where it is looked for
    plant: Callable[[Patch], None]
    is_once: bool | None = None  # whether devices answer once in these worlds; None where that does not matter
    crowded: bool = False  # whether it is on the collector's side

    def tells(self, lie, story):
        """Whether a lie is one of this finding's."""
        once = metric(story.world, "agreed").mechanism.once
        return lie.way in self.ways and self.is_once in {None, once}


def sums_terms(patch):
    """Count accounts of equal terms as one, and promise once what devices do once by each of several: H1, M2."""
    from overstory.privacy.registry import cost
    from overstory.privacy.statements import ONLY

    usual, kinds = cost._so_far, {"unchanged", "permanent", "values", "change"}

    def so_far(metric, ledger, *more, **given):
        told, terms = usual(metric, ledger, *more, **given), cost.metric_terms(metric)
        if any(account.terms != terms for account in ledger.accounts):
            return told
        planned = cost.metric_cost(metric, told.reports)
        lines = [line for line in told.lines if line.kind not in kinds]
        lines += [line for line in planned.lines if line.kind in kinds]
        if terms.once and told.reports > 1:
            reports = f"{told.reports} reports"
            lines[0] = replace(lines[0], about=f"{cost.ALWAYS}: your {reports}{ONLY}")
        return replace(told, lines=tuple(lines))

    patch.setattr(cost, "_so_far", so_far)


def publishes_at_once(patch):
    """Publish the newest period that is over, again and again while late reports come in: H2."""
    from overstory.console.screens import public

    def published(data, metric):
        if metric.publish != "estimates" or (public.is_shares(metric) and not metric.labels):
            return None
        over = [period for period in data.store.periods(metric.id) if data.state(metric, period) != "running"]
        for period in reversed(over):
            counted = data.counts(metric, period, period)
            if counted.periods:
                return counted
        return None

    patch.setattr(public, "_published", published)


def averages_cohorts(patch):
    """State what somebody learns who knows the cohort as if she did not: H3."""
    from overstory.privacy.payloads import shuffle as central

    usual = central.shuffled

    def shuffled(mechanism, reports, delta=central.DELTA, **given):
        told = usual(mechanism, reports, delta, **given)
        crowd = told.reports // mechanism.num_cohorts
        if told.known_cohort is None or crowd < 2:
            return told
        known = usual(mechanism, crowd, delta).epsilon
        sentence = (
            "Nobody knows the person's cohort, which is in every report. To somebody who does, her "
            f"reports reveal epsilon {known + 1e-4:.4f}: only the {crowd:,} or so of that cohort hide hers."
        )
        others = (each for each in told.rests_on if not each.startswith(("Nobody knows the", "A report has a")))
        return replace(told, known_cohort=known, rests_on=(*others, sentence))

    patch.setattr(central, "shuffled", shuffled)


def shuffles_groups(patch):
    """State what shuffled reports reveal that name a group, as if they named none: H4."""
    from overstory.cli.registry import privacy
    from overstory.privacy.payloads.shuffle import DELTA, shuffled

    def of_groups(mechanism, args, *_):
        delta = DELTA if args.delta is None else args.delta
        return shuffled(mechanism, args.shuffled, delta, honest=args.honest)

    patch.setattr(privacy, "_shuffled", of_groups)


def keeps_every_count(patch):
    """Delete the reports past retention, and keep the counts of every cell: H6."""
    from overstory.collector import store
    from overstory.collector.store import upkeep

    def retain(database, entries, now):
        with database.snapshot() as connection:
            entries = upkeep.read_stored_metrics(connection, entries)

        def delete(connection):
            for name, last in ((entry.metric, entry.last_expired(now)) for entry in entries.values()):
                for change in (upkeep.CHUNKS.delete(), upkeep.COUNTS.update().values(sums=None)):
                    past = (change.table.c.metric == name) & (change.table.c.period <= last)
                    connection.execute(change.where(past))

        database.write(delete)

    patch.setattr(store, "retain", retain)


def compares_two(patch):
    """Add up what a plan costs and the last one before, whatever was asked before that: M1."""
    usual = surfaces.diff
    patch.setattr(surfaces, "diff", lambda world, earlier, new: usual(world, earlier[-1:], new))


def leaves_groups_out(patch):
    """Say what puts reports together, but for the group: M3."""
    from overstory.client.person import view
    from overstory.privacy.attacks import linkability
    from overstory.privacy.registry import page

    for module in (view, page):
        patch.setattr(module, "metric_linkability", lambda metric, *_: linkability(metric.mechanism))


def counts_all_devices(patch):
    """Count a crowd of one value among all devices: M4."""
    from overstory.privacy.shared import Constant

    usual = Constant.words
    patch.setattr(Constant, "words", lambda self, *_: usual(self))


def sees_no_other_symbol(patch):
    """Overlook that a value has another response now, because of what is done past an end or a cap: M5."""
    from overstory.cli.registry import metrics
    from overstory.privacy.registry import changes

    usual, overlooked = changes.compare_registries, ("domain", "over_cap")

    def compare(*registries):
        found = usual(*registries)
        return [each for each in found if each.what not in overlooked or each.kind is not changes.Harm.WEAKENS]

    patch.setattr(metrics, "compare_registries", compare)


def says_pattern_of_changes(patch):
    """Call histories alike that change at the same times, where responses do not: M6."""
    from overstory.privacy.registry import cost

    patch.setattr(cost, "PATTERN", "only with the same pattern of changes")


def counts_nothing_as_a_bit(patch):
    """Count a value more where nothing was reported, in searches that know nothing already: M7."""
    from overstory.client import budget
    from overstory.client.person import status
    from overstory.client.state.rows import NOTHING

    usual = budget.ledger_of

    def with_nothing(rows, registry=None, since=None):
        told = usual(rows, registry, since)
        empty = {response.metric for response in rows.responses() if response.tag == NOTHING}
        return replace(told, accounts=tuple(more(each) if each.metric in empty else each for each in told.accounts))

    def more(account):
        most = account.terms.most_values
        return account if most is None else replace(account, terms=replace(account.terms, most_values=most + 1))

    for module in (budget, status):
        patch.setattr(module, "ledger_of", with_nothing)


def promises_one_answer(patch):
    """Say that an answer is used again where all noise is fresh: L3."""
    from overstory.client.person import view

    patch.setattr(view, "ALL_VALUES", None)
    patch.setattr(view, "EARLIER", view.MEMOIZED)


FINDINGS = {
    "H1": Finding(("accounts",), ("grr", "basic", "words", "grouped"), sums_terms, is_once=False),
    "H2": Finding(("public",), ("published",), publishes_at_once, crowded=True),
    "H3": Finding(("known cohort",), ("flips",), averages_cohorts),
    "H4": Finding(("shuffled group",), ("grouped", "window"), shuffles_groups),
    "H6": Finding(("kept",), ("seeds", "words"), keeps_every_count, crowded=True),
    "M1": Finding(("change",), ("search",), compares_two),
    "M2": Finding(("accounts", "only one"), ("search",), sums_terms, is_once=True),
    "M3": Finding(("group",), ("window", "grouped"), leaves_groups_out),
    "M4": Finding(("crowd",), ("grr", "nearest"), counts_all_devices),
    "M5": Finding(("weaker",), ("clamp", "nearest"), sees_no_other_symbol),
    "M6": Finding(("pattern",), ("pairs", "nearest"), says_pattern_of_changes),
    "M7": Finding(("budget",), ("budget",), counts_nothing_as_a_bit),
    "L3": Finding(("one answer",), ("window",), promises_one_answer),
}
"""By the audit's names."""

MOST_STORIES = 400

looks = settings(
    max_examples=MOST_STORIES,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def _printed_again(nothing_forbids):
    """Let no page be remembered that was printed without the defect, or with it."""
    remembered = (life.shown, life.differences, life.private)
    for printed in remembered:
        printed.cache_clear()
    yield
    for printed in remembered:
        printed.cache_clear()


@pytest.mark.parametrize("name", FINDINGS)
def test_a_planted_defect_is_found(name, monkeypatch):
    finding = FINDINGS[name]
    finding.plant(monkeypatch)

    def tells(story):
        return any(finding.tells(lie, story) for lie in life.lies(story))

    find(
        stories(finding.worlds, crowded=finding.crowded), tells, settings=looks
    )  # raises NoSuchExample where no life tells it


def test_a_sentence_has_one_form():
    """No line is read by two entries: which one comes first decides nothing."""
    lines = [line for world in ("grr", "search") for line in life.shown(world, "agreed")]
    for line in lines:
        assert sum(pattern.fullmatch(line) is not None for pattern, _ in sentences.READERS) <= 1, line
