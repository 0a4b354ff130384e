"""The links of a page of documentation, and whether what they name is there."""

import re
from pathlib import Path

CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MADE = "reference/api.md"  # the page that is there in the built site only, whose build checks the links to it
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return what a page's headings are linked by: lower case, hyphens for spaces, no other signs."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """Return the links to files or headings that are not there; addresses elsewhere are not asked."""
    dead = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        is_elsewhere = "://" in link or name.endswith(MADE)
        if not is_elsewhere and (not target.exists() or (anchor and anchor not in anchors(target))):
            dead.append(link)
    return dead
