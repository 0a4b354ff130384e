"""Decoding: from support counts and a candidate map to how many reports hold each candidate."""

from __future__ import annotations

from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.decoding.decoder import Decoded, decode

__all__ = ["CandidateMap", "Decoded", "decode"]
