"""Write the drawings of the documentation: `python docs/drawings/draw.py` writes all, or those that are named.

The two drawings of *How it works* take a second. `truth-and-estimate`, the picture of the README, runs the
demonstration that the README shows, and takes some ten seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import life_of_a_value
import truth_and_estimate
import who_sees_what

IMAGES = Path(__file__).parents[1] / "images"
DRAWINGS = {
    "life-of-a-value": life_of_a_value.draw,
    "who-sees-what": who_sees_what.draw,
    "truth-and-estimate": truth_and_estimate.draw,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or DRAWINGS:
        (IMAGES / f"{name}.svg").write_text(DRAWINGS[name](), encoding="utf-8")
        print(IMAGES / f"{name}.svg")
