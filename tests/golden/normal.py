"""Write an output so that it can be compared with a later one: lay it out, clean it by named rules, compare.

A rule replaces what differs from run to run by its name in angle brackets. Fractions are written with twelve
significant digits and compared with a relative tolerance of 1e-9: another version of NumPy or SciPy may add in another
order, and no more than that is forgiven. Integers, texts and the order of keys are compared exactly.
"""

import json
import math
import re
import textwrap

from overstory import __version__

TOLERANCE = 1e-9
RESIDUE = 1e-12  # sums that ought to be zero end as near to it as this

DIGITS = 12
WIDTH = 118

RULES = (
    ("FOLDER", re.compile(r"/[^\s\"']*/golden-place\d*")),
    ("PORT", re.compile(r"(?<=127\.0\.0\.1:)\d+")),
    ("VERSION", re.compile(rf"(?<![\w.]){re.escape(__version__)}(?![\w.])")),
    ("SECONDS", re.compile(r'(?<="seconds": )[\d.]+')),
    ("SIZE", re.compile(r'(?<="size": )\d+')),
    ("KEY", re.compile(r'(?<="key": ")[0-9a-f]{32}(?=")')),
    ("MACHINE", re.compile(r"[\d,]+(?= MiB free| at once)")),
)
"""Name, and what it replaces: the folder of a scene, a port, the version; how long something took, how large a
database is on the disk, what an experiment's result is stored under (a digest of its source), what this machine has."""

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]\d{1,3})?(?![\w.]*\w)")


def cleaned(text):
    """Apply the rules, and cut the digits of fractions."""
    for name, pattern in RULES:
        text = pattern.sub(f"<{name}>", text)
    return NUMBER.sub(lambda match: _cut(match[0]), text)


def laid_out(value, indent=0):
    """JSON with its keys in their order, a line for each; a list of plain values is filled into lines."""
    margin = " " * (indent + 1)
    if isinstance(value, dict) and value:
        members = (f"{margin}{json.dumps(str(key))}: {laid_out(item, indent + 1)}" for key, item in value.items())
        return "{\n" + ",\n".join(members) + "\n" + " " * indent + "}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = (f"{margin}{laid_out(item, indent + 1)}" for item in value)
        return "[\n" + ",\n".join(items) + "\n" + " " * indent + "]"
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and indent + len(text) > WIDTH:
        options = {"break_long_words": False, "break_on_hyphens": False}
        return textwrap.fill(text, WIDTH, subsequent_indent=margin, **options)
    return text


def parsed(text):
    """The text, laid out where it is JSON."""
    try:
        return laid_out(json.loads(text)) + "\n"
    except ValueError:
        return text


def same(expected, actual):
    """Whether two outputs differ in nothing but the last digits of fractions."""
    if expected == actual:
        return True
    if NUMBER.sub("#", expected) != NUMBER.sub("#", actual):
        return False
    return all(map(near, NUMBER.findall(expected), NUMBER.findall(actual)))


def near(expected, actual):
    """Whether two numbers, as they are written, are equal within the tolerance; integers are compared exactly."""
    if expected == actual:
        return True
    if not _fraction(expected) and not _fraction(actual):
        return False
    return math.isclose(float(expected), float(actual), rel_tol=TOLERANCE, abs_tol=RESIDUE)


def differing(expected, actual):
    """Lines of both, in which every line that is the same within the tolerance is written the same."""
    before, after = expected.splitlines(), actual.splitlines()
    if len(before) == len(after):
        after = [old if same(old, new) else new for old, new in zip(before, after, strict=True)]
    return before, after


def _fraction(number):
    return "." in number or "e" in number


def _cut(number):
    return number if not _fraction(number) or len(number) <= DIGITS else repr(float(f"{float(number):.{DIGITS}g}"))
