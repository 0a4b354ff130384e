"""What the collector shows the public about each metric: the registry's words, and what they cost in privacy."""

from __future__ import annotations

import base64
import hashlib
from functools import cached_property
from html import escape
from typing import Any, Final

from overstory.privacy import statement
from overstory.privacy.registry.page import MetricPage, metric_page
from overstory.protocol.metrics import Metric, MetricRegistry


def public_metric(metric: Metric) -> dict[str, Any]:
    """Return a metric as the registry lists it, with every epsilon and what they mean in plain words.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> public_metric(parse_registry(EXAMPLE)["colour"])["privacy"]["plain_words"][:50]
    "One report can change anyone's guess between two v"
    """
    reports = sorted({1, metric.window or 1})
    said = statement(metric.mechanism, reports=reports).to_json()
    kept = ("epsilon_report", "epsilon_n", "epsilon_permanent", "change_leak", "plain_words")
    return metric.to_json() | {"privacy": {name: said[name] for name in kept}}


def public_registry(registry: MetricRegistry) -> dict[str, Any]:
    """Return the public registry."""
    return {
        "registry": registry.version,
        "digest": registry.digest.hex(),
        "metrics": [public_metric(registry[name]) for name in sorted(registry)],
    }


STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 46rem; padding: 1.5rem 1.25rem 4rem; font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid; padding-top: .6rem; }
dl { display: grid; grid-template-columns: minmax(8rem, 14rem) 1fr; gap: .3rem 1.2rem; }
dt { opacity: .75; } dd { margin: 0; } p, dd, h2 { overflow-wrap: anywhere; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .5rem; } }
"""

POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    f"{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of the page for people: its own style, and nothing else, from anywhere."""


class PublicPages:
    """What anybody may read about a registry: as JSON, and as a page for people. Each is made when first asked for."""

    def __init__(self, registry: MetricRegistry) -> None:
        self.registry = registry

    def prepare(self) -> None:
        """Make them now, so that nobody waits for it later."""
        assert self.by_id is not None
        assert self.html

    @cached_property
    def listed(self) -> dict[str, Any]:
        """The public registry."""
        return public_registry(self.registry)

    @cached_property
    def by_id(self) -> dict[str, dict[str, Any]]:
        """Each metric of the public registry."""
        return {metric["id"]: metric for metric in self.listed["metrics"]}

    @cached_property
    def html(self) -> str:
        """The page for people."""
        return public_html(self.registry)


def public_html(registry: MetricRegistry) -> str:
    """Return what is collected, as one page without a script.

    Examples
    --------
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> page = public_html(parse_registry(EXAMPLE))
    >>> '<h2 id="colour">' in page, "<script" in page
    (True, False)
    """
    parts = "".join(_section(metric_page(registry[name])) for name in sorted(registry))
    count = f"{len(registry)} metrics are" if len(registry) != 1 else "One metric is"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>What is collected here</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        "<h1>What is collected here</h1>\n"
        "<p>This is an Overstory collector. Programs send it reports that were randomized on the devices they come "
        "from. None of them says for certain what its sender's value was; nothing here keeps who sent one.</p>\n"
        f"<p>{count} collected, by registry {escape(registry.version)}. The same for programs: "
        '<a href="/v1/metrics">the public registry as JSON</a>.</p>\n'
        f"{parts}</main>\n</body>\n</html>\n"
    )


def _section(page: MetricPage) -> str:
    metric = page.metric
    facts = "".join(f"<dt>{escape(asked)}</dt><dd>{_linked(answer)}</dd>" for asked, answer in page.facts)
    return (
        f'<h2 id="{escape(metric.id)}">{escape(metric.title)}</h2>\n<p>{escape(metric.description)}</p>\n'
        f"<p>{escape(page.plain_words())}</p>\n<dl>{facts}</dl>\n"
        f'<p><a href="/v1/metrics/{escape(metric.id)}">{escape(metric.id)} as JSON</a></p>\n'
    )


def _linked(said: str) -> str:
    """Escape a text; one that is a web address becomes a link."""
    shown = escape(said)
    web = said.startswith(("https://", "http://")) and not any(c.isspace() for c in said)
    return f'<a href="{shown}" rel="noreferrer">{shown}</a>' if web else shown
