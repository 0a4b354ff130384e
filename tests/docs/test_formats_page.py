"""docs/reference/formats.md is enough to read what devices send: its tables alone read all vectors.

Nothing of the library is imported here.
"""

import json
import re
import zlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "formats.md").read_text("utf-8")
VECTORS = ROOT / "tests" / "vectors"


def table(title):
    section = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    assert rows[0] == ("bytes", "what")
    return rows[1:]


BATCH, UPLOAD = table("Packed batches"), table("Uploads")
PAYLOADS = "bits of each report, bit i in byte i // 8 at place i % 8"


class DamagedError(Exception):
    """Bytes that do not fit the table."""


def need(holds):
    if not holds:
        raise DamagedError


class Reader:
    """Reads one thing as a table describes it, from the beginning of `raw`."""

    def __init__(self, rows, raw):
        self.raw, self.at, self.read = raw, 0, dict[str, Any]()
        for sizes, what in rows:
            if "," in sizes and "65,536" not in sizes:
                names = what.split(", ")
                for size, name in zip(sizes.split(", "), names, strict=True):
                    self.field(size, name)
            else:
                self.field(sizes, what)

    def field(self, size, what):
        start, self.at = self.at, self.at + self.length(size, what)
        need(self.at <= len(self.raw))
        value = self.raw[start : self.at]
        number = int.from_bytes(value, "little", signed="signed" in what)
        if fixed := re.fullmatch(r"`(\w+)`", what):
            need(value == fixed[1].encode())
        elif fixed := re.fullmatch(r"version (\d)|zero", what):
            need(number == int(fixed[1] or 0))
        elif what.startswith("CRC-32 of all the above"):
            need(number == zlib.crc32(self.raw[:start]))
        self.read[what] = number if re.fullmatch("[124]", size) else value

    def length(self, size, what):
        if size.isdigit():
            return int(size)
        if size == "the rest":
            return self.read["length of the batch"]
        if limits := re.match(r"(\d+) to (\d+)", size):
            whose, _, _ = what.partition(",")
            (stated,) = (number for name, number in self.read.items() if f"length of {whose}" in name)
            need(int(limits[1]) <= stated <= int(limits[2]))
            return stated
        bits, cohorts, count = (self.read[name] for name in ("bits", "cohorts", "number of reports n"))
        if size == "ceil(bits / 8) n":
            return -(-bits // 8) * count
        usual, _, large = size.partition("; ")
        if many := re.fullmatch(r"(\d) n with more than ([\d,]+) cohorts", large):
            usual = f"{many[1]} n" if cohorts > int(many[2].replace(",", "")) else usual
        return int(usual.removesuffix(" n")) * count


def read_batch(raw):
    """The digest and the reports of a packed batch; what is under the table applies, too."""
    reader = Reader(BATCH, raw)
    need(reader.at == len(raw))
    count, bits = reader.read["number of reports n"], reader.read["bits"]
    cohorts, payloads = (
        [int.from_bytes(column[i * len(column) // count :][: len(column) // count], "little") for i in range(count)]
        for column in (reader.read["cohort of each report"], reader.read[PAYLOADS])
    )
    need(all(cohort < reader.read["cohorts"] for cohort in cohorts))
    need(all(payload >> bits == 0 for payload in payloads))
    return reader.read["digest of the parameters"].hex(), list(zip(cohorts, payloads, strict=True))


def read_uploads(body):
    need(bool(body))
    while body:
        reader = Reader(UPLOAD, body)
        yield reader.read
        body = body[reader.at :]


def files(pattern):
    return [json.loads(path.read_text("utf-8")) for path in sorted(VECTORS.glob(pattern))]


ANSWERS = [one["answer"] for file in files("overstory-v1/*.json") for one in file.get("vectors", ())]
PACKED = json.loads((VECTORS / "packed-batch.json").read_text("utf-8"))
SENT = files("*uploads.json")


def test_a_batch_of_every_mechanism_is_read_by_the_table():
    wide = 0
    for answer in ANSWERS:
        digest, reports = read_batch(bytes.fromhex(answer["batch"]))
        said = [one if isinstance(one, list) else (answer["cohort"], one) for one in answer["reports"]]
        assert (digest, reports) == (answer["digest"], [(cohort, int(bits, 16)) for cohort, bits in said])
        wide += any(cohort >= 1 << 16 for cohort, _ in reports)
    assert len(ANSWERS) > 50
    assert wide > 5, "cohorts of four bytes are among them"
    digest, reports = read_batch(bytes.fromhex(PACKED["batch"]))
    assert (digest, [list(report) for report in reports]) == (PACKED["digest"], PACKED["reports"])


def test_every_upload_is_read_by_the_table():
    for file in SENT:
        for known in file["uploads"]:
            (read,) = read_uploads(bytes.fromhex(known["bytes"]))
            digest, reports = read_batch(read["a packed batch, as above"])
            said, sent = known["json"], [(cohort, bytes.fromhex(bits)) for cohort, bits in known["json"]["reports"]]
            assert read["the metric's id, ASCII"].decode() == said["metric"]
            assert read["the group, ASCII, in clear"].decode() == said.get("group", "")
            assert read["number of the period, signed"] == known["period"]
            assert read["batch id: a second copy of an upload is not counted"].hex() == said["batch"]
            assert digest == said["digest"]
            assert reports == [(cohort, int.from_bytes(bits, "little")) for cohort, bits in sent]


LAYOUT = {"short", "magic", "version", "length"}


def test_what_is_no_batch_and_no_upload_does_not_fit_the_tables():
    for bad in PACKED["refused"]:
        with pytest.raises(DamagedError):
            read_batch(bytes.fromhex(bad["batch"]))
    for bad in [bad for file in SENT for bad in file["must_fail"] if bad["reason"] in LAYOUT]:
        with pytest.raises(DamagedError):
            list(read_uploads(bytes.fromhex(bad["bytes"])))
