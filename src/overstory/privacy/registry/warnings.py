"""Warnings on a registry without faults, worth a second look; and notes, which a reviewer should know in any case."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from overstory.presentation.formats import epsilon_text, plural
from overstory.privacy.attacks import metric_linkability
from overstory.privacy.registry.cost import HIGH, lifetime_epsilon, parts_of_a_year, year_of, yearly
from overstory.privacy.statements import ALWAYS
from overstory.privacy.terms import add_up, metric_terms
from overstory.protocol.domains.domains import Strings
from overstory.protocol.errors import WireError
from overstory.protocol.metrics import Fault, Metric, MetricRegistry
from overstory.protocol.metrics.groups import FLOOR, OTHER
from overstory.protocol.metrics.metric import FEWEST_TOGETHER
from overstory.protocol.metrics.metric_table import PUBLISH_LEAST
from overstory.protocol.metrics.panel import Panel
from overstory.protocol.metrics.toml_fields import positions

TWO_ROUNDS: Final = (
    "oracles of two rounds, such as l-osue and rappor, hide the change, and send reports that are only alike"
)
ONLY_NUMBERS: Final = (
    "a coarser resolution makes changes rare; bins with an oracle of two rounds, such as l-osue, hide them"
)

FINE = 1024  # positions of a number above which a reading is nearly always another one than before

MOST_SEEDS = 1024
"""Cohorts, seeds or rows up to which a device is one of a crowd: of a million devices about a thousand share each."""

MOST_KEYS: Final = 2
SOON = 30  # days before its expiry at which a metric is worth a decision


def registry_warnings(registry: MetricRegistry, text: str, today: dt.date, *, server: str | None = None) -> list[Fault]:
    """Return what to look at again, each with its line; a past expiry is no fault: late reports are still taken."""
    where = positions(text)
    found: list[tuple[tuple[str, ...], str, str]] = [
        *((("oblivious",), key, message) for key, message in _relay(registry, server)),
        *(((), "panel", message) for message in _year(registry)),
        *(((), "budget", message) for message in _starved(registry)),
    ]
    for name, metric in registry.items():
        warned = (
            *_expiry(metric, today),
            *_caps(metric),
            *_links(metric, today),
            *_published(metric),
            *_resolution(metric),
            *_groups(metric),
        )
        found += [(("metrics", name), key, message) for key, message in warned]
    faults = []
    for table, key, message in found:
        line = next(where[path].line for path in ((*table, key), table, table[:1], ("registry",)) if path in where)
        faults.append(Fault(line, ".".join(filter(None, (*table, key))), message))
    return sorted(faults)


def _relay(registry: MetricRegistry, server: str | None) -> Iterator[tuple[str, str]]:
    """Warn of a relay that could not keep apart who sends and what is sent, and of keys that are of no use."""
    route = registry.oblivious
    if route is None:
        return
    from overstory.protocol.oblivious.formats import read_entries
    from overstory.protocol.oblivious.messages import usable_key
    from overstory.protocol.wire import shared_host, unencrypted_host

    if not any(metric.is_oblivious for metric in registry.values()):
        yield "", 'no metric has transport = "oblivious": nothing goes through the relay'
    if unencrypted_host(route.relay) is not None:
        sentence = "over plain http anybody on the way sees who sends, and can answer in the relay's place"
        yield "relay", f"{sentence}: give an https:// address"
    if shared_host(route.relay, server) is not None:
        yield "relay", "this is the collector's own host, which would see both who sends and what is sent: give another"
    ids = [entry.key_id for entry in read_entries(route.keys)]
    if len(ids) > MOST_KEYS:
        sentence = f"{len(ids)} keys, where a rotation needs {MOST_KEYS}: the one that is used, and the one before it"
        yield "keys", f"{sentence}; every key is one more that opens reports"
    if len(set(ids)) < len(ids):
        yield "keys", "two keys have one id, and a message names its key by the id alone: give each its own"
    try:
        usable_key(route.keys)
    except WireError:
        needed = "X25519, HKDF-SHA256 and ChaCha20-Poly1305"
        yield "keys", f"devices can use none of these, so that nothing is sent: a key for {needed} is needed"


def _year(registry: MetricRegistry) -> Iterator[str]:
    """Warn where a year reveals much of a person, whatever she holds, and the file does not say why."""
    metrics = [metric for metric in registry.values() if metric.yearly_reason is None]
    claim = yearly(metrics, registry.budget)
    if not claim.epsilon > HIGH:
        return
    cured = yearly([replace(metric, panel=Panel(), max_values=None) for metric in metrics], registry.budget).epsilon
    cure = f'with panel = {{cycle = "year", answers = 1}}, and no max_values, epsilon {epsilon_text(cured)}'
    if cured > HIGH:
        cure += f", and an oracle with less: up to {HIGH:g}"
    most = max(parts_of_a_year(metrics), key=lambda part: part.epsilon)
    year = f"{claim.amount}, {ALWAYS}, {year_of(metrics)}, most of it by {most.words}"
    yield f"{year}; {cure}; or give yearly_reason, why a metric needs more"


def _starved(registry: MetricRegistry) -> Iterator[str]:
    """Warn where a budget keeps devices from answers that their panel asks for."""
    budget = registry.budget
    if budget is None or all(metric.panel is None for metric in registry.values()):
        return
    if budget.per == "ever":
        kept = any(not metric.is_afresh for metric in registry.values())
        cure = "take the panels out, or the metrics that keep noise" if kept else 'give per = "year"'
        answers = "the answers of a panel add up with every year, and devices give none once it is used up"
        yield f"epsilon {budget.epsilon:g} is for all years together: {answers}; {cure}"
        return
    limits: list[tuple[str | None, float]] = [(None, budget.epsilon), *budget.attributes.items()]
    for attribute, most in limits:
        metrics = [metric for metric in registry.values() if attribute in {None, metric.attribute}]
        cost = add_up((1, part.epsilon) for part in parts_of_a_year(metrics))
        if cost > most and any(metric.panel is not None for metric in metrics):
            about = "" if attribute is None else f" of {attribute}"
            year = f"a year's reports{about} cost epsilon {epsilon_text(cost)}, and the budget allows {most:g}"
            lost = "devices that have used it up do not answer where their panel asks"
            yield f"{year}: {lost}; give it as much, or the metrics a share of the panel or smaller epsilons"


def _expiry(metric: Metric, today: dt.date) -> Iterator[tuple[str, str]]:
    left = (metric.expires - today).days
    if left <= 0:
        yield "expires", f"expired on {metric.expires}: nothing is collected any more; renew it or remove it"
    elif left <= SOON:
        yield "expires", f"expires in {plural(left, 'day')}, on {metric.expires}: renew it in time, or plan its end"


def _links(metric: Metric, today: dt.date) -> Iterator[tuple[str, str]]:
    if metric.once or metric.panel is not None:
        return  # one report cannot be put together with another
    linkable, cohorts = metric_linkability(metric), metric.mechanism.num_cohorts
    midnight = dt.datetime(today.year, today.month, today.day, tzinfo=dt.UTC).timestamp()
    if linkable.has_payload and metric.period.number(metric.expires_at) - metric.period.number(midnight) > 1:
        sentence = (
            f"a device reports every {metric.period}, and the noise is drawn once: an unchanged value always sends the "
            f"same report ({linkable.unchanged_words()}), and two different ones prove a change"
        )
        yield "oracle", f"{sentence}; {ONLY_NUMBERS if 'numbers' in metric.domain.families else TWO_ROUNDS}"
    if cohorts > MOST_SEEDS:
        sentence = f"each report carries its device's own of {cohorts:,} public numbers ({linkable.always.words()})"
        if not metric.mechanism.counted_by_value:
            sentence += f"; after retention_days a count of fewer than {FEWEST_TOGETHER} reports is deleted"
        yield "parameters", f"{sentence}: an oracle with at most {MOST_SEEDS:,} hides a device among many"


def _published(metric: Metric) -> Iterator[tuple[str, str]]:
    if metric.publish == "estimates" and isinstance(metric.domain, Strings) and metric.domain.candidates is None:
        yield "publish", "strings without a file of candidates have no estimates to publish: name a file in the domain"
    if metric.publish_least < PUBLISH_LEAST:
        yield (
            "publish_least",
            f"estimates of {metric.publish_least} reports are close to the reports: {PUBLISH_LEAST} are usual",
        )


def _groups(metric: Metric) -> Iterator[tuple[str, str]]:
    """Warn of small groups, and of what follows a device from one group to the next."""
    groups = metric.groups
    if groups is None:
        return
    if groups.floor < FLOOR:
        message = (
            f"floor = {groups.floor}: the group is sent in clear, and one of fewer than {FLOOR:,} devices helps to "
            f"tell a device's reports apart, of all metrics; {FLOOR:,} is the usual floor"
        )
        yield "groups", message
    if groups.hidden(OTHER):
        message = (
            f"the shares leave no device for {OTHER!r}: one that reports it is rare, and its results are hidden; leave "
            "a share for devices that are in no listed group"
        )
        yield "groups", message
    cohorts = metric.mechanism.num_cohorts
    rarest = min((groups.expected(name) for name in groups.names if not groups.hidden(name)), default=0.0)
    panel = metric.panel
    rarest *= 1.0 if panel is None else float(panel.share_asked(metric.period, panel.part_of_questions(0)))
    # With twice as many on average, hardly any cohort or seed has fewer.
    if not metric.mechanism.counted_by_value and rarest < 2 * FEWEST_TOGETHER * cohorts:
        message = (
            f"counts stay only of {FEWEST_TOGETHER} or more reports together, and the rarest group has about "
            f"{rarest / cohorts:,.1f} in a period for each of {cohorts:,} cohorts or seeds: have fewer of these, "
            "larger groups or longer periods"
        )
        yield "retention_days", message


def _resolution(metric: Metric) -> Iterator[tuple[str, str]]:
    """A number that moves is a new value, which costs a response of its own, or the cap's last one."""
    if "numbers" not in metric.domain.families or (metric.num_values or 0) <= FINE:
        return
    after = "each of which costs as much as the first"
    if metric.max_values is not None:
        after = f"and after {metric.max_values} of them a device reports one of these for good"
    many = f"the range has {metric.num_values:,} positions, so a reading that moves at all is a new value, {after}"
    yield "parameters", f"{many}; a resolution such as 64 lets values come again"


