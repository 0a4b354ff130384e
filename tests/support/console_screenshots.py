"""Every screen of the console as a picture: light and dark, on a wide screen and on a phone.

Prints, for each page, its size, the time until something was painted, and what axe and the policy have against it.
"""

import re
import sys
import tempfile
from pathlib import Path

from overstory.console.app import SCREENS
from overstory.console.data import ConsoleData
from support.console_browser import NARROW, WIDE, addresses, axe_violations, launched, logged_in, served_console
from support.console_store import NOW, make_store

FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as store_folder:
        registry, store = make_store(Path(store_folder))
        pages = [address for screen in SCREENS for address in addresses(screen, registry)]
        with store, served_console(ConsoleData(registry, store, lambda: NOW), SCREENS) as served, launched() as browser:
            print(f"{'page':45} {'bytes':>8} {'first paint':>11}  problems")
            for width in (WIDE, NARROW):
                for scheme in ("light", "dark"):
                    with logged_in(browser, served, scheme=scheme, width=width) as reading:
                        for address in pages:
                            _take(reading, address, folder, f"{scheme}-{width}")


def _take(reading, address: str, folder: Path, kind: str) -> None:
    reading.problems.clear()
    size = len(reading.open(address).body())  # the browser forgets it when something else loads
    name = re.sub(r"[^A-Za-z0-9]+", "-", address).strip("-") or "public"
    reading.page.screenshot(path=folder / f"{name}-{kind}.png", full_page=True)
    paint = reading.page.evaluate(FIRST_PAINT)
    problems = [*reading.problems, *axe_violations(reading.page)]
    print(f"{address:45} {size:8,} {paint:8.0f} ms  {kind}: {'; '.join(problems) or 'none'}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/screenshots"))
