"""How numbers and texts read on pages, on axes and in files: one example of each case."""

import math
from decimal import Decimal
from functools import partial

import numpy as np
import pytest

from overstory.presentation import formats
from overstory.presentation.charts.drawing import NARROW, Scale, apart, percent_tick, plain_number, shortened
from overstory.presentation.charts.series import path, pieces
from overstory.presentation.formats import printable
from overstory.presentation.render_html import safe_address
from overstory.presentation.render_text import csv_records, escaped

SCALE = Scale(-1, 3, 100, 20)
PARTS = [{"oracle": "grr", "epsilon": 1.0}, {"oracle": "oue", "epsilon": 2.0}]


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (formats.thousands, {1234567.8: "1,234,568", None: "unknown"}),
        (formats.percent, {0.12345: "12.35%", None: "unknown"}),
        (
            formats.significant,
            {1_234_567.8: "1,235,000", -3.14159: "-3.142", 2e-5: "0.00002", 0.0: "0", 1e300: "1e+300"},
        ),
        (partial(formats.significant, digits=2, sign="+"), {0.0999: "+0.1", -56789: "-57,000"}),
        (formats.p_value, {0.00123: "1.2e-03", 0.0: "<1e-300"}),
        (formats.seconds_text, {0.0001: "0.01", 0.034: "0.03", 41.3: "41", 6620.0: "6,600"}),
        (formats.in_bytes, {512: "512 B", 16e9: "16 GB"}),
        (formats.odds_text, {1.0743: "2.93 times", 20.0: "practically certain", math.inf: "without bound"}),
        (formats.factor, {1.0743: "2.93", 4.3944: "81", 8.61: "5,490"}),
        (formats.duration, {18_700: "5 h 12 min", 60: "1 min", 7200: "2 h", 0: "0 min", 180_000: "2 days 2 h"}),
        (
            formats.share,
            {1 / 6: "16.7%", 0.5: "50%", 0.00012345: "0.0123%", 0.99996: "99.996%", 1.0: "100%", 0.0: "0%"},
        ),
        (plain_number, {2_000_000: "2 million", 12_500: "12,500", 0.25: "0.25"}),
        (percent_tick, {0.05: "5%", -0.002: "−0.2%", 0: "0%"}),
        (formats.date_words, {"2026-W46": "week of 9 November 2026", "2026-11-09": "9 November 2026"}),
        (formats.date_words, {"2026-11-09T14:30Z": "9 November 2026, 14:30 UTC"}),
        (
            partial(formats.date_words, year=2026),
            {"2026-W46": "week of 9 November", "2025-W01": "week of 30 December 2024"},
        ),
        (formats.data_text, {1 / 3: "0.3333333333", math.nan: "", None: "", True: "true", "oak": "oak"}),
        (formats.finite, {0.5: 0.5, math.inf: None, "oak": "oak"}),
        (safe_address, {"/m/colour?a=1&b=2": "/m/colour?a=1&amp;b=2", "javascript:alert(1)": "#"}),
        (printable, {"caf\u00e9\x1b[31m": "café\\x1b[31m"}),
        (escaped, {"snake_case _em_ [1] [a](b) `c`": r"snake_case \_em\_ [1] [a]\(b) \`c\`"}),
        (escaped, {"# no heading": r"\# no heading", "1. no list": r"1\. no list", "- none": r"\- none"}),
    ],
)
def test_each_case_reads_so(function, texts):
    assert {given: function(given) for given in texts} == texts


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            (formats.interval(formats.percent)(-0.01, 0.25), formats.interval(formats.thousands)(None, None)),
            ("-1.00% to 25.00%", "unknown"),
        ),
        ([str(formats.rounded_down(number, Decimal("0.0001"))) for number in (1.20877834, 2.0)], ["1.2087", "2.0000"]),
        ([formats.plural(1, "report"), formats.plural(0, "report")], ["1 report", "0 reports"]),
        (formats.plural(1200, "distinct value"), "1,200 distinct values"),
        (formats.parameter_words({"epsilon": 1.0, "hash_key": None, "known": ["oak"]}), "epsilon = 1.0"),
        (formats.parameter_words({"of": PARTS}), "grr: epsilon = 1.0; oue: epsilon = 2.0"),
        (
            list(csv_records([("oak, old", 1 / 3, True), ("a", math.nan, None)])),
            ['"oak, old",0.3333333333,true\n', "a,,\n"],
        ),
        ([shortened("chestnut", 5), shortened("oak", 5)], ["ches…", "oak"]),
        (NARROW.names(["https://example.org/a", "https://example.org/b"]), ["…org/a", "…org/b"]),
        (NARROW.names(["oak", "ash"]), ["oak", "ash"]),
        (SCALE.number(SCALE.at(0.5)), 0.5),
        (Scale(-3, 42, 0, 1).ticks(), [0, 10, 20, 30, 40]),
        (apart([0.0, 1.0, 20.0], 5.0), [-2.0, 3.0, 20.0]),
        (path(np.array([10.0, 12.5, 12.5]), np.array([3.04, 3.0, 1.26])), "M10 3l2.5 0 0-1.7"),
        (
            list(pieces(np.array([0.1, 0.2, 0.1, np.nan, 0.3]), np.array([True, True, False, False, True]))),
            [(0, 2, True), (1, 3, False), (4, 5, True)],
        ),
    ],
)
def test_what_is_written_of_several_is(written, expected):
    assert written == expected
