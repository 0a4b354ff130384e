"""The life of a value: one device's bits, the counts of all devices, the estimate; every figure is computed."""

from __future__ import annotations

import numpy as np
from canvas import Canvas

import overstory
from overstory.client import Randomizer

NAMES = ("light", "dark", "sepia", "blue", "green", "grey", "night", "paper")
SHARES = (0.30, 0.26, 0.16, 0.10, 0.07, 0.05, 0.04, 0.02)
DEVICES, VALUE = 4_000, "dark"
BOX, TOP, LOW = 206, 58, 322


def draw() -> str:
    """Return the drawing."""
    oracle = overstory.oracle("basic-rappor", domain_size=len(NAMES), f=0.25, p=0.25, q=0.75)
    device = Randomizer(oracle.mechanism, secret=b"the drawing's own secret", metric="theme")
    permanent = device.permanent(NAMES.index(VALUE))
    reports = [device.report_in(day, permanent)[1].bits for day in range(3)]
    canvas = Canvas(960, 500, "The life of a value", description(oracle.epsilon_report, oracle.epsilon_permanent))
    rooms(canvas)
    device_side(canvas, permanent, reports)
    collector_side(canvas, oracle)
    one, ever = (f"{epsilon:.2f}" for epsilon in (oracle.epsilon_report, oracle.epsilon_permanent))
    words = f"epsilon {one} for one report, at most {ever} for any number of reports of this value"
    canvas.text(24, 247, words, "muted")
    return canvas.svg()


def description(one: float, ever: float) -> str:
    """Return what the drawing says, in sentences."""
    return (
        f"On the device, the value {VALUE} becomes a row of bits with a single 1. Noise from the device's secret turns "
        "it into the permanent response. Fresh noise turns that into a report, once a day, and only the report is "
        "sent. The collector stores reports without their senders, adds up each bit over all devices, and subtracts "
        "the noise that it expects: an estimate with its interval for each value, drawn next to the truth. "
        f"Epsilon is {one:.2f} for one report and at most {ever:.2f} for any number of reports of one value."
    )


def rooms(canvas: Canvas) -> None:
    """Draw the two sides, their boxes, and the arrows between them."""
    canvas.box(8, 8, 944, 252, "room", 8)
    canvas.box(8, 278, 944, 214, "room", 8)
    canvas.text(24, 36, "On the device", "accent")
    canvas.text(24, 306, "At the collector", "accent")
    for place in range(4):
        canvas.box(24 + place * 236, TOP, BOX, 166)
    canvas.box(24, LOW, BOX, 154)
    canvas.box(260, LOW, 324, 154)
    canvas.box(614, LOW, 324, 154)
    for x in (230, 466, 702):
        canvas.arrow((x, TOP + 88), (x + 30, TOP + 88))
    canvas.arrow((230, LOW + 77), (260, LOW + 77))
    canvas.arrow((584, LOW + 77), (614, LOW + 77))
    canvas.arrow((835, TOP + 166), (835, 269), (200, 269), (200, LOW))


def device_side(canvas: Canvas, permanent: int, reports: list[int]) -> None:
    """Draw a value, its bits, its permanent response and three days' reports."""
    true = 1 << NAMES.index(VALUE)
    titles = ("1  Value", "2  Encoding", "3  Permanent response", "4  Reports")
    texts = (
        ("what the program records;", "never written to the disk,", "never sent"),
        ("one bit for each of the", "eight possible values"),
        ("noise from the device's", "secret: the same for this", "value every time"),
        ("fresh noise every day;", "only this is sent"),
    )
    for place, (title, lines) in enumerate(zip(titles, texts, strict=True)):
        x = 36 + place * 236
        canvas.text(x, TOP + 24, title, "strong")
        canvas.text(x, TOP + 120, lines, "muted")
    canvas.text(36, TOP + 70, f"theme = {VALUE}")
    canvas.bits(272, TOP + 56, bits(true))
    canvas.bits(508, TOP + 56, bits(permanent))
    for day, report in enumerate(reports):
        canvas.bits(744, TOP + 38 + 21 * day, bits(report))


def bits(word: int) -> list[int]:
    """Return a word's bits, the first value's first."""
    return [word >> place & 1 for place in range(len(NAMES))]


def collector_side(canvas: Canvas, oracle: overstory.FrequencyOracle) -> None:
    """Draw the counts of simulated devices, and the estimate with its interval next to the truth."""
    values = np.repeat(np.arange(len(NAMES)), [round(share * DEVICES) for share in SHARES])
    counts = oracle.accumulate(oracle.simulate(values, np.random.default_rng(7)))
    estimate = oracle.estimate(counts)
    canvas.text(36, LOW + 24, "5  Store", "strong")
    lines = ("reports by metric and day,", "shuffled; no name, address", "or time of arrival")
    canvas.text(36, LOW + 60, lines, "muted")
    canvas.text(272, LOW + 24, f"6  Counts: {DEVICES:,} devices", "strong")
    canvas.text(626, LOW + 24, "7  Estimate: noise subtracted", "strong")
    support = counts.ones.sum(axis=0) / DEVICES  # of the devices, the share that reported each bit
    low, high = estimate.interval()
    for place in range(len(NAMES)):
        x = 284 + place * 37
        height = 110 * support[place]
        canvas.box(x, LOW + 120 - height, 22, height, "bar", 1)
        canvas.text(x + 11, LOW + 138, NAMES[place], "muted middle")
        across = 642 + place * 37
        canvas.box(across - 2, LOW + 120 - 240 * SHARES[place], 26, 3, "truth", 1)
        bounds = [LOW + 120 - 240 * max(float(bound[place]) / DEVICES, 0) for bound in (low, high)]
        canvas.line((across + 11, bounds[0]), (across + 11, bounds[1]), kind="interval")
        canvas.circle(across + 11, LOW + 120 - 240 * float(estimate.frequencies[place]), 3.5, "bar")
        canvas.text(across + 11, LOW + 138, NAMES[place], "muted middle")
    for start in (276, 632):
        canvas.line((start, LOW + 120), (start + 300, LOW + 120))
    canvas.circle(776, LOW + 44, 3.5, "bar")
    canvas.text(788, LOW + 48, "estimate, 95% interval", "muted")
    canvas.box(769, LOW + 60, 14, 3, "truth", 1)
    canvas.text(788, LOW + 65, "truth", "muted")
