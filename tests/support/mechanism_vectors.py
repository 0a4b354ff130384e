"""The mechanisms' known answers; `python -m support.mechanism_vectors`, in `tests`, writes new ones.

Vectors are for ever: a change in one is a change of what devices have answered. Add new ones; never rewrite.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from overstory.client import Randomizer
from overstory.protocol.mechanisms.payloads import as_googles_client
from overstory.protocol.mechanisms.registry import mechanism
from overstory.protocol.sampling import SeededEntropy
from overstory.protocol.wire.upload import encode_reports
from support.contract_views import view_of

FOLDER = Path(__file__).parents[1] / "vectors" / "overstory-v1"
GOOGLE = {"hash_family": "google-rappor-python"}
TWO = {"epsilon_permanent": 2.0, "epsilon_report": 1.0}
ODD = {"f": 0.3, "p": 0.35, "q": 0.65}

INPUTS: dict[str, list[tuple[dict[str, Any], Any]]] = {
    "rappor": [
        ({}, "Ohio"),
        (ODD, "Ohio"),
        ({"num_bits": 67, "num_hashes": 3, "num_cohorts": 5, "hash_key": "a.metric"}, "naïve ☂"),
        ({"num_bits": 16, "num_hashes": 2, "num_cohorts": 64} | GOOGLE, "v1"),
    ],
    "rappor-google-devices": [({"num_bits": 16, "num_hashes": 2, "num_cohorts": 64} | GOOGLE, "v1")],
    "rappor-one-time": [({"f": 0.5}, ""), ({"p": 0.4, "q": 0.8, "num_bits": 20}, "Ohio")],
    "basic-rappor": [({"domain_size": 9}, 8), ({"domain_size": 4} | ODD, 0)],
    "basic-rappor-one-time": [({"domain_size": 70, "f": 0.25}, 69), ({"domain_size": 2, "p": 0.25, "q": 0.75}, 1)],
    "grr": [({"domain_size": 9, "epsilon": 1.0}, 8), ({"domain_size": 1000, "epsilon": 4.0}, 0)],
    "sue": [({"domain_size": 70, "epsilon": 1.0}, 69)],
    "oue": [({"domain_size": 70, "epsilon": 1.0}, 69)],
    "blh": [({"epsilon": 1.0}, "Ohio"), ({"domain_size": 9, "epsilon": 1.0}, 8)],
    "olh": [
        ({"epsilon": 1.0, "hash_key": "a.metric"}, "naïve ☂"),
        ({"domain_size": 9, "epsilon": 4.0}, 0),
        ({"domain_size": 70, "epsilon": 1.0}, 69),
        ({"domain_size": 300, "epsilon": 2.0, "num_seeds": 1000, "hash_range": 5}, 299),
    ],
    "linear-hash": [
        ({"domain_size": 9, "epsilon": 1.0}, 8),
        ({"domain_size": 1 << 64, "epsilon": 2.0}, (1 << 64) - 1),
        ({"domain_size": 1 << 16, "epsilon": 1.0, "hash_bits": 12}, 4711),
        ({"domain_size": 300, "epsilon": 4.0}, 17),
        ({"domain_size": 2, "epsilon": 0.5}, 1),
    ],
    "hadamard": [({"domain_size": 9, "epsilon": 1.0}, 8), ({"domain_size": 100_000, "epsilon": 1.0}, 99_999)],
    "subset": [({"domain_size": 70, "epsilon": 1.0}, 69), ({"domain_size": 5, "epsilon": 4.0}, 0)],
    "projective": [
        ({"domain_size": 9, "epsilon": 1.0}, 8),
        ({"domain_size": 16, "epsilon": 1.0}, 15),
        ({"domain_size": 1000, "epsilon": 2.0}, 0),
        ({"domain_size": 50, "epsilon": 2.0, "field_size": 9}, 31),
    ],
    "random-matrix": [({"epsilon": 1.0}, "Ohio"), ({"domain_size": 9, "advantage": 0.1}, 8)],
    "wb": [({"domain_size": 70, "epsilon": 4.0, "window": 4}, 69)],
    "opt-wb": [({"domain_size": 70, "epsilon": 4.0, "window": 4}, 69)],
    "opt-dr": [({"domain_size": 70, "epsilon_permanent": 3.0}, 69)],
    "l-grr": [({"domain_size": 9} | TWO, 8), ({"domain_size": 9, "published": True} | TWO, 0)],
    "l-sue": [({"domain_size": 70} | TWO, 69)],
    "l-osue": [({"domain_size": 70} | TWO, 69)],
    "l-soue": [({"domain_size": 70} | TWO, 69)],
    "dbitflip": [({"domain_size": 70, "epsilon": 1.0}, 69), ({"domain_size": 9, "epsilon": 1.0, "sampled_bits": 1}, 0)],
    "loloha": [
        (TWO, "Ohio"),
        ({"domain_size": 9} | TWO, 8),
        ({"domain_size": 9, "published": True} | TWO, 0),
    ],
}


def answer(
    name: str, parameters: dict[str, Any], value: Any, secret: str, metric: str, seed: int, *, device: bool = False
) -> dict[str, Any]:
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


def write(file: str) -> None:
    """Write one file, unless it is there."""
    path, name = FOLDER / f"mechanism-{file}.json", file.removesuffix("-google-devices")
    vectors = []
    for number, (parameters, value) in enumerate(INPUTS[file]):
        secret = bytes((7 * number + i) % 256 for i in range(32)).hex()
        inputs = {"parameters": parameters, "value": value, "secret": secret, "metric": f"metric-{number}"}
        inputs["seed"] = number
        inputs |= {"device": True} if file.endswith("-devices") else {}
        vectors.append(inputs | {"answer": answer(name, **inputs)})
    if path.exists():
        raise SystemExit(f"{path} exists, and known answers are never rewritten")
    path.write_text(json.dumps({"mechanism": name, "vectors": vectors}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for one in INPUTS:
        if not (FOLDER / f"mechanism-{one}.json").exists():
            write(one)
