"""The public pages: each metric as the registry describes it, with its privacy loss."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from overstory.presentation.document import Block, Heading, Lines, Link, Paragraph
from overstory.presentation.render_html import STYLE, accents, as_page, policy_of
from overstory.privacy import statement
from overstory.privacy.registry.page import metric_page
from overstory.privacy.registry.yearly import headline, in_two_sentences
from overstory.privacy.terms import metric_terms
from overstory.protocol.metrics import Metric, MetricRegistry


def public_metric(metric: Metric) -> dict[str, Any]:
    """Return a metric as the registry lists it, with every epsilon and its meaning in plain words."""
    reports = sorted({1, metric.window or 1})
    privacy = statement(metric.mechanism, reports=reports, terms=metric_terms(metric)).to_json()
    names = ("epsilon_report", "epsilon_n", "epsilon_permanent", "epsilon_any", "plain_words")
    return metric.to_json() | {"privacy": {name: privacy[name] for name in names}}


def public_registry(registry: MetricRegistry) -> dict[str, Any]:
    """Return the public registry."""
    return {
        "registry": registry.version,
        "digest": registry.digest.hex(),
        **({} if registry.opt_out is None else {"opt_out": registry.opt_out}),
        **({} if registry.operator is None else {"operator": registry.operator.to_json()}),
        **({} if registry.oblivious is None else {"oblivious": registry.oblivious.to_json()}),
        "metrics": [public_metric(registry[name]) for name in sorted(registry)],
    }


class PublicPages:
    """What the public may read about a registry, as JSON and as a web page. Each is made at its first request."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.registry = registry

    def prepare(self) -> None:
        assert self.by_id is not None
        assert self.html

    @cached_property
    def listed(self) -> dict[str, Any]:
        return public_registry(self.registry)

    @cached_property
    def by_id(self) -> dict[str, dict[str, Any]]:
        return {metric["id"]: metric for metric in self.listed["metrics"]}

    @cached_property
    def html(self) -> str:
        return public_html(self.registry)

    @cached_property
    def policy(self) -> str:
        """The Content-Security-Policy of the web page: its own style and nothing else."""
        return f"{policy_of(STYLE + accents(*self.registry.colors))}; frame-ancestors 'none'"


def public_html(registry: MetricRegistry) -> str:
    """Return what is collected as a web page without scripts."""
    return as_page(_blocks(registry), accent=accents(*registry.colors))


def _blocks(registry: MetricRegistry) -> Iterator[Block]:
    count = f"{len(registry)} metrics are" if len(registry) != 1 else "One metric is"
    yield Heading(1, registry.title)
    yield Paragraph(
        "This is an Overstory collector. Programs send it reports that were randomized on the devices they come from. "
        "No report reveals its sender's value for certain, and the collector does not store who sent it."
    )
    if registry.opt_out is not None:
        yield Paragraph(f"How to stop it: {registry.opt_out}")
    if registry:
        yield Lines(*in_two_sentences(registry))
    yield Paragraph(f"{count} collected, according to registry {registry.version}. The same for programs:")
    yield Link("the public registry as JSON", "/v1/metrics")
    if registry:
        yield Paragraph(headline(registry).sentence)
    for name in sorted(registry):
        yield from metric_page(registry[name], route=registry.oblivious, budget=registry.budget).blocks()
        yield Link(f"{name} as JSON", f"/v1/metrics/{name}")
