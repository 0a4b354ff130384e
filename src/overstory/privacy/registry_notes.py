"""What a reviewer should know of a registry without fault or warning: what adds up, and when a budget ends."""

from __future__ import annotations

from collections.abc import Iterator

from overstory.privacy.person_budget import budget_words
from overstory.privacy.terms import add_up
from overstory.privacy.words import epsilon_text
from overstory.protocol.metrics import MetricRegistry


def registry_notes(registry: MetricRegistry) -> Iterator[str]:
    """Return what several metrics of one person cost together, and after how many reports a budget ends.

    Whether two metrics tell of one thing is for people to know, so it is not guessed.

    Examples
    --------
    >>> from overstory.protocol.metrics.registry import EXAMPLE, parse_registry
    >>> again = EXAMPLE.partition("[metrics.colour]")[2]
    >>> print(*registry_notes(parse_registry(f"{EXAMPLE}[metrics.shade]{again}")))
    colour, shade name no attribute: if they tell of one thing, one report of each costs epsilon 2.0000 together
    """
    bare = [metric for metric in registry.values() if metric.attribute is None]
    if len(bare) > 1:
        yield _together([metric.id for metric in bare], registry, "name no attribute: if they tell of one thing,")
    shared: dict[str, list[str]] = {}
    for name, metric in registry.items():
        if metric.attribute is not None:
            shared.setdefault(metric.attribute, []).append(name)
    for attribute, names in sorted(shared.items()):
        if len(names) > 1:
            yield _together(names, registry, f"tell of {attribute}:")
    if registry.budget is not None:
        yield from (f"budget: {sentence}" for sentence in budget_words(registry.budget, registry.values()))


def _together(names: list[str], registry: MetricRegistry, said: str) -> str:
    total = add_up((1, registry[name].mechanism.epsilon_report) for name in names)
    return f"{', '.join(names)} {said} one report of each costs epsilon {epsilon_text(total)} together"
