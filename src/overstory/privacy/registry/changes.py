"""What a change of the metric registry means: which promises it weakens, which stored counts it breaks.

- **Other parameters weaken, even those with a smaller epsilon, where permanent responses are memoized.** A device that
  has reported draws new permanent responses under the new parameters, and has sent the old ones already: together they
  cost the sum of both epsilons, where one was promised. So does another domain (`Metric.account`).
- **A later expiry does not weaken**: what bounds a person's loss does not grow with time, or its page says so.
- A metric that comes weakens what all metrics together tell in any year, unless it shares a panel.

A registry follows on all registries before it, and not on the last alone: a device that answered under the first and
again under the third has paid for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from overstory.presentation.formats import epsilons_apart
from overstory.privacy.registry.cost import lifetime_epsilon, most_in_a_year, most_responses, yearly
from overstory.privacy.terms import add_up, metric_terms
from overstory.protocol.metrics import Metric, MetricRegistry, PersonBudget
from overstory.protocol.metrics.groups import Groups

if TYPE_CHECKING:
    from overstory.protocol.metrics.tables import ObliviousRoute

NUMBERS: Final = (2, 3, 5, 10, 20, 50, 100)
CHANGES: Final = (2, 5, 10)


class Harm(StrEnum):
    """What a change does."""

    WEAKENS = "weakens-privacy"
    BREAKS = "breaks-counts"
    HARMLESS = "harmless"


_BECOMES: Final = {
    "direct": (Harm.WEAKENS, "oblivious becomes direct: the collector sees the address that a report comes from"),
    "oblivious": (
        Harm.HARMLESS,
        "direct becomes oblivious: a relay sees the address, not the collector; devices ask again",
    ),
}


@dataclass(frozen=True)
class Change:
    """One difference between two registries."""

    metric: str  # the metric's id; empty for the registry as a whole
    what: str  # the key, or the promise, that changed
    kind: Harm  # whether it weakens privacy, breaks stored counts, or neither
    detail: str  # in a sentence

    def to_json(self) -> dict[str, str]:
        return {"metric": self.metric, "what": self.what, "kind": str(self.kind), "detail": self.detail}


def compare_registries(*registries: MetricRegistry) -> list[Change]:
    """Return every change from the last registry but one to the last; of those before, what weakens privacy, too."""
    *earlier, new = registries
    changes = list(_since_each(earlier, lambda old: _of_the_whole(old, new)))
    for name in dict.fromkeys(name for registry in registries for name in registry):
        had = [registry for registry in earlier if name in registry]
        if name not in new:
            if name in earlier[-1]:
                detail = "no longer listed: its reports are refused, counts stay"
                changes.append(Change(name, "metric", Harm.HARMLESS, detail))
        elif not had:
            changes.append(Change(name, "metric", Harm.HARMLESS, "new: nothing is recorded before a person was asked"))
        else:
            found = [*_since_each(had, partial(_of_a_metric, new[name])), *_of_the_account(name, had, new[name])]
            changes += sorted(found, key=lambda change: [*Harm].index(change.kind))
            if name not in earlier[-1]:
                detail = f"listed again, as last in version {had[-1].version}: what was reported then counts too"
                changes.append(Change(name, "metric", Harm.HARMLESS, detail))
    return changes


def _since_each(
    earlier: Sequence[MetricRegistry], changes_since: Callable[[MetricRegistry], Iterable[Change]]
) -> Iterator[Change]:
    """Yield every change since the last of the earlier registries, and since the others what weakens, each once."""
    *others, last = earlier
    seen = [*changes_since(last)]
    yield from seen
    for registry in reversed(others):
        for change in changes_since(registry):
            if change.kind is Harm.WEAKENS and change not in seen:
                seen.append(change)
                yield replace(change, detail=f"since version {registry.version}: {change.detail}")


def _of_the_whole(old: MetricRegistry, new: MetricRegistry) -> Iterator[Change]:
    if old.version != new.version:
        yield Change("", "registry", Harm.HARMLESS, f"version {old.version} becomes {new.version}")
    elif old.digest != new.digest:
        detail = (
            f"still version {old.version}, though metrics changed: consent could not tell the two apart; give another"
        )
        yield Change("", "registry", Harm.HARMLESS, detail)
    if old.budget != new.budget:
        before, after = (_limits(registry.budget) for registry in (old, new))
        weaker = old.budget is not None and (new.budget is None or new.budget.allows_more_than(old.budget))
        detail = f"{before} becomes {after}" + (": devices ask about every metric again" if weaker else "")
        yield Change("", "budget", Harm.WEAKENS if weaker else Harm.HARMLESS, detail)
    yield from _of_a_year(old, new)
    before, after = ("none" if each.oblivious is None else each.oblivious.described for each in (old, new))
    routes = old.oblivious, new.oblivious
    asks = "" if None in routes else ": devices ask about oblivious metrics again"
    yield from _differs("", "oblivious", before, after, asks)
    if old.oblivious is not None and new.oblivious is not None and old.oblivious.keys != new.oblivious.keys:
        detail = f"{_keys_text(old.oblivious)} becomes {_keys_text(new.oblivious)}"
        yield Change("", "oblivious.keys", Harm.HARMLESS, f"{detail}: the collector must have the private key of each")
    before, after = ("not named" if each.operator is None else each.operator.described for each in (old, new))
    asks = "" if old.operator is None else ": devices ask about every metric again"
    yield from _differs("", "operator", before, after, asks)
    yield from _differs("", "opt_out", repr(old.opt_out), repr(new.opt_out))


def _differs(metric: str, what: str, before: str, after: str, more: str = "") -> Iterator[Change]:
    if before != after:
        yield Change(metric, what, Harm.HARMLESS, f"{before} becomes {after}{more}")


def _of_a_year(old: MetricRegistry, new: MetricRegistry) -> Iterator[Change]:
    """What all metrics together tell in any year, where that is more, and not for what a line of its own says."""
    dearer = {name for name in old if name in new and yearly([new[name]]).epsilon > yearly([old[name]]).epsilon}
    others = [yearly(each for each in registry.values() if each.id not in dearer) for registry in (old, new)]
    before, after = (yearly(registry.values(), registry.budget).epsilon for registry in (old, new))
    texts = epsilons_apart(before, after)
    if others[1].epsilon > others[0].epsilon and after > before and texts[0] != texts[1]:
        detail = f"of all metrics together: epsilon {' becomes '.join(texts)}"
        yield Change("", "any year", Harm.WEAKENS, detail)


def _keys_text(route: ObliviousRoute) -> str:
    from overstory.protocol.oblivious.formats import read_entries
    from overstory.protocol.oblivious.messages import fingerprint

    return ", ".join(f"{entry.key_id} ({fingerprint(entry.public)})" for entry in read_entries(route.keys))


def _limits(budget: PersonBudget | None) -> str:
    if budget is None:
        return "none"
    own = "".join(f", {most:g} for {name}" for name, most in budget.attributes.items())
    return f"epsilon {budget.epsilon:g}{' a year' if budget.per == 'year' else ''}{own}"


def _of_a_metric(new: Metric, registry: MetricRegistry) -> Iterator[Change]:
    old, budget = registry[new.id], registry.budget
    if old.mechanism.digest != new.mechanism.digest:
        yield from _of_the_noise(old, new)
        what = "oracle" if old.mechanism.name != new.mechanism.name else "parameters"
        detail = "reports made with the old parameters are refused, and the counts of both cannot be added up"
        yield Change(new.id, what, Harm.BREAKS, detail)
    elif old.fresh != new.fresh:  # by a panel, which draws noise that was memoized
        yield from _of_the_noise(old, new)
    if old.panel != new.panel:
        yield from _of_the_panel(old, new)
    yield from _of_the_cap(old, new)
    yield from _of_time(old, new)
    # Other values for the symbols; what that costs is said of the account.
    is_changed = old.domain.canonical() != new.domain.canonical()
    if is_changed and old.domain.numbering != new.domain.numbering:
        what = "reports stand for other numbers" if new.domain.size is None else "symbols stand for other values"
        yield Change(new.id, "domain", Harm.BREAKS, f"{what}, and so do stored counts")
    elif is_changed:
        detail = "the categories' order has a meaning now, or has none any more: values keep their symbols"
        yield Change(new.id, "domain", Harm.HARMLESS, detail)
    if old.candidates != new.candidates:
        detail = "stored counts can be decoded again with the new list"
        yield Change(new.id, "candidates", Harm.HARMLESS, detail)
    yield from _of_the_words(old, new, budget)
    if old.transport != new.transport:
        yield Change(new.id, "transport", *_BECOMES[new.transport])
    yield from _of_publishing(old, new)
    if old.groups != new.groups:
        yield from _of_the_groups(old, new)
    if old.window != new.window and "window" not in new.mechanism.parameters:
        detail = f"privacy is stated for {new.window or 'no'} reports, not for {old.window or 'none'}"
        yield Change(new.id, "window", Harm.HARMLESS, detail)
    yield from _differs(new.id, "yearly_reason", repr(old.yearly_reason), repr(new.yearly_reason))


def _of_the_panel(old: Metric, new: Metric) -> Iterator[Change]:
    """How seldom devices are asked, and so what a year tells of one."""
    before, after = (yearly([metric]).epsilon for metric in (old, new))
    shown = ["none" if metric.panel is None else str(metric.panel) for metric in (old, new)]
    detail = (
        f"{shown[0]} becomes {shown[1]}: what any year tells, epsilon {' becomes '.join(epsilons_apart(before, after))}"
    )
    again = old.once is not new.once
    detail += "; a device that has answered before answers again" if again else ""
    yield Change(new.id, "panel", Harm.WEAKENS if after > before or again else Harm.HARMLESS, detail)


def _of_the_words(old: Metric, new: Metric, budget: PersonBudget | None) -> Iterator[Change]:
    """What people read; under another attribute, reports no longer count within the old one's budget."""
    limited = budget is not None and old.attribute in budget.attributes
    for key in ("title", "description", "owner", "purpose", "attribute"):
        before, after = getattr(old, key), getattr(new, key)
        if before != after:
            detail = f"{before!r} becomes {after!r}: devices ask about it again"
            leaves = limited and key == "attribute"
            detail += f", and its reports no longer count within the budget of {before}" if leaves else ""
            yield Change(new.id, key, Harm.WEAKENS if leaves else Harm.HARMLESS, detail)


