"""Who sees what: a row for each thing there is, a column for each place it might be seen."""

from __future__ import annotations

from canvas import Canvas

WHO = (
    ("the program", "that embeds it"),
    ("the device's", "files"),
    ("the network", "with TLS"),
    ("the collector's", "process"),
    ("its store", "and backups"),
    ("an analyst", "with a token"),
    ("everybody", ""),
)
YES, NO = "●", ""
WHAT = (
    ("the value", (YES, "1", NO, NO, NO, NO, NO)),
    ("the permanent response", (YES, YES, NO, NO, NO, NO, NO)),
    ("a single report", (YES, YES, NO, YES, YES, NO, NO)),
    ("the sender's address", (YES, NO, YES, "2", NO, NO, NO)),
    ("when it was sent", (YES, "3", YES, YES, "4", "4", NO)),
    ("counts and estimates", (NO, NO, NO, YES, YES, YES, NO)),
    ("the registry", (YES,) * 7),
)
NOTES = {
    "1": "Not stored. Whoever reads the files has the keys, and can test a guess.",
    "2": "While the connection is open. Not stored, not logged.",
    "3": "The period of each report, and when the files last changed.",
    "4": "The period (a day, for example), not the time.",
}
LEFT, STEP, FIRST, ROW = 208, 106, 92, 38


def draw() -> str:
    """Return the drawing."""
    foot = FIRST + ROW * len(WHAT)
    canvas = Canvas(960, foot + 128, "Who sees what", description())
    for place, lines in enumerate(WHO):
        canvas.text(LEFT + STEP * place + STEP / 2, 44, lines, "middle")
    canvas.line((16, 72), (944, 72))
    for place, (what, cells) in enumerate(WHAT):
        y = FIRST + ROW * place + 8
        canvas.text(20, y, what, "strong")
        for column, cell in enumerate(cells):
            x = LEFT + STEP * column + STEP / 2
            if cell == YES:
                canvas.circle(x, y - 5, 7, "bar")
            elif cell:
                canvas.circle(x, y - 5, 7, "one zero")
                canvas.text(x + 14, y - 2, cell, "muted")
        canvas.line((16, y + 16), (944, y + 16))
    canvas.line((LEFT + 2 * STEP, 20), (LEFT + 2 * STEP, foot - 12), kind="line")
    canvas.circle(28, foot + 15, 7, "bar")
    canvas.text(44, foot + 20, "sees it")
    canvas.circle(128, foot + 15, 7, "one zero")
    canvas.text(144, foot + 20, "sees a part of it, or for a while:")
    for place, (number, note) in enumerate(NOTES.items()):
        canvas.text(28, foot + 44 + 19 * place, f"{number}  {note}", "muted")
    return canvas.svg()


def description() -> str:
    """Return what the drawing says, a sentence for each row."""
    names = [" ".join(lines).strip() for lines in WHO]
    sentences = []
    for what, cells in WHAT:
        full = [name for name, cell in zip(names, cells, strict=True) if cell == YES]
        part = [f"{name} in part ({NOTES[cell]})" for name, cell in zip(names, cells, strict=True) if cell in NOTES]
        sentences.append(f"{what[0].upper()}{what[1:]} is seen by: {'; '.join(full + part)}.".replace(".)", ")"))
    return " ".join(sentences)
