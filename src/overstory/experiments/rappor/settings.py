"""What the paper's collections share: their parameters, and the two procedures that decode them."""

from __future__ import annotations

from typing import Any, Final

from overstory.protocol.mechanisms.bits import BitMechanism
from overstory.protocol.mechanisms.rappor import rappor

PAPERS: Final = "paper's procedure"
DEFAULT: Final = "our default"
PROCEDURES: Final[dict[str, dict[str, Any]]] = {PAPERS: {"method": "lasso"}, DEFAULT: {}}
"""What `decode` is told for each: both hold the false discovery rate at 5%, unless told otherwise."""


def collected(f: float, *, num_cohorts: int = 16, **other: Any) -> BitMechanism:
    """RAPPOR as in sections 5.2 to 5.4: 128 bits, two hashes, p = 0.5, q = 0.75; f and the cohorts vary."""
    return rappor(
        **({"num_bits": 128, "num_hashes": 2, "num_cohorts": num_cohorts, "f": f, "p": 0.5, "q": 0.75} | other)
    )
