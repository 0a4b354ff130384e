"""How two variables hang together: tables of their pairs, and what they say."""

from __future__ import annotations

from overstory.analysis.association.table import Marginal, TableEstimate

__all__ = ["Marginal", "TableEstimate"]
