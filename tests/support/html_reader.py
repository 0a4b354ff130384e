"""The elements and the texts of a page; who reads one finds an element that is not closed, or not open."""

from html.parser import HTMLParser

EMPTY = frozenset({"br", "hr", "img", "input", "link", "meta", "path", "use"})  # elements that need not be closed


class HtmlReader(HTMLParser):  # every element with its attributes, and every text, in order
    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert tag in EMPTY or (self.open and self.open.pop() == tag), f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]