def _of_the_noise(old: Metric, new: Metric) -> Iterator[Change]:
    """Every epsilon that is larger than it was promised."""
    before, after = metric_terms(old), metric_terms(new)
    windows = {window for window in (old.window, new.window) if window and window > 1}
    yield from _worse(new.id, "one report", (1,), before.epsilon_n, after.epsilon_n)
    several = "several reports of one unchanged value"
    yield from _worse(new.id, several, sorted({*NUMBERS, *windows}), before.epsilon_n, after.epsilon_n)
    ever = "any number of reports of one unchanged value"
    yield from _worse(new.id, ever, (0,), lambda _: before.epsilon_permanent, lambda _: after.epsilon_permanent)
    if not after.fresh:  # of fresh noise the line on several reports says it
        yield from _worse(new.id, "any two histories", CHANGES, before.epsilon_any, after.epsilon_any)


def _of_the_account(name: str, earlier: Sequence[MetricRegistry], new: Metric) -> Iterator[Change]:
    """What the past costs: a device with permanent responses under other accounts draws one more for a value."""
    # A panel's answers have no permanent responses: they leave none, and repeat none.
    others = [each for each in earlier if each[name].account != new.account and each[name].panel is None]
    if not others or new.panel is not None:
        return
    last = others[-1]
    since = "" if last is earlier[-1] else f"since version {last.version}: "
    what = "domain" if last[name].mechanism.digest == new.mechanism.digest else "parameters"
    # Fresh noise has no past: what it costs is said of the mechanism, or of the panel.
    accounts = {registry[name].account: registry[name] for registry in reversed(others)}
    memoized = [] if new.fresh else [metric for metric in accounts.values() if not metric.fresh]
    if not memoized:
        return
    promised = memoized[0].mechanism.epsilon_permanent
    total = add_up((1, metric.mechanism.epsilon_permanent) for metric in (new, *memoized))
    detail = f"{since}devices that have reported draw new permanent responses, and those of before were sent already: "
    if math.isfinite(promised):
        cost, promise = epsilons_apart(total, promised)
        detail += f"all reports of one value cost {cost} together, where {promise} was promised"
    else:
        detail += "what both cost adds up"
    if any(registry[name].account == new.account for registry in earlier):
        detail += (
            "; responses under an earlier registry with the same parameters and domain are the same: they cost once"
        )
    yield Change(new.id, what, Harm.WEAKENS, detail)


