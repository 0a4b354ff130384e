"""The mechanisms' known answers; `python -m support.mechanism_vectors`, in `tests`, writes new ones.

Vectors are for ever: a change in one is a change of what devices have answered. Add new ones; never rewrite.
"""

import json
from pathlib import Path
from typing import Any

from overstory.client import Randomizer
from overstory.protocol.kinds.bits import as_googles_client
from overstory.protocol.kinds.registry import any_mechanism, mechanism
from overstory.protocol.sampling import SeededEntropy
from overstory.protocol.wire.upload import encode_reports
from support.contract_samples import view_of

FOLDER = Path(__file__).parents[1] / "vectors" / "overstory-v1"
INPUTS: dict[str, list[tuple[dict[str, Any], Any]]] = {}
"""Parameters and values of a mechanism that has no file yet, by its name; the files hold those that were written."""


def answer(name: str, parameters, value, secret: str, metric: str, seed: int, *, device: bool = False):
    """All that follows from a vector's inputs: on a device of a metric, or in Google's family as in Google's client."""
    built = mechanism(name, **parameters) if device else as_googles_client(mechanism(name, **parameters))
    one = Randomizer(built, secret=bytes.fromhex(secret), metric=metric, entropy=SeededEntropy(seed))
    reports = [one.report(value) for _ in range(2)]
    return {
        "digest": built.digest.hex(),
        "cohort": one.cohort,
        "true_bits": f"{view_of(built).true_payload(value, one.cohort):x}",
        "permanent": f"{one.permanent(value):x}",
        "reports": [f"{report.bits:x}" for report in reports],
        "batch": encode_reports(built, reports).hex(),
    }


def number_answer(name: str, parameters, value, secret: str, metric: str, seed: int):
    """What follows from the inputs of what takes numbers: three fresh reports, one permanent one at each level."""
    built = any_mechanism(name, **parameters)
    entropy = SeededEntropy(seed)
    fresh = [built.randomize(value, entropy) for _ in range(3)]
    kept = [built.responder(bytes.fromhex(secret), metric, cohort)(value) for cohort in range(built.num_cohorts)]
    return {
        "digest": built.digest.hex(),
        "reports": [[report.cohort, f"{report.bits:x}"] for report in fresh],
        "permanent": [f"{payload:x}" for payload in kept],
        "batch": encode_reports(built, fresh).hex(),
    }


def write(name: str) -> None:
    """Write one file, unless it is there."""
    path = FOLDER / f"mechanism-{name}.json"
    vectors = []
    for number, (parameters, value) in enumerate(INPUTS[name]):
        secret = bytes((7 * number + i) % 256 for i in range(32)).hex()
        inputs = {"parameters": parameters, "value": value, "secret": secret, "metric": f"metric-{number}"}
        inputs["seed"] = number
        vectors.append(inputs | {"answer": answer(name, **inputs)})
    if path.exists():
        raise SystemExit(f"{path} exists, and known answers are never rewritten")
    path.write_text(json.dumps({"mechanism": name, "vectors": vectors}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for one in INPUTS:
        write(one)
