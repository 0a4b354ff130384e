"""The pictures of the console in the documentation: the first screen of two pages, of a store like that of the tests.

`make docs-screenshots` writes them to docs/images.
"""

import sys
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Final

from PIL import Image

from overstory.collector.store import Store
from overstory.console.app import SCREENS
from overstory.console.data import ConsoleData
from overstory.protocol.metrics import MetricRegistry
from support import console_store
from support.console_browser import WIDE, launched, logged_in, served_console
from support.console_store import NOW, TEXT

PICTURES: Final = {"console-overview.png": "/m/", "console-series.png": "/m/theme"}
"""The address of each picture."""

WORDS: Final = (
    (" <script>alert(1)</script>", ""),
    ("A metric that has ended", "Menu"),
    ("A metric without reports", "Sidebar"),
)
"""What the registry of the tests calls its metrics, and what a reader would."""

IMAGES: Final = Path(__file__).parents[2] / "docs" / "images"
MOST_BYTES: Final = 120_000
HEIGHT: Final = 900
COLOURS: Final = 256


def make_store(folder: Path) -> tuple[MetricRegistry, Store]:
    text = TEXT
    for word, instead in WORDS:
        assert word in text
        text = text.replace(word, instead)
    registry, store = console_store.make_store(folder, text)
    for note in store.notes():
        store.remove_note(note.id)
        store.add_note("Version 3.1", note.day, note.kind, note.metric)
    return registry, store


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as store_folder:
        registry, store = make_store(Path(store_folder))
        data = ConsoleData(registry, store, lambda: NOW)
        with (
            store,
            served_console(data, SCREENS) as served,
            launched() as browser,
            logged_in(browser, served, scheme="light", width=WIDE) as reading,
        ):
            reading.page.set_viewport_size({"width": WIDE, "height": HEIGHT})
            for name, address in PICTURES.items():
                reading.open(address)
                Image.open(BytesIO(reading.page.screenshot())).quantize(COLOURS).save(folder / name, optimize=True)
                size = (folder / name).stat().st_size
                assert size <= MOST_BYTES, f"{name} has {size:,} bytes, more than {MOST_BYTES:,}"
                sys.stdout.write(f"{folder / name}: {size:,} bytes, of {address}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES)
