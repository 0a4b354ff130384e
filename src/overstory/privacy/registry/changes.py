"""What a change of the metric registry means: which promises it weakens, which stored counts it breaks.

A person agreed to a metric as it was. Whatever reveals more than that, under the same id, breaks the agreement; it
needs a new metric, with an id of its own, about which people are asked. Two rules are less obvious than the rest:

- **Other parameters weaken, even those with a smaller epsilon, where permanent responses are memoized.** A device that
  has reported draws new permanent responses under the new parameters, and the old ones are out already: together they
  cost the sum of both epsilons, where one was promised. (Noise that is drawn afresh for every report has no such past.)
  So do other symbols for the same values: a value with another symbol has another permanent response.
- **A later expiry does not weaken.** Renewing is a decision to be reviewed, which is why expiry is required; what
  bounds a person's loss, the permanent epsilon and the cap on values, does not grow with time, and a collection whose
  noise is all fresh says so on its page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from overstory.privacy.payloads.registry import terms_of
from overstory.privacy.registry.lifetime import lifetime_epsilon
from overstory.privacy.terms import add_up
from overstory.privacy.text import epsilon_text
from overstory.protocol.mechanisms.base import LocalRandomizer
from overstory.protocol.metrics import Metric, MetricRegistry, PersonBudget
from overstory.protocol.metrics.groups import Groups

if TYPE_CHECKING:
    from overstory.protocol.metrics.oblivious import ObliviousRoute
    from overstory.protocol.metrics.shards import Shards

NUMBERS: Final = (2, 3, 5, 10, 20, 50, 100)
CHANGES: Final = (2, 5, 10)
OVER_CAP: Final = ("first", "drop", "nearest")
"""What happens past the cap on values, from what reveals least: no value is told; that there are more; where."""


class Kind(StrEnum):
    """What a change does."""

    WEAKENS = "weakens-privacy"
    BREAKS = "breaks-counts"
    HARMLESS = "harmless"


_BECOMES: Final = {
    "direct": (Kind.WEAKENS, "oblivious becomes direct: the collector sees the address that a report comes from"),
    "oblivious": (
        Kind.HARMLESS,
        "direct becomes oblivious: a relay sees the address, not the collector; devices ask again",
    ),
}


@dataclass(frozen=True)
class Change:
    """One difference between two registries."""

    metric: str  # the metric's id; empty for the registry as a whole
    what: str  # the key, or the promise, that changed
    kind: Kind  # whether it weakens privacy, breaks stored counts, or neither
    detail: str  # in a sentence

    def to_json(self) -> dict[str, str]:
        """Return JSON values."""
        return {"metric": self.metric, "what": self.what, "kind": str(self.kind), "detail": self.detail}


def compare_registries(old: MetricRegistry, new: MetricRegistry) -> list[Change]:
    """Return every change from one registry to another, by metric, what weakens privacy first.

    Examples
    --------
    >>> from overstory.protocol.metrics.registry import EXAMPLE, parse_registry
    >>> weaker = EXAMPLE.replace("epsilon = 1.0", "epsilon = 2.0").replace("-11-21", "-11-22")
    >>> found = compare_registries(parse_registry(EXAMPLE), parse_registry(weaker))
    >>> [(change.what, str(change.kind)) for change in found][1:3]
    [('one report', 'weakens-privacy'), ('several reports of one unchanged value', 'weakens-privacy')]
    """
    changes = [*_of_the_whole(old, new)]
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            changes.append(
                Change(name, "metric", Kind.HARMLESS, "no longer listed: its reports are refused, counts stay")
            )
        elif name not in old:
            changes.append(Change(name, "metric", Kind.HARMLESS, "new: nothing is recorded before a person was asked"))
        else:
            order = list(Kind)
            changes += sorted(_of_a_metric(old[name], new[name]), key=lambda change: order.index(change.kind))
    return changes


def _of_the_whole(old: MetricRegistry, new: MetricRegistry) -> Iterator[Change]:
    if old.version != new.version:
        yield Change("", "registry", Kind.HARMLESS, f"version {old.version} becomes {new.version}")
    elif old.digest != new.digest:
        detail = (
            f"still version {old.version}, though metrics changed: consent could not tell the two apart; give another"
        )
        yield Change("", "registry", Kind.HARMLESS, detail)
    if old.budget != new.budget:
        before, after = (_limits(registry.budget) for registry in (old, new))
        weaker = old.budget is not None and (new.budget is None or new.budget.allows_more_than(old.budget))
        detail = f"{before} becomes {after}" + (": devices ask about every metric again" if weaker else "")
        yield Change("", "budget", Kind.WEAKENS if weaker else Kind.HARMLESS, detail)

    yield from _of_the_relay(old.oblivious, new.oblivious)
    yield from _of_the_shards(old.shards, new.shards)
    if old.opt_out != new.opt_out:
        yield Change("", "opt_out", Kind.HARMLESS, f"{old.opt_out!r} becomes {new.opt_out!r}")


def _of_the_relay(old: ObliviousRoute | None, new: ObliviousRoute | None) -> Iterator[Change]:
    before, after = ("none" if route is None else route.described for route in (old, new))
    if before != after:
        asks = "" if old is None or new is None else ": devices ask about oblivious metrics again"
        yield Change("", "oblivious", Kind.HARMLESS, f"{before} becomes {after}{asks}")
    if old is not None and new is not None and old.keys != new.keys:
        detail = f"{_keys_text(old)} becomes {_keys_text(new)}: the collector must have the private key of each"
        yield Change("", "oblivious.keys", Kind.HARMLESS, detail)


def _of_the_shards(old: Shards | None, new: Shards | None) -> Iterator[Change]:
    if old == new:
        return
    before, after = ("one collector" if shards is None else f"shards {shards}" for shards in (old, new))
    first = new.first_difference(old) if new is not None else old.first_difference(new) if old is not None else None
    detail = f"{before} becomes {after}"
    if first == 0:
        detail += (
            ": uploads of periods that have begun go to other stores, which count a retry again; leave count, and give "
            "the new number in [shards.from], from a day to come"
        )
    elif first is not None:
        detail += ": release it to devices before the first new day, and keep [shards] afterwards"
    yield Change("", "shards", Kind.BREAKS if first == 0 else Kind.HARMLESS, detail)


def _keys_text(route: ObliviousRoute) -> str:
    from overstory.protocol.oblivious.hpke import fingerprint
    from overstory.protocol.oblivious.key_list import read_entries

    return ", ".join(f"{entry.key_id} ({fingerprint(entry.public)})" for entry in read_entries(route.keys))


def _limits(budget: PersonBudget | None) -> str:
    if budget is None:
        return "none"
    own = "".join(f", {most:g} for {name}" for name, most in budget.attributes.items())
    return f"epsilon {budget.epsilon:g} ({budget.against}){own}"


def _of_a_metric(old: Metric, new: Metric) -> Iterator[Change]:
    if old.mechanism.digest != new.mechanism.digest:
        yield from _of_the_mechanism(old, new)
    yield from _of_the_cap(old, new)
    yield from _of_time(old, new)
    if old.domain.canonical() != new.domain.canonical():
        yield from _of_the_domain(old, new)
    if (old.candidates, old.candidate_lists) != (new.candidates, new.candidate_lists):
        yield _of_the_candidates(new)
    for key in ("title", "description", "owner", "purpose", "attribute"):
        if getattr(old, key) != getattr(new, key):
            detail = f"{getattr(old, key)!r} becomes {getattr(new, key)!r}: devices ask about it again"
            yield Change(new.id, key, Kind.HARMLESS, detail)
    if old.transport != new.transport:
        yield Change(new.id, "transport", *_BECOMES[new.transport])
    if old.publish != new.publish:
        detail = f"{old.publish} becomes {new.publish}: estimates are computed from reports, at no further privacy loss"
        yield Change(new.id, "publish", Kind.HARMLESS, detail)
    if old.groups != new.groups:
        yield from _of_the_groups(old, new)
    if old.window != new.window and "window" not in new.mechanism.parameters:
        detail = f"privacy is stated for {new.window or 'no'} reports, not for {old.window or 'none'}"
        yield Change(new.id, "window", Kind.HARMLESS, detail)


def _of_the_mechanism(old: Metric, new: Metric) -> Iterator[Change]:
    """Other parameters, or another oracle: every epsilon, then what the past costs, then the counts."""
    before, after = terms_of(old.mechanism), terms_of(new.mechanism)
    windows = {window for window in (old.window, new.window) if window and window > 1}
    yield from _worse(new.id, "one report", (1,), before.epsilon_n, after.epsilon_n)
    yield from _worse(
        new.id,
        "several reports of one unchanged value",
        sorted({*NUMBERS, *windows}),
        before.epsilon_n,
        after.epsilon_n,
    )
    permanent = old.mechanism.epsilon_permanent, new.mechanism.epsilon_permanent
    yield from _worse(new.id, "any number of reports of one unchanged value", (0,), *map(_always, permanent))
    yield from _worse(new.id, "a change of value", CHANGES, before.change_leak, after.change_leak)
    if asks_others(old.mechanism, new.mechanism):
        detail = "other devices are asked: none that has answered, or may have, answers again"
        yield Change(new.id, "parameters", Kind.HARMLESS, detail)
    elif all(map(math.isfinite, permanent)):  # so neither's noise is all fresh
        total = add_up([(1, epsilon) for epsilon in permanent])
        detail = (
            "devices that have reported draw new permanent responses, and the old ones are out: all reports of one "
            f"value cost {_epsilon(total)} together, where {_epsilon(permanent[0])} was promised"
        )
        yield Change(new.id, "parameters", Kind.WEAKENS, detail)
    what = "oracle" if old.mechanism.name != new.mechanism.name else "parameters"
    detail = "reports made with the old parameters are refused, and the counts of both cannot be added up"
    yield Change(new.id, what, Kind.BREAKS, detail)


def asks_others(old: LocalRandomizer, new: LocalRandomizer) -> bool:
    """Whether no device that reports by the one parameters reports by the others: two waves of one number of waves.

    A device's number follows from its secret and the metric alone, so it is the same under both.
    """
    if not (old.once and new.once) or old.num_cohorts != new.num_cohorts:
        return False
    asked = [list(_asked(mechanism)) for mechanism in (old, new)]
    return not any(start < other_stop and other < stop for start, stop in asked[0] for other, other_stop in asked[1])


def _asked(mechanism: LocalRandomizer) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the devices' numbers that report at all."""
    start = 0
    for stop, limit in mechanism.zones:
        if limit:
            yield start, stop
        start = stop


