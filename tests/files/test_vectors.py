"""Known answers: what a device of another make, or of next year, must agree with bit for bit."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from overstory.analysis.kinds.base import positions_of
from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.kinds.bits import Bloom, as_googles_client
from overstory.protocol.kinds.hashing import GoogleRapporPython, OverstoryV1
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.sampling import GoogleClientPermanence
from overstory.protocol.wire.upload import Batch, decode_batch, encode_columns

VECTORS = Path(__file__).parents[1] / "vectors"


def load(name):
    return json.loads((VECTORS / f"{name}.json").read_text())


OURS, GOOGLE, PACKED = load("overstory-v1"), load("google-rappor-python"), load("packed-batch")

FAMILY_VECTORS = [(OverstoryV1(one["key"].encode()), one) for one in OURS["vectors"]]
FAMILY_VECTORS += [(GoogleRapporPython(), one) for one in GOOGLE["hashes"]]
REFUSED = [({}, one) for one in OURS["refused"]]
REFUSED += [({"num_bits": 16, "hash_family": "google-rappor-python"}, one) for one in GOOGLE["refused"]]


@pytest.mark.parametrize(("family", "one"), FAMILY_VECTORS)
def test_the_devices_hash_families_give_the_known_positions(family, one):
    found = family.positions(one["value"].encode(), one["cohort"], one["num_bits"], one["num_hashes"])
    assert list(found) == one["positions"]


@pytest.mark.parametrize("one", OURS["vectors"])
def test_the_digest_is_the_known_one(one):
    assert f"{OverstoryV1(one['key'].encode()).digest(one['value'].encode()):016x}" == one["digest"]


# No mechanism has as many hashes as bits: that vector is the device's family's alone.
IN_A_MECHANISM = [(family, one) for family, one in FAMILY_VECTORS if one["num_hashes"] < one["num_bits"]]


@pytest.mark.parametrize(("family", "one"), IN_A_MECHANISM)
def test_the_kernels_give_the_known_positions(family, one):
    bloom = Bloom(one["num_bits"], one["num_hashes"], one["cohort"] + 1, family.name, one.get("key", ""))
    found = positions_of(bloom, ["another", one["value"]])
    assert np.asarray(found)[one["cohort"], 1].tolist() == one["positions"]


@pytest.mark.parametrize("one", GOOGLE["permanent"])
def test_googles_permanent_response_is_the_known_one(one):
    permanence = GoogleClientPermanence()
    channel = permanence.channel(Fraction(one["f"]))
    respond = permanence.responder(channel, one["num_bits"], bytes.fromhex(one["secret"]), b"any")
    assert respond(b"the filter alone decides", one["bloom"]) == one["prr"]
    assert one["prr"] == (one["bloom"] & ~one["noise"]) | (one["uniform"] & one["noise"])


def test_googles_mechanism_takes_a_value_to_the_known_permanent_response():
    """MD5 and HMAC together: v1 in cohort 0 sets bits 8 and 10, which is the filter 1280 of the first HMAC vector."""
    rappor = as_googles_client(
        mechanism("rappor", num_bits=16, num_cohorts=64, f=0.5, hash_family=GoogleRapporPython.name)
    )
    known = GOOGLE["permanent"][0]
    assert rappor.encode("v1", 0) == known["bloom"]
    assert rappor.responder(bytes.fromhex(known["secret"]), "any", 0)("v1") == known["prr"]


@pytest.mark.parametrize(("base", "one"), REFUSED)
def test_parameters_that_must_be_refused(base, one):
    given = {**base, **one["parameters"]}
    with pytest.raises(ParameterError, match=one["because"]):
        mechanism("rappor", **given).encode("v1", one.get("cohort", 0))


def test_the_known_batch_is_read_and_written():
    raw = bytes.fromhex(PACKED["batch"])
    batch = decode_batch(raw)
    assert [list(report) for report in batch] == PACKED["reports"]
    assert isinstance(batch, Batch)
    assert batch.digest.hex() == PACKED["digest"]
    assert encode_columns(batch.digest, batch.num_bits, batch.num_cohorts, batch.cohorts, batch.bits) == raw


@pytest.mark.parametrize("one", PACKED["refused"])
def test_batches_that_must_be_refused(one):
    with pytest.raises(WireError) as caught:
        decode_batch(bytes.fromhex(one["batch"]))
    assert caught.value.reason == one["reason"]