def _worse(
    name: str, what: str, numbers: Sequence[int], old: Callable[[int], float], new: Callable[[int], float]
) -> Iterator[Change]:
    """Return the change at the number of reports where it is worst, if it is one for the worse anywhere."""
    pairs = [(number, old(number), new(number)) for number in numbers]
    risen = [pair for pair in pairs if pair[2] > pair[1]]
    if risen:
        number, before, after = max(risen, key=lambda pair: pair[2] - pair[1])
        of = f"for {number} reports: " if number > 1 else ""
        detail = f"{of}epsilon {' becomes '.join(epsilons_apart(before, after))}"
        yield Change(name, what, Harm.WEAKENS, detail)


def _of_the_cap(old: Metric, new: Metric) -> Iterator[Change]:
    """How many responses a device may give away, and whether one past the cap follows the value."""
    becomes = {}
    if old.max_values != new.max_values:
        shown = [metric.max_values or "any number" for metric in (old, new)]
        becomes["max_values"] = f"{shown[0]} becomes {shown[1]}"
    if old.over_cap != new.over_cap:
        becomes["over_cap"] = f"past the cap on values, {old.over_cap} becomes {new.over_cap}"
    if not becomes:
        return
    # The cap that a device may reach: one with a full old one may still report nothing.
    most = None
    if old.max_values is not None and old.max_responses is not None and new.max_values is not None:
        most = max(old.max_values, new.max_values, old.max_responses - new.nothing_is_spare)
    reached = replace(new, max_values=most)
    before, after = (most_responses(metric) for metric in (old, reached))
    kept = not (old.fresh or new.fresh)  # no cap applies to fresh noise
    follows = _follows(new) and not _follows(old)
    weakens = kept and (follows or (before is not None and (after is None or after > before)))
    epsilons = epsilons_apart(*(lifetime_epsilon(metric) for metric in (old, reached if weakens else new)))
    detail = "; ".join(becomes.values())
    detail += f": all that a device may ever report, epsilon {' becomes '.join(epsilons)}"
    detail += ", and past the cap reports follow the value" if follows else ""
    yield Change(new.id, " and ".join(becomes), Harm.WEAKENS if weakens else Harm.HARMLESS, detail)


