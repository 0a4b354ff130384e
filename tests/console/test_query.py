"""What an address may ask of a screen: strict, and written back as it was read."""

from __future__ import annotations

from typing import Literal
from urllib.parse import parse_qsl, urlsplit

import pytest
from pydantic import Field

from overstory.console.view import Query, ScreenError, read_query


class Example(Query):
    first: str | None = Field(None, alias="from")
    level: float = Field(0.95, gt=0, lt=1)
    reading: Literal["total", "per-period"] = "total"
    complete: bool = False
    values: tuple[str, ...] = ()


def test_an_address_is_read_and_written() -> None:
    query = read_query(
        Example, [("from", "2026-W01"), ("values", "ash, white"), ("values", "oak"), ("complete", "true")]
    )
    assert (query.first, query.values, query.complete) == ("2026-W01", ("ash, white", "oak"), True)
    address = query.address("/m/tree", level=0.9)
    assert read_query(Example, parse_qsl(urlsplit(address).query)) == query.model_copy(update={"level": 0.9})


def test_what_is_the_default_is_not_written_and_empty_fields_are_absent() -> None:
    assert read_query(Example, [("from", ""), ("level", "")]).address("/m/tree") == "/m/tree"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("form", "2026-W01")], "form: this page has no such parameter"),
        ([("level", "much")], "level: Input should be a valid number"),
        ([("level", "2")], "level: Input should be less than 1"),
        ([("level", "nan")], "level: Input should be a finite number"),
        ([("reading", "weekly")], "reading: Input should be 'total' or 'per-period'"),
        ([("level", ".9"), ("level", ".8")], "level: give it once"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(pairs: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(ScreenError, match="^" + message) as refusal:
        read_query(Example, pairs)
    assert refusal.value.status == 400
