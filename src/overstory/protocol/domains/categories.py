"""Named values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from overstory.protocol.domains.domain import Domain, check_size
from overstory.protocol.errors import ParameterError


@dataclass(frozen=True)
class Categories(Domain):
    """Named values.

    Parameters
    ----------
    names
        At least two, all different; their order is the symbols' order.
    other
        A name for every value that is not listed: the last symbol. Unless given, such a value is refused.
    ordered
        Whether the names ascend ("never", "weekly", "daily").

    Raises
    ------
    ParameterError
        When there are fewer than two symbols, a name comes twice, or an ordered domain has an `other`.

    Examples
    --------
    >>> colours = Categories(("red", "green"), other="another colour")
    >>> colours.symbol("green"), colours.symbol("mauve"), colours.size
    (1, 2, 3)
    """

    names: tuple[str, ...]
    other: str | None = None
    ordered: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.names, str):  # type: ignore[unreachable] # a tuple by its type, not by its caller
            raise ParameterError(f"names = {self.names!r} is one string: give a list of names")
        object.__setattr__(self, "names", tuple(self.names))
        wrong = [name for name in self.labels if not isinstance(name, str)]
        if wrong:
            raise ParameterError(f"the category {wrong[0]!r} is no string: name categories by strings")
        twice = [name for i, name in enumerate(self.labels) if name in self.labels[:i]] if not self._unique else []
        if twice:
            raise ParameterError(f"the category {twice[0]!r} comes twice: each may be listed once")
        if self.other is not None and self.ordered:
            raise ParameterError("an ordered domain has no place for other values: leave out `other` or `ordered`")
        check_size(self.size, "categories")

    @property
    def _unique(self) -> bool:
        return len(set(self.labels)) == self.size

    @property
    def size(self) -> int:
        """One symbol a name, and one for other values if there is a name for them."""
        return len(self.labels)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names."""
        return self.names if self.other is None else (*self.names, self.other)

    @cached_property
    def _symbols(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.labels)}

    def symbol(self, value: Any) -> int:
        """Return the number of the name."""
        if not isinstance(value, str):
            raise ParameterError(f"a category is a string, not {value!r}")
        found = self._symbols.get(value)
        if found is None and self.other is not None:
            return self.size - 1
        if found is None:
            shown = ", ".join(map(repr, self.names[:8])) + (", ..." if len(self.names) > 8 else "")
            raise ParameterError(f"{value!r} is not a category: choose one of {shown}")
        return found

    def canonical(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"domain": "categories", "names": list(self.names), "other": self.other, "ordered": self.ordered}
