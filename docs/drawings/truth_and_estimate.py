"""The picture of the README: the demonstration's truth, and its estimates with their intervals."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from canvas import Canvas

README = Path(__file__).parents[2] / "README.md"
LEFT, RIGHT, TOP, ROW = 150, 860, 84, 30


def command() -> list[str]:
    """Return the demonstration's arguments, as the README shows them."""
    shown = re.search(r"^\$ overstory (demo .*?) -o tour$", README.read_text("utf-8"), re.MULTILINE)
    assert shown, "the README shows no demonstration"
    return shown[1].split()


def draw() -> str:
    """Run the demonstration, and return the drawing."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            [sys.executable, "-m", "overstory", *command(), "--json", "-o", folder],
            check=True,
            capture_output=True,
            text=True,
        )
    return drawing(json.loads(ran.stdout))


def drawing(result: dict[str, Any]) -> str:
    """Return the drawing of what the demonstration printed as JSON."""
    rows, reports = result["estimates"], result["reports"]
    foot = TOP + ROW * len(rows)
    canvas = Canvas(960, foot + 60, "Truth and estimate", description(rows, result))
    canvas.text(24, 34, f"{reports:,} people, one randomized report each: what was learned of their state", "strong")
    canvas.circle(32, 56, 5, "bar")
    canvas.text(44, 61, "estimate, with its 95% interval", "muted")
    canvas.box(250, 48, 4, 16, "truth", 1)
    canvas.text(262, 61, "truth, which no collector has", "muted")
    end = 0.05 * -(-max(row["frequency_high"] for row in rows) // 0.05)

    def at(frequency: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * max(frequency, 0) / end, 1)

    for percent in range(0, round(100 * end) + 1, 5):
        canvas.line((at(percent / 100), TOP - 6), (at(percent / 100), foot))
        canvas.text(at(percent / 100), foot + 20, f"{percent}%", "muted middle")
    canvas.text((LEFT + RIGHT) / 2, foot + 42, "share of the people", "muted middle")
    for place, row in enumerate(rows):
        y = TOP + ROW * place + 14
        canvas.text(LEFT - 12, y + 5, row["value"], "end")
        canvas.box(at(row["true_frequency"]) - 2, y - 9, 4, 18, "truth", 1)
        canvas.line((at(row["frequency_low"]), y), (at(row["frequency_high"]), y), kind="interval")
        canvas.circle(at(row["frequency"]), y, 5, "bar")
        canvas.text(944, y + 5, f"{row['frequency']:.2%}", "muted end")
    return canvas.svg()


def description(rows: list[dict[str, Any]], result: dict[str, Any]) -> str:
    """Return what the drawing says, in sentences."""
    shown = "; ".join(f"{row['value']} {row['true_frequency']:.2%} and {row['frequency']:.2%}" for row in rows)
    return (
        f"{result['reports']:,} simulated people sent one randomized report each of their state. The true share and "
        f"the estimate: {shown}. Of {len(rows)} intervals, {result['inside_95']} contain the truth. "
        f"Epsilon of one report is {result['epsilon_report']:.4f}."
    )