def _always(epsilon: float) -> Callable[[int], float]:
    return lambda _: epsilon


def _worse(
    name: str, what: str, numbers: Sequence[int], old: Callable[[int], float], new: Callable[[int], float]
) -> Iterator[Change]:
    """Return the change at the number of reports where it is worst, if it is one for the worse anywhere."""
    pairs = [(number, old(number), new(number)) for number in numbers]
    risen = [pair for pair in pairs if pair[2] > pair[1]]
    if risen:
        number, before, after = max(risen, key=lambda pair: pair[2] - pair[1])
        of = f"for {number} reports: " if number > 1 else ""
        detail = f"{of}epsilon {_epsilon(before)} becomes {_epsilon(after)}"
        yield Change(name, what, Kind.WEAKENS, detail)


def _epsilon(epsilon: float) -> str:
    return epsilon_text(epsilon, "without bound")


def _of_the_domain(old: Metric, new: Metric) -> Iterator[Change]:
    """Other values for the symbols: of a value that had another one, two permanent responses are out."""
    forms = [{**metric.domain.canonical(), "ordered": None} for metric in (old, new)]
    if forms[0] == forms[1]:
        detail = "the categories' order has a meaning now, or has none any more: values keep their symbols"
        yield Change(new.id, "domain", Kind.HARMLESS, detail)
        return
    terms, same = terms_of(new.mechanism), old.mechanism.digest == new.mechanism.digest
    if same and not terms.fresh and new.domain.renumbers(old.domain):  # of other parameters a line says so already
        both = _epsilon(add_up([(2, terms.epsilon_permanent)]))
        detail = (
            "a value whose symbol is another now gets a second permanent response, and the first is out: all reports "
            f"of it cost {both} together, where {_epsilon(terms.epsilon_permanent)} was promised"
        )
        yield Change(new.id, "domain", Kind.WEAKENS, detail)
    what = "reports stand for other numbers" if new.domain.size is None else "symbols stand for other values"
    yield Change(new.id, "domain", Kind.BREAKS, f"{what}, and so do stored counts")


