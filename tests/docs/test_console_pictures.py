"""The pictures of the console in the documentation are there, small, of pages that exist, and shown on a page."""

from pathlib import Path

import pytest
from PIL import Image

from overstory.console.data import ConsoleData
from support.console_browser import WIDE
from support.console_in_process import client_of, console_on, log_in
from support.console_store import NOW
from support.decoding import shared_estimates
from support.docs_screenshots import HEIGHT, IMAGES, MOST_BYTES, PICTURES, make_store

PAGES = Path(__file__).parents[2] / "docs"
AGAIN = "run `make docs-screenshots`"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_there_and_small_and_a_page_shows_it(name):
    path = IMAGES / name
    assert path.is_file(), AGAIN
    assert path.stat().st_size <= MOST_BYTES, AGAIN
    with Image.open(path) as picture:
        assert picture.size == (WIDE, HEIGHT), AGAIN
    pages = [page for page in PAGES.rglob("*.md") if f"images/{name})" in page.read_text("utf-8")]
    assert len(pages) == 1
    assert "`make docs-screenshots`" in pages[0].read_text("utf-8")


def test_no_picture_is_left_over():
    assert {path.name for path in IMAGES.glob("*.png")} == set(PICTURES)


def test_the_addresses_of_the_pictures_are_pages(tmp_path):
    registry, store = make_store(tmp_path)
    with store:
        console = console_on(store)
        console.data = ConsoleData(registry, store, lambda: NOW, shared_estimates(60))
        client = client_of(console)
        log_in(client, console.gate.sessions.make_link("admin"))
        answers = {address: client.get(address).status_code for address in (*PICTURES.values(), "/m/none")}
        console.data.decoder.close()
    assert answers == dict.fromkeys(PICTURES.values(), 200) | {"/m/none": 404}
