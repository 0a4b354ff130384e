"""Known answers of every mechanism, and inputs that must not give them."""

import json
import re

import pytest

from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.mechanisms.registry import REGISTRY
from overstory.protocol.wire.upload import decode_batch
from support.mechanism_vectors import FOLDER, answer


def load(name):
    return json.loads((FOLDER / f"mechanism-{name}.json").read_text(encoding="utf-8"))


NAMES = [path.stem.removeprefix("mechanism-") for path in sorted(FOLDER.glob("mechanism-*.json"))]
FILES = {name: load(name) for name in NAMES}
MUST_FAIL = FILES.pop("must-fail")
VECTORS = [(file["mechanism"], vector) for file in FILES.values() for vector in file["vectors"]]


def inputs(vector):
    return {name: vector[name] for name in vector if name != "answer"}


def altered(fault):
    return inputs(FILES[fault["of"]]["vectors"][fault["vector"]]) | fault["change"]


def test_every_mechanism_has_vectors():
    assert {name for name, _ in VECTORS} == set(REGISTRY), (
        "write tests/vectors/overstory-v1/mechanism-NAME.json with support.mechanism_vectors"
    )


@pytest.mark.parametrize(("name", "vector"), VECTORS, ids=lambda x: x if isinstance(x, str) else x["metric"])
def test_known_answers(name, vector):
    assert answer(name, **inputs(vector)) == vector["answer"]


@pytest.mark.parametrize("fault", MUST_FAIL["altered"], ids=lambda f: f"{f['of']}-{'-'.join(f['change'])}")
def test_altered_inputs_do_not_give_the_known_answers(fault):
    known = FILES[fault["of"]]["vectors"][fault["vector"]]["answer"]
    given = answer(FILES[fault["of"]]["mechanism"], **altered(fault))
    assert all(given[name] != known[name] for name in fault["must_change"])


@pytest.mark.parametrize("fault", MUST_FAIL["refused"], ids=lambda f: f["message"])
def test_refused_inputs(fault):
    with pytest.raises(ParameterError, match=re.escape(fault["message"])):
        answer(FILES[fault["of"]]["mechanism"], **altered(fault))


@pytest.mark.parametrize("fault", MUST_FAIL["damaged_batches"], ids=lambda f: f"{f['of']}-{f['byte']}")
def test_damaged_batches(fault):
    raw = bytearray.fromhex(FILES[fault["of"]]["vectors"][fault["vector"]]["answer"]["batch"])
    raw[fault["byte"]] ^= fault["xor"]
    with pytest.raises(WireError) as caught:
        decode_batch(bytes(raw))
    assert caught.value.reason == fault["reason"]
