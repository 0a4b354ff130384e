"""The edge gateway: a stream of readings in, reports out. The standard library alone.

Each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names

if TYPE_CHECKING:
    from overstory.client.upload.delivery import Sink
    from overstory.gateway.gateway import Gateway, Lines, Settings, bounded_lines, replay
    from overstory.gateway.readings import BadLine, Layout, Reading, read_lines, zone_named
    from overstory.gateway.sinks import CollectorSink, FileSink, GatewayError

__all__ = [
    "BadLine",
    "CollectorSink",
    "FileSink",
    "Gateway",
    "GatewayError",
    "Layout",
    "Lines",
    "Reading",
    "Settings",
    "Sink",
    "bounded_lines",
    "read_lines",
    "replay",
    "zone_named",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "client.upload.delivery": ("Sink",),
        "gateway.gateway": ("Gateway", "Lines", "Settings", "bounded_lines", "replay"),
        "gateway.readings": ("BadLine", "Layout", "Reading", "read_lines", "zone_named"),
        "gateway.sinks": ("CollectorSink", "FileSink", "GatewayError"),
    },
)
