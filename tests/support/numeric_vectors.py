"""Known answers of what takes numbers; `python -m support.numeric_vectors`, in `tests`, writes new ones.

Vectors are for ever: a change in one is a change of what devices have answered. Add new ones; never rewrite.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from overstory.protocol.mechanisms.base import Report
from overstory.protocol.metrics.mechanisms import any_mechanism
from overstory.protocol.numeric import LevelReport, RangeRandomizer
from overstory.protocol.sampling import SeededEntropy
from overstory.protocol.wire.upload import encode_reports

PATH = Path(__file__).parents[1] / "vectors" / "overstory-v1" / "numeric.json"

INPUTS: list[tuple[str, dict[str, Any], Any]] = [
    ("square-wave", {"epsilon": 1.0}, 0.25),
    ("square-wave", {"epsilon": 0.005, "minimum": -20, "maximum": 45, "resolution": 130}, 21.5),
    ("duchi", {"epsilon": 1.0}, 0.25),
    ("duchi", {"epsilon": 4.0, "minimum": 0, "maximum": 2, "outside": "reject"}, 2),
    ("piecewise", {"epsilon": 1.0}, -1),
    ("piecewise", {"epsilon": 3.0, "maximum": 10.0, "resolution": 1000}, 11),
    ("hybrid", {"epsilon": 1.0}, 0.25),
    ("hybrid", {"epsilon": 0.5, "resolution": 64}, -0.75),
    ("ranges", {"epsilon": 1.0, "domain_size": 1000}, 999),
    ("ranges", {"epsilon": 2.0, "domain_size": 30, "branching": 30}, 0),
]


def answer(name: str, parameters: dict[str, Any], value: Any, secret: str, metric: str, seed: int) -> dict[str, Any]:
    """All that follows from a vector's inputs: three fresh reports, one permanent one at each level."""
    built = any_mechanism(name, **parameters)
    entropy = SeededEntropy(seed)
    fresh = [travelling(built, built.randomize(value, entropy)) for _ in range(3)]
    kept = [built.responder(bytes.fromhex(secret), metric, cohort)(value) for cohort in range(built.num_cohorts)]
    return {
        "digest": built.digest.hex(),
        "reports": [[report.cohort, f"{report.bits:x}"] for report in fresh],
        "permanent": [f"{payload:x}" for payload in kept],
        "batch": encode_reports(built, fresh).hex(),
    }


def travelling(built: Any, report: Report | LevelReport) -> Report:
    """A report as it goes into a batch."""
    if isinstance(report, LevelReport):
        assert isinstance(built, RangeRandomizer)
        return built.to_wire(report)
    return report


def written() -> dict[str, Any]:
    """The file's content."""
    vectors = []
    for number, (name, parameters, value) in enumerate(INPUTS):
        secret = bytes((11 * number + i) % 256 for i in range(32)).hex()
        inputs: dict[str, Any] = {"name": name, "parameters": parameters, "value": value, "secret": secret}
        inputs |= {"metric": f"metric-{number}", "seed": number}
        vectors.append(inputs | {"answer": answer(**inputs)})
    altered = [
        {"vector": 0, "change": {"secret": "00" * 32}, "must_change": ["permanent"]},
        {"vector": 0, "change": {"metric": "another"}, "must_change": ["permanent"]},
        {"vector": 0, "change": {"seed": 99}, "must_change": ["reports", "batch"]},
        {"vector": 4, "change": {"value": 0.5}, "must_change": ["permanent", "reports"]},
        {"vector": 4, "change": {"parameters": {"epsilon": 1.01}}, "must_change": ["digest", "permanent", "batch"]},
        {"vector": 8, "change": {"value": 1}, "must_change": ["permanent"]},
    ]
    refused = [
        {"vector": 0, "change": {"name": "round-wave"}, "message": "there is no mechanism 'round-wave'"},
        {"vector": 0, "change": {"parameters": {}}, "message": "square-wave needs the parameter epsilon"},
        {"vector": 0, "change": {"parameters": {"epsilon": 1, "window": 3}}, "message": "has no parameter window"},
        {"vector": 0, "change": {"parameters": {"epsilon": 0}}, "message": "epsilon = 0: give a number from 0.001"},
        {"vector": 3, "change": {"value": 2.1}, "message": "2.1"},
        {"vector": 0, "change": {"value": "0.25"}, "message": "'0.25'"},
        {"vector": 0, "change": {"secret": "00"}, "message": "secret"},
        {"vector": 8, "change": {"value": 1000}, "message": "symbol 1000 is outside the domain 0 .. 999"},
    ]
    damaged = [
        {"vector": 0, "byte": 0, "xor": 1, "reason": "magic"},
        {"vector": 0, "byte": -1, "xor": 1, "reason": "checksum"},
        {"vector": 8, "byte": 40, "xor": 4, "reason": "checksum"},
        {"vector": 8, "byte": 12, "xor": 1, "reason": "length"},
    ]
    return {"vectors": vectors, "altered": altered, "refused": refused, "damaged_batches": damaged}


if __name__ == "__main__":
    if PATH.exists():
        raise SystemExit(f"{PATH} exists, and known answers are never rewritten")
    PATH.write_text(json.dumps(written(), indent=1) + "\n")
