"""Law 7: a report survives the wire unchanged; any altered byte is a valid batch or one declared error."""

import json
import re
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.reports import ReportBatch
from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.kinds.base import MAX_COHORTS, Report
from overstory.protocol.kinds.registry import FAMILIES, REGISTRY, mechanism
from overstory.protocol.wire.upload import HEADER, MAGIC, TRAILER, decode_batch, encode_reports
from support.contract_cases import TYPICAL_CASES
from support.mechanism_vectors import FOLDER, answer, number_answer

REASONS = {"short", "magic", "version", "length", "checksum", "cohort", "bits"}
MECHANISMS = [case.build() for case in TYPICAL_CASES]


def reports_of(built, most=30):
    cohorts, bits = st.integers(0, built.num_cohorts - 1), st.integers(0, (1 << built.payload_bits) - 1)
    return st.lists(st.builds(Report, cohorts, bits), max_size=most)


batches = st.sampled_from(MECHANISMS).flatmap(lambda m: st.tuples(st.just(m), reports_of(m)))


def with_checksum(body):
    return body + TRAILER.pack(zlib.crc32(body))


def read_or_reason(raw):
    """Decode, and use the batch as a collector would; only a WireError with a known reason may come instead."""
    try:
        batch = decode_batch(raw)
    except WireError as error:
        reason, message = error.reason, str(error)
        if reason not in REASONS or not message:
            raise
        return reason
    assert len(list(batch)) == batch.num_reports
    view = ReportBatch.from_wire(batch)
    if batch.num_cohorts > MAX_COHORTS:
        with pytest.raises(ParameterError, match="cannot be counted apart"):
            view.accumulate()
    elif batch.num_cohorts * batch.num_bits <= 1 << 22:  # an altered header may announce gigabytes of counts
        view.accumulate()
    return batch


@settings(max_examples=100)
@given(batches)
def test_a_round_trip_changes_nothing(batch):
    built, reports = batch
    raw = encode_reports(built, reports)
    read = decode_batch(raw)
    assert list(read) == reports
    assert (read.digest, read.num_bits) == (built.digest, built.payload_bits)
    assert ReportBatch.from_wire(read).to_wire(built.digest) == raw


SHAPES = {(built.payload_bits, built.num_cohorts): built for built in MECHANISMS}
"""One mechanism of each size: the wire knows no more of them."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("built", SHAPES.values(), ids=map(str, SHAPES))
def test_every_value_of_every_byte(built):
    """The checksum sees any one altered byte; with the checksum made right, what is left is valid or declared."""
    top = (1 << built.payload_bits) - 1
    raw = encode_reports(built, [Report(built.num_cohorts - 1, top), Report(0, 0)])
    for place in range(len(raw)):
        for change in range(1, 256) if place < HEADER.size + 8 else (1, 128, 255):
            altered = bytearray(raw)
            altered[place] ^= change
            assert read_or_reason(bytes(altered)) in REASONS
            if change in (1, 2, 16, 128, 255):
                read_or_reason(with_checksum(bytes(altered[: -TRAILER.size])))


@settings(max_examples=200)
@given(batches, st.data())
def test_any_mutation_with_a_right_checksum(batch, data):
    body = bytearray(encode_reports(*batch)[: -TRAILER.size])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        taken = data.draw(st.integers(0, 9))
        body[at : at + taken] = data.draw(st.binary(min_size=taken, max_size=taken) | st.binary(min_size=1, max_size=9))
    read_or_reason(with_checksum(bytes(body)))


@settings(max_examples=60)
@given(batches, st.data())
def test_truncation_and_extension_are_seen(batch, data):
    raw = encode_reports(*batch)
    cut = data.draw(st.integers(0, len(raw) - 1))
    assert read_or_reason(raw[:cut]) in {"short", "length"}
    assert read_or_reason(raw + data.draw(st.binary(min_size=1, max_size=9))) == "length"


@settings(max_examples=200)
@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_at_all(junk, dressed):
    read_or_reason(MAGIC + b"\1\0" + junk if dressed else junk)


def header(**fields):
    known = {"num_bits": 8, "num_cohorts": 1, "num_reports": 0} | fields
    return HEADER.pack(MAGIC, 1, 0, known["num_bits"], known["num_cohorts"], known["num_reports"], bytes(16))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (header(num_reports=2**32 - 1, num_bits=2**16 - 1), "length"),
        (with_checksum(header(num_bits=0)), "bits"),
        (with_checksum(header(num_cohorts=0)), "cohort"),
        (with_checksum(header(num_cohorts=2**32 - 1)), "cohort"),
        (with_checksum(header(num_reports=1) + b"\1\0" + b"\0"), "cohort"),
        (with_checksum(header(num_reports=1, num_bits=7) + b"\0\0" + b"\x80"), "bits"),
    ],
)
def test_a_header_or_a_column_that_cannot_be(raw, reason):
    assert read_or_reason(raw) == reason


def test_an_announced_size_is_not_believed():
    """Four billion reports or cohorts, in 36 bytes: nothing of that size is made."""
    tracemalloc.start()
    try:
        for fields in ({"num_reports": 2**32 - 1, "num_bits": 2**16 - 1}, {"num_cohorts": 2**32 - 1}):
            read_or_reason(with_checksum(header(**fields)))
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("report", [Report(1, 0), Report(-1, 0), Report(0, 16), Report(0, -1), Report(0, 1.0)])
def test_a_report_of_another_mechanism_is_not_written(report):
    with pytest.raises(ParameterError):
        encode_reports(mechanism("basic-rappor", domain_size=4), [report])


def test_the_largest_sizes_travel():
    built = mechanism("basic-rappor", domain_size=2**16 - 1)
    assert list(decode_batch(encode_reports(built, [Report(0, 1)]))) == [Report(0, 1)]
    built = mechanism("rappor", num_cohorts=2**16)
    assert list(decode_batch(encode_reports(built, [Report(2**16 - 1, 1)]))) == [Report(2**16 - 1, 1)]
    built = mechanism("linear-hash", domain_size=2**64, epsilon=1.0)
    assert list(decode_batch(encode_reports(built, [Report(2**31 - 1, 3)]))) == [Report(2**31 - 1, 3)]


# Known answers of every mechanism, and inputs that must not give them
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
    assert {vector["name"] for vector in VECTORS} == {*REGISTRY, *FAMILIES["numbers"], "ranges"}, (
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
