"""What stops a gateway; a bad line does not, unless it is told to."""

from __future__ import annotations

from overstory.protocol.errors import OverstoryError


class GatewayError(OverstoryError):
    """Reports cannot be made, kept or handed over; what was reported so far is kept."""
