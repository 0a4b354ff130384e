"""Two drawings of one picture: for a wide page, and for a narrow one, on which text must stay readable."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os.path import commonprefix
from typing import Any, Final

import numpy as np

from overstory.presentation.charts.drawing import Chart, drawable
from overstory.presentation.charts.scale import F64, Scale, shortened, text_width


@dataclass(frozen=True)
class Sheet:
    """The width of a drawing and the height of its text, in CSS pixels.

    A page shows the wide drawing at 745 pixels or more, and the narrow one at 350 to 480: text has 11 pixels or more.
    """

    width: float
    font: float
    longest: int  # characters of a name

    @property
    def is_narrow(self) -> bool:
        """Whether names have no room next to the plot."""
        return self.width < 600

    def chart(self, height: float, x: Scale, y: Scale) -> Chart:
        """Return an empty chart of this width, which carries its scales: `Scale.number` reads them back."""
        return Chart(self.width, height, x, y, self.font, "px", {"x": str(x), "y": str(y)})

    def text_width(self, words: str) -> float:
        """Return about how wide a line of text is."""
        return text_width(words, self.font)

    def name(self, words: str) -> str:
        """Return a name that fits."""
        return shortened(drawable(words), self.longest)

    def names(self, several: Sequence[str]) -> list[str]:
        """Return names that fit; those that would then read alike are without their common beginning.

        Examples
        --------
        >>> NARROW.names(["https://example.org/a", "https://example.org/b"]), NARROW.names(["oak", "ash"])
        (['…org/a', '…org/b'], ['oak', 'ash'])
        """
        groups: dict[str, list[str]] = {}
        for words in several:
            groups.setdefault(self.name(words), []).append(words)
        alike = {short: len(commonprefix(group)) - 4 for short, group in groups.items()}  # noqa: RUF071 - no paths
        shorts = ((self.name(words), words) for words in several)
        return [
            self.name(f"…{words[alike[short] :]}") if len(set(groups[short])) > 1 and alike[short] > 0 else short
            for short, words in shorts
        ]


WIDE: Final = Sheet(880, 13, 26)
NARROW: Final = Sheet(420, 14, 15)


def percent_tick(share: float) -> str:
    """Return a share of an axis as it reads there.

    Examples
    --------
    >>> percent_tick(0.05), percent_tick(-0.002), percent_tick(0)
    ('5%', '\N{MINUS SIGN}0.2%', '0%')
    """
    return f"{100 * share:.4g}%".replace("-", "\N{MINUS SIGN}")


def cursor_numbers(labels: Sequence[str], series: Sequence[Mapping[str, Any]]) -> str:
    """Return an element with the numbers of a picture as JSON, from which a page's script reads them out.

    Parameters
    ----------
    labels
        What the places of the picture are called: periods, or values.
    series
        Of each a ``name``, arrays with a number for each place, and truth values.
    """
    values = {
        "labels": [drawable(label) for label in labels],
        "series": [{key: _json(value) for key, value in each.items()} for each in series],
    }
    return f"<metadata>{escape(json.dumps(values, separators=(',', ':'), allow_nan=False))}</metadata>"


def _json(value: Any) -> Any:
    if isinstance(value, str):
        return drawable(value)
    array = np.asarray(value)
    if array.dtype == bool:
        return "".join("1" if flag else "0" for flag in array.tolist())
    return [None if number != number else round(number, 2) for number in array.tolist()]  # noqa: PLR0124 - NaN


def percentages(numbers: F64) -> F64:
    """Return shares in percent; NaN where a number is not finite."""
    return np.where(np.isfinite(numbers), 100 * numbers, np.nan)