def _follows(metric: Metric) -> bool:
    values = metric_terms(metric).most_values
    most = metric.max_values
    return metric.over_cap == "nearest" and most is not None and (values is None or most <= values)


def _of_time(old: Metric, new: Metric) -> Iterator[Change]:
    if old.period != new.period:
        if most_in_a_year(new) > most_in_a_year(old):
            detail = f"every {old.period} becomes every {new.period}: a device reports more often"
            yield Change(new.id, "period", Harm.WEAKENS, detail)
        detail = f"every {old.period} becomes every {new.period}: stored counts are numbered by other periods"
        yield Change(new.id, "period", Harm.BREAKS, detail)
    if old.retention_days != new.retention_days:
        kind = Harm.WEAKENS if new.retention_days > old.retention_days else Harm.HARMLESS
        detail = f"reports are kept for {new.retention_days} days, not for {old.retention_days}"
        yield Change(new.id, "retention_days", kind, detail)
    if old.grace_days != new.grace_days:
        detail = (
            f"late reports are taken, and batch ids remembered, for {new.grace_days} days, not for {old.grace_days}"
        )
        if new.grace_days > old.grace_days:
            detail += "; ids forgotten until now stay forgotten: an upload repeated from then would count twice"
        reopens = new.grace_days > old.grace_days and old.publish != "nothing"
        if reopens:
            detail += "; a published period takes reports again, and its estimates published then show them"
        yield Change(new.id, "grace_days", Harm.WEAKENS if reopens else Harm.HARMLESS, detail)
    if old.expires != new.expires:
        renewed = "renewed until" if new.expires > old.expires else "ends sooner, on"
        detail = f"{renewed} {new.expires}, not {old.expires}: " + (
            "allowed, and to be reviewed; a device past the old end has destroyed its key, and reports no more"
            if new.expires > old.expires
            else "less is collected"
        )
        yield Change(new.id, "expires", Harm.HARMLESS, detail)


def _of_publishing(old: Metric, new: Metric) -> Iterator[Change]:
    if old.publish != new.publish:
        what, more = "publish", new.publish != "nothing"
        detail = f"{old.publish} becomes {new.publish}"
    elif old.publish_least != new.publish_least:
        what, more = "publish_least", new.publish_least < old.publish_least
        detail = f"a period is published with {new.publish_least:,} reports or more, not with {old.publish_least:,}"
    else:
        return
    again = ": devices ask about it again" if more else ""
    yield Change(new.id, what, Harm.WEAKENS if more else Harm.HARMLESS, detail + again)


def _of_the_groups(old: Metric, new: Metric) -> Iterator[Change]:
    """What a device sends in clear: more of it, less of it, or the same with other public figures."""
    before, after = (_grouped(metric.groups) for metric in (old, new))
    kind = Harm.HARMLESS
    detail = "other public shares, devices or floor: they decide which groups are listed and shown, and are not sent"
    if before != after:
        sent = [f"{names[0]} ({', '.join(names[1:])})" if names else "no group" for names in (before, after)]
        detail = f"sent in clear: {sent[0]} becomes {sent[1]}: devices ask about the metric again"
        if after[:1] not in ((), before[:1]):
            kind, detail = Harm.WEAKENS, f"{detail}, and no noise protects a group"
    yield Change(new.id, "groups", kind, detail)


def _grouped(groups: Groups | None) -> tuple[str, ...]:
    return () if groups is None else (groups.by, *sorted(groups.shares))
