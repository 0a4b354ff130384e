"""What decoding leaves behind: results.csv and metrics.json."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.files.opening import writing_text
from overstory.files.spreadsheet import writing_csv
from overstory.privacy import words

if TYPE_CHECKING:
    from overstory.analysis.decoding import Decoded
    from overstory.files.opening import FilePath
    from overstory.files.params import RapporParameters
    from overstory.protocol.mechanisms.bits import BitMechanism

LADDER: Final = (1, 2, 3, 5, 10)
"""For how many reports of one value epsilon is stated."""


def privacy(mechanism: BitMechanism) -> dict[str, Any]:
    """Return the epsilons under their JSON names; None stands for no bound at all.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> spent = privacy(mechanism("rappor"))
    >>> round(spent["epsilon_report"], 3), round(spent["epsilon_n"]["2"], 3)
    (1.074, 2.017)
    """
    return {
        "epsilon_report": finite(mechanism.epsilon_report),
        "epsilon_permanent": finite(mechanism.epsilon_permanent),
        "epsilon_n": {str(n): finite(mechanism.epsilon_n(n)) for n in LADDER},
    }


def finite(number: float) -> float | None:
    """Return a number as JSON can hold it."""
    return number if math.isfinite(number) else None


def epsilon_text(epsilon: float | None) -> str:
    """Return an epsilon as results hold it in words: four decimals, rounded up.

    Examples
    --------
    >>> epsilon_text(1.00001), epsilon_text(None)
    ('1.0001', 'without bound')
    """
    return words.epsilon_text(math.inf if epsilon is None else epsilon, "without bound")


def metrics(decoded: Decoded, parameters: RapporParameters, mechanism: BitMechanism) -> dict[str, Any]:
    """Return what metrics.json says: of the privacy spent, the parameters, and the decoding as a whole."""
    letters = {letter: getattr(parameters, letter) for letter in ("k", "h", "m", "p", "q", "f")}
    summary = {key: finite(v) if isinstance(v, float) else v for key, v in decoded.summary().items()}
    return {**summary, **privacy(mechanism), "parameters": letters}


def write_results(
    folder: FilePath, decoded: Decoded, about: dict[str, Any], *, spreadsheet: bool = False
) -> tuple[Path, Path]:
    """Write results.csv (every candidate, most frequent first; see `writing_csv`) and metrics.json into `folder`.

    Returns
    -------
    results, metrics : Path
        The two files.
    """
    target = Path(os.fspath(folder))
    target.mkdir(parents=True, exist_ok=True)
    results, beside = target / "results.csv", target / "metrics.json"
    with writing_csv(results, spreadsheet=spreadsheet) as text:
        decoded.to_csv(text)
    with writing_text(beside) as text:
        text.write(json.dumps(about, indent=2, allow_nan=False) + "\n")
    return results, beside
