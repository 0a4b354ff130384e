"""A page that the source, a test, a benchmark or an example names as docs/... is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
READ = {".py", ".md", ".toml", ".yaml", ".txt", ".conf", ".service", ".html"}
FOLDERS = ("src", "papers", "tests", "bench", "docs", "examples")
FILES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile")
MENTION = re.compile(r"(?<![\w/.])docs/[\w./-]+\.(?:md|svg|py|css)\b")


def files():
    for place in FOLDERS + FILES:
        path = ROOT / place
        yield from (path.rglob("*") if path.is_dir() else [path])


def gone(text):
    return sorted(name for name in MENTION.findall(text) if not (ROOT / name).exists())


def test_every_page_that_is_named_is_there():
    readable = [path for path in files() if path.suffix in READ and path.parent != Path(__file__).parent]
    missing = {path.relative_to(ROOT).as_posix(): gone(path.read_text("utf-8")) for path in readable}
    missing = {path: names for path, names in missing.items() if names}
    assert missing == {}


def test_a_page_that_is_gone_is_noticed():
    assert gone("see docs/privacy.md, docs/reference/cli.md and `docs/none/x.svg`") == [
        "docs/none/x.svg",
        "docs/privacy.md",
    ]