def _caps(metric: Metric) -> Iterator[tuple[str, str]]:
    terms, cap = metric_terms(metric), metric.max_values
    if terms.once:  # a device sends one report by these parameters, and no other
        return
    if cap is None:
        if not terms.fresh and terms.most_values is None and metric.num_values is None:
            yield "max_values", "no cap: what one device may reveal by ever new values is without bound"
        elif not terms.fresh and terms.most_values is None:
            together = (
                f"{metric.num_values:,} values, which cost epsilon {epsilon_text(lifetime_epsilon(metric))} together"
            )
            yield "max_values", f"no cap: a device may report all {together}"
    elif terms.fresh:
        yield "max_values", "has no effect on privacy: all noise is drawn afresh, and every report adds its own"
    elif metric.num_values is not None and cap >= metric.num_values + (not metric.nothing_is_spare):
        yield "max_values", f"has no effect: the domain has {metric.num_values} values"
    elif not metric.nothing_is_spare and metric.domain.refuses:
        yield "max_values", "a value outside the domain is reported as nothing, which takes one of these places"


def registry_notes(registry: MetricRegistry) -> Iterator[str]:
    """Return what a reviewer should know in any case, and no page says."""
    bare = [name for name, metric in registry.items() if metric.attribute is None]
    if len(bare) > 1:
        names = f"{', '.join(bare)} name no attribute: if some of them tell of one thing, give them one"
        yield f"{names}, and overstory metrics show says what they cost together"
    direct = [name for name, metric in registry.items() if not metric.is_oblivious]
    if direct and len(direct) < len(registry):
        oblivious = ", ".join(name for name in registry if name not in direct)
        yield (
            f"{oblivious} through the relay, {', '.join(direct)} directly: a device may send both at about the same "
            "time, and a relay that passes messages on at once does not hide that; one that shuffles does"
        )