def _of_the_cap(old: Metric, new: Metric) -> Iterator[Change]:
    """How many values a device may give away, and what follows once it has."""
    caps = [metric.max_values or math.inf for metric in (old, new)]
    if caps[0] != caps[1]:
        before, after = map(lifetime_epsilon, (old, new))
        more = caps[1] > caps[0] and (after > before or math.isinf(before))  # not above the domain's size
        shown = [metric.max_values or "any number" for metric in (old, new)]
        lifetime = f"all that a device may ever report, epsilon {_epsilon(before)} becomes {_epsilon(after)}"
        kind = Kind.WEAKENS if more else Kind.HARMLESS
        detail = f"{shown[0]} becomes {shown[1]}: {lifetime}"
        yield Change(new.id, "max_values", kind, detail)
    if old.over_cap != new.over_cap:
        worse = OVER_CAP.index(new.over_cap) > OVER_CAP.index(old.over_cap)
        detail = f"past the cap on values, {old.over_cap} becomes {new.over_cap}"
        if worse:
            detail += (
                ": they follow the value again" if new.over_cap == "nearest" else ": a response more tells of them"
            )
        yield Change(new.id, "over_cap", Kind.WEAKENS if worse else Kind.HARMLESS, detail)


def _of_time(old: Metric, new: Metric) -> Iterator[Change]:
    if old.period != new.period:
        if new.period < old.period:
            detail = f"every {old.period} becomes every {new.period}: a device reports more often"
            yield Change(new.id, "period", Kind.WEAKENS, detail)
        detail = f"every {old.period} becomes every {new.period}: stored counts are numbered by other periods"
        yield Change(new.id, "period", Kind.BREAKS, detail)
    if old.retention_days != new.retention_days:
        kind = Kind.WEAKENS if new.retention_days > old.retention_days else Kind.HARMLESS
        detail = f"reports are kept for {new.retention_days} days, not for {old.retention_days}"
        yield Change(new.id, "retention_days", kind, detail)
    if old.grace_days != new.grace_days:
        detail = (
            f"late reports are taken, and batch ids remembered, for {new.grace_days} days, not for {old.grace_days}"
        )
        if new.grace_days > old.grace_days:
            detail += "; ids forgotten until now stay forgotten: an upload repeated from then would count twice"
        yield Change(new.id, "grace_days", Kind.HARMLESS, detail)
    if old.expires != new.expires:
        renewed = "renewed until" if new.expires > old.expires else "ends sooner, on"
        detail = f"{renewed} {new.expires}, not {old.expires}: " + (
            "allowed, and to be reviewed; a device past the old end has destroyed its key, and reports no more"
            if new.expires > old.expires
            else "less is collected"
        )
        yield Change(new.id, "expires", Kind.HARMLESS, detail)


