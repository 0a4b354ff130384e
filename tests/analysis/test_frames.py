"""An estimate in a notebook and as a data frame (finding A14)."""

import base64
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import overstory
from overstory.analysis.postprocess.steps import postprocess
from overstory.analysis.tables.output import Row
from overstory.protocol.errors import ParameterError
from support.estimates import estimate_of

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</td></table><svg onload=alert(1)>",
    "--><script>alert(1)</script>",
    "]]><script>",
    "&lt;b&gt;",
    "javascript:alert(1)",
    "$x^2$",
    "a\u202eb\x1b[2J\n",
    "木の名前",
]


def estimate(values: Any, **more: Any) -> Any:
    return estimate_of(100.0 * np.arange(1, len(values) + 1), 9.0, values=values, **more)


LABELLED = estimate(["First", "Second", None], standard_errors=[9.0, np.inf, 9.0])


def test_a_row_has_what_the_table_has() -> None:
    assert LABELLED.rows()[0] == LABELLED[None]._asdict() | {"value": "(missing)"}


def test_rows_come_most_frequent_first_and_by_their_value() -> None:
    assert [row.value for row in LABELLED] == [None, "Second", "First"]
    assert LABELLED["First"].count == 100
    assert LABELLED["First"].frequency == 0.1
    assert LABELLED["Second"].standard_error is None
    for missing in (None, float("nan"), pd.NA, np.float64("nan")):
        assert missing in LABELLED
        assert LABELLED[missing].count == 300
    assert ("First" in LABELLED, "Third" in LABELLED, [] in LABELLED) == (True, False, False)


def test_numbers_and_booleans_are_values_too() -> None:
    whole = estimate([3, 7])
    assert [whole[key].count for key in (3, 3.0, np.int64(3), np.float64(3))] == [100] * 4
    assert "3" not in whole
    assert estimate([False, True])[np.True_].count == 200
    assert estimate(["0", "1"])[1].count == 200  # an oracle without labels names its symbols so


def test_an_unknown_value_is_one_error_with_the_nearest() -> None:
    with pytest.raises(KeyError) as caught:
        LABELLED["Frist"]
    assert isinstance(caught.value, ParameterError)
    assert str(caught.value) == "there is no value 'Frist': did you mean 'First'?"
    with pytest.raises(ParameterError, match="no value 'x' among the 3: 'First', 'Second', None"):
        LABELLED["x"]


def test_reprs_are_short() -> None:
    """A report batch printed 13,735 characters of zeros."""
    oracle = overstory.oracle("oue", domain_size=1000, epsilon=1)
    devices = oracle.devices(np.zeros(5000, int), 1)
    reports = devices.report()
    counts = oracle.accumulate(reports)
    learned = oracle.estimate(counts)
    things = [oracle, devices, reports, counts, learned, postprocess(learned, "clip")]
    assert [len(repr(thing)) < 100 for thing in things] == [True] * 6
    assert repr(reports) == "ReportBatch(5,000 reports, num_bits=1000, num_cohorts=1)"
    assert repr(LABELLED) == "Estimate(1,000 reports, 3 values, 2 detected)"
    assert str(LABELLED) == LABELLED.table()
    assert devices.key.hex() not in repr(devices)


def test_every_library_takes_an_estimate_as_a_table() -> None:
    columns = list(Row._fields)
    arrow = pa.table(LABELLED)
    assert arrow.column_names == columns
    assert arrow.column("value").to_pylist() == [None, "Second", "First"]
    assert arrow.column("standard_error").to_pylist() == [9.0, None, 9.0]
    assert arrow.column("detected").to_pylist() == [True, False, True]
    assert pl.DataFrame(LABELLED).equals(pl.DataFrame(arrow))
    assert LABELLED.to_polars().equals(pl.DataFrame(arrow))
    frame, again = LABELLED.to_pandas(), pd.DataFrame(LABELLED)
    assert list(frame.columns) == list(again.columns) == columns
    assert frame["value"].isna().tolist() == again["value"].isna().tolist() == [True, False, False]
    pd.testing.assert_frame_equal(frame.drop(columns="value"), again.drop(columns="value"), check_dtype=False)


@pytest.mark.parametrize(
    ("values", "kind", "dtype"),
    [
        (["a", None], pa.string(), "string"),
        ([3, None], pa.int64(), "Int64"),
        ([False, True, None], pa.bool_(), "boolean"),
        ([None], pa.string(), None),
        ([], pa.string(), "str"),
        ([3, "(another value)"], pa.string(), "string"),
    ],
)
def test_labels_keep_their_kind_in_a_frame(values: Any, kind: Any, dtype: Any) -> None:
    learned = estimate(values)
    assert learned.to_arrow().schema.field("value").type == kind
    frame = learned.to_pandas()
    assert dtype is None or frame["value"].dtype == dtype
    assert len(frame) == len(values)
    assert learned._repr_html_().startswith("<div")


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"


def test_hostile_values_are_inert_in_a_notebook() -> None:
    html = estimate(HOSTILE, notes=("<script>note</script>",))._repr_html_()
    parsed = Tags()
    parsed.feed(html)
    assert parsed.tags <= {"div", "style", "p", "img", "table", "thead", "tbody", "tr", "th", "td", "ul", "li"}
    assert parsed.attributes <= {"class", "src", "alt", "role", "aria-label", "tabindex", "scope"}
    assert all(value in parsed.text for value in HOSTILE if value.isprintable())
    assert not {"\x1b", "\u202e"} & set(html)
    assert "<script>note</script>" in parsed.text


def picture_of(html: str) -> Any:
    encoded = re.search('src="data:image/svg[+]xml;base64,([A-Za-z0-9+/=]*)"', html)
    assert encoded
    return ET.fromstring(base64.b64decode(encoded[1]))


def test_the_picture_is_the_tables() -> None:
    picture = picture_of(estimate(HOSTILE)._repr_html_())
    assert not [node for node in picture.iter() if node.tag.rpartition("}")[2] in {"script", "foreignObject", "image"}]
    assert not [name for node in picture.iter() for name in node.attrib if name.startswith("on")]
    drawn = "".join(picture.itertext())
    assert "<script>alert(1)</script>" in drawn
    assert "木の名前" in drawn


def test_a_long_list_says_what_it_leaves_out() -> None:
    many = estimate([f"v{i}" for i in range(25)])
    parsed = Tags()
    parsed.feed(many._repr_html_())
    assert "... and 5 more" in parsed.text
    assert ("v24" in parsed.text, "v4" in parsed.text.split()) == (True, False)
    assert "... and 5 more\n" in str(many)
