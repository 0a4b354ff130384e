"""Small sound files of every format, and ways to write reports, for the tests beside this."""

from collections.abc import Iterable

import numpy as np

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.files.rappor import Holding, RapporParameters, hash_candidates
from overstory.presentation.render_text import quoted

PARAMETERS = RapporParameters(k=12, h=2, m=3, p=0.25, q=0.75, f=0.5)
MECHANISM = PARAMETERS.mechanism()
ROWS = [(0, 0b101), (2, 0b111111111111), (1, 0), (0, 1 << 11)]


def batch(rows=ROWS, num_bits: int = 12, num_cohorts: int = 3) -> ReportBatch:
    words = -(-num_bits // 64)
    raw = b"".join(bits.to_bytes(8 * words, "little") for _, bits in rows)
    bits = np.frombuffer(raw, np.uint64).reshape(-1, words)
    return ReportBatch(np.array([cohort for cohort, _ in rows], np.uint16), bits, num_bits, num_cohorts)


def rows_of(batches) -> list[tuple[int, int]]:
    found = []
    for one in batches:
        for cohort, words in zip(one.cohorts.tolist(), one.bits, strict=True):
            found.append((cohort, int.from_bytes(words.astype("<u8").tobytes(), "little")))
    return found


def reports_csv(rows=ROWS, num_bits: int = 12) -> str:
    lines = ["client,cohort,bloom,prr,irr"]
    lines += [f"c{i},{cohort},,,{bits:0{num_bits}b}" for i, (cohort, bits) in enumerate(rows)]
    return "\n".join(lines) + "\n"


def values_csv(holdings: Iterable[Holding]) -> str:
    lines = [f"{quoted(client)},{cohort},{quoted(value)}" for client, cohort, value in holdings]
    return "\n".join([",".join(Holding._fields), *lines]) + "\n"


COUNTS = SupportCounts([2, 1, 1], [[1, 0, 1, *[0] * 8, 1], [0] * 12, [1] * 12])
CANDIDATES = hash_candidates(["plain", 'with "quotes", commas', "two\nlines", "", "é"], MECHANISM.encoding)
