"""The bits of a report, from a value to what leaves the device: a square each, filled for a 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from overstory.presentation.charts.drawing import Chart, Scale, Sheet, on_both_sheets
from overstory.presentation.svg import BLUE, FAINT, MUTED, VERMILION, Picture

MOST_BITS: Final = 256
GAP: Final = 2.0


@dataclass(frozen=True)
class Step:
    """The bits at one step, bit 0 first; those that noise changed since the value have another colour and a dot."""

    name: str
    bits: Sequence[bool]


def bits_of_a_report(name: str, caption: str, steps: Sequence[Step]) -> Picture:
    """Draw the bits of each step, the first without noise, in lines of 64, or of 32 on a narrow page; at most 256."""
    shown = [Step(step.name, step.bits[:MOST_BITS]) for step in steps]
    alt = " ".join(_sentence(step, shown[0]) for step in shown)
    return on_both_sheets(name, caption, alt, lambda sheet: _drawing(sheet, shown))


def _sentence(step: Step, first: Step) -> str:
    changed = sum(now != before for now, before in zip(step.bits, first.bits, strict=True))
    other = "" if step is first else f", {changed} of them other than the value's"
    return f"{step.name}: {len(step.bits)} bits, {sum(step.bits)} of them 1{other}."


def _drawing(sheet: Sheet, steps: Sequence[Step]) -> str:
    columns = 32 if sheet.is_narrow else 64
    size = (sheet.width - 16) / columns
    lines = -(-len(steps[0].bits) // columns)
    block = 2.1 * sheet.font + lines * size + 10
    chart = sheet.chart(len(steps) * block + 1.8 * sheet.font, Scale(0, columns, 8, sheet.width - 8), Scale(0, 1, 1, 0))
    for number, step in enumerate(steps):
        top = number * block + 2.1 * sheet.font
        chart.text(8, top - 0.9 * sheet.font, step.name)
        _squares(chart, step, steps[0], top, columns, size)
    _key(chart, sheet, len(steps) * block + 0.9 * sheet.font)
    return chart.svg()


def _squares(chart: Chart, step: Step, first: Step, top: float, columns: int, size: float) -> None:
    """Draw a step's bits in one path for each kind: 0, 1, 1 by noise, 0 by noise."""
    paths: dict[tuple[bool, bool], list[str]] = {}
    side = size - GAP
    for place, (bit, before) in enumerate(zip(step.bits, first.bits, strict=True)):
        line, column = divmod(place, columns)
        paths.setdefault((bit, bit != before), []).append(
            f"M{8 + column * size:.1f} {top + line * size:.1f}h{side:.1f}v{side:.1f}h-{side:.1f}z"
        )
    for (bit, is_noise), squares in sorted(paths.items()):
        colour = VERMILION if is_noise else BLUE
        outline = colour if bit or is_noise else FAINT
        inside = f'fill="{colour}"' if bit else 'fill="none"'
        chart.add(f'<path {inside} stroke="{outline}" stroke-width="1.2" d="{"".join(squares)}"/>')


def _key(chart: Chart, sheet: Sheet, height: float) -> None:
    left = 8.0
    for words, colour, is_one in (
        ("the value's 1", BLUE, True),
        ("1 by noise", VERMILION, True),
        ("0 by noise", VERMILION, False),
    ):
        inside = f'fill="{colour}"' if is_one else 'fill="none"'
        chart.add(f'<path {inside} stroke="{colour}" stroke-width="1.2" d="M{left:.1f} {height - 5:.1f}h10v10h-10z"/>')
        chart.text(left + 16, height, words, MUTED)
        left += 34 + sheet.text_width(words)
