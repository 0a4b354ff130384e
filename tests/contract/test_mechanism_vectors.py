"""Known answers of every mechanism, and inputs that must not give them."""

import json
import re

import pytest

from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.kinds.registry import FAMILIES, REGISTRY
from overstory.protocol.wire.upload import decode_batch
from support.mechanism_vectors import FOLDER, answer, number_answer


def load(name):
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


FILES = {path.stem.removeprefix("mechanism-"): load(path.stem) for path in sorted(FOLDER.glob("*.json"))}
MUST_FAIL = FILES.pop("must-fail")
for file in FILES.values():
    for one in file["vectors"]:
        one.setdefault("name", file.get("mechanism"))
VECTORS = [vector for file in FILES.values() for vector in file["vectors"]]


def faults(kind):
    ids = [f"{fault['of']}-{fault.get('message') or fault.get('change') or fault['byte']}" for fault in MUST_FAIL[kind]]
    return pytest.mark.parametrize("fault", MUST_FAIL[kind], ids=ids)


def altered(fault):
    known = FILES[fault["of"]]["vectors"][fault["vector"]]
    inputs = {name: known[name] for name in known if name != "answer"} | fault.get("change", {})
    return known["answer"], answer_to(fault["of"] == "numeric", inputs)


def answer_to(is_number, inputs):
    return number_answer(**inputs) if is_number else answer(**inputs)


def test_every_mechanism_has_vectors():
    assert {vector["name"] for vector in VECTORS} == {*REGISTRY, *FAMILIES["numbers"].builders, "ranges"}, (
        "write tests/vectors/overstory-v1/mechanism-NAME.json with support.mechanism_vectors"
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['name']}-{vector['metric']}")
def test_known_answers(vector):
    inputs = {name: vector[name] for name in vector if name != "answer"}
    assert answer_to(vector in FILES["numeric"]["vectors"], inputs) == vector["answer"]


@faults("altered")
def test_altered_inputs_do_not_give_the_known_answers(fault):
    known, given = altered(fault)
    assert all(given[name] != known[name] for name in fault["must_change"])


@faults("refused")
def test_refused_inputs(fault):
    with pytest.raises(ParameterError, match=re.escape(fault["message"])):
        altered(fault)


@faults("damaged_batches")
def test_damaged_batches(fault):
    raw = bytearray.fromhex(FILES[fault["of"]]["vectors"][fault["vector"]]["answer"]["batch"])
    raw[fault["byte"]] ^= fault["xor"]
    with pytest.raises(WireError) as caught:
        decode_batch(bytes(raw))
    assert caught.value.reason == fault["reason"]
