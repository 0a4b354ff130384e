"""What every screen is: its address, who may open it, what its address may ask, and the view it answers with.

A view is made once and shown in five forms: the page, and the downloads of the same address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, ValidationError

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.document import Block, Table
    from overstory.presentation.svg import Picture

Viewer = Literal["viewer", "analyst", "admin"]  # who may open a screen; each may open what those before may


class ScreenError(Exception):
    """A page that cannot be shown, for a reason to act on; it asks again after `refresh` seconds (0: never)."""

    def __init__(self, status: int, detail: str, refresh: int = 0) -> None:
        super().__init__(detail)
        self.status, self.detail, self.refresh = status, detail, refresh


class Query(BaseModel):
    """What the address of a screen may ask for after its question mark; anything else is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)

    def address(self, path: str, **changes: Any) -> str:
        chosen = type(self)(**{**self.model_dump(), **changes}).model_dump(exclude_defaults=True, by_alias=True)
        query = urlencode({name: _text(value) for name, value in chosen.items()}, doseq=True)
        return f"{path}?{query}" if query else path


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return [str(item) for item in value] if isinstance(value, tuple) else value


AnyQuery = TypeVar("AnyQuery", bound=Query)


def read_query(kind: type[AnyQuery], pairs: Iterable[tuple[str, str]]) -> AnyQuery:
    """Read an address; an empty value is absent (a form sends all fields), a wrong or repeated one ScreenError 400."""
    several = {
        info.alias or name for name, info in kind.model_fields.items() if str(info.annotation).startswith("tuple")
    }
    given: dict[str, Any] = {}
    for name, value in pairs:
        if not value:
            continue
        if name in several:
            given[name] = (*given.get(name, ()), value)
        elif name in given:
            raise ScreenError(400, f"{name}: give it once")
        else:
            given[name] = value
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise ScreenError(400, "; ".join(map(_problem, error.errors()))) from error


def _problem(error: Any) -> str:
    name = ".".join(map(str, error["loc"][:1]))
    unknown = error["type"] == "extra_forbidden"
    return f"{name}: {'this page has no such parameter' if unknown else error['msg']}"


@dataclass(frozen=True)
class View:
    """What a screen shows, and its downloads; a part that is absent has no download."""

    title: str
    blocks: tuple[Block, ...]  # from the first heading on; `table` and `picture` are among them
    table: Table | None = None  # for .csv and .parquet
    picture: Picture | None = None  # for .svg
    facts: Mapping[str, Any] = field(default_factory=dict)  # what .json says next to the rows, as JSON values
    text: str = ""  # for .toml
    status: int = 200
    refresh: int = 0  # seconds after which the page asks again by itself; 0: never


@dataclass(frozen=True)
class Screen:
    """One screen of the console; `app.SCREENS` lists them all."""

    name: str  # what links to it say
    path: str  # its address, as Starlette writes patterns: /m/{metric}/compare
    view: Callable[..., View]  # takes the data, a query of `query`, and by name the parts of its address
    query: type[Query] = Query
    viewer: Viewer | None = "viewer"  # who may open it; None: anybody
    act: Callable[[ConsoleData, Mapping[str, str]], str] | None = None
    """Does what a posted form asks and returns the address that shows it; without it a form's fields are the query."""
