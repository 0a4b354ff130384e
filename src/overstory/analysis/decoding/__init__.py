"""Decoding: from support counts and a candidate map to how many reports hold each candidate."""

from __future__ import annotations

from typing import Literal

from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.decoding.decoder import Decoded, decode
from overstory.analysis.reports import SupportCounts

Method = Literal["gls", "lasso"]
"""How `decode` fits: weighted least squares over all candidates, or the RAPPOR paper's Lasso."""

__all__ = ["CandidateMap", "Decoded", "Method", "SupportCounts", "decode"]