def _of_the_groups(old: Metric, new: Metric) -> Iterator[Change]:
    """What a device sends in clear: more of it, less of it, or the same with other public figures."""
    before, after = (_grouped(metric.groups) for metric in (old, new))
    if before == after:
        detail = (
            "other public shares, devices or floor: they decide which groups are listed and shown, and are not sent"
        )
        yield Change(new.id, "groups", Kind.HARMLESS, detail)
        return
    sent = [f"{names[0]} ({', '.join(names[1:])})" if names else "no group" for names in (before, after)]
    detail = f"sent in clear: {sent[0]} becomes {sent[1]}: devices ask about the metric again"
    if after[:1] not in ((), before[:1]):
        yield Change(new.id, "groups", Kind.WEAKENS, f"{detail}, and no noise protects a group")
    else:
        yield Change(new.id, "groups", Kind.HARMLESS, detail)


def _grouped(groups: Groups | None) -> tuple[str, ...]:
    return () if groups is None else (groups.by, *sorted(groups.shares))


def _of_the_candidates(new: Metric) -> Change:
    if new.counted_by_label:
        detail = "reports are counted by candidate as they come in: stored counts are of the old list"
        return Change(new.id, "candidates", Kind.BREAKS, detail)
    return Change(new.id, "candidates", Kind.HARMLESS, "stored counts can be decoded again with the new list")
