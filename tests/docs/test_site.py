"""The documentation's site builds without a warning, fetches nothing from elsewhere, and leaves no page out."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?https?:[^"'\s>]+"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preload|preconnect|dns-prefetch|icon)\b[^>]*\bhref=["']?https?:[^"'\s>]+"""
    r"""|url\(\s*["']?https?:[^)]+|@import\s+["']https?:[^"']+"""
)
spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site_hooks.py")
hooks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hooks)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ
        | {"NO_MKDOCS_2_WARNING": "1"}
        | dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9"),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (built.returncode, built.stderr) == (0, ""), built.stderr
    return folder


def test_every_page_is_in_the_site_and_fetches_nothing(site):
    pages = {page.relative_to(site).with_suffix(".md").as_posix() for page in site.rglob("*.html")}
    assert {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")} <= pages
    assert {*hooks.PAGES, "reference/api.md"} <= pages
    for path in site.rglob("*"):
        if path.suffix in {".html", ".css", ".svg"}:
            assert FETCHED.findall(path.read_text("utf-8")) == [], path
    assert (site / "examples" / "metrics.toml").is_file()
    assert not (site / "drawings").exists()


def test_every_formula_is_typeset_without_a_script(site):
    formulas = {page: len(hooks.FORMULA.findall(page.read_text("utf-8"))) for page in (ROOT / "docs").rglob("*.md")}
    assert sum(formulas.values()) >= 20
    for page, many in formulas.items():
        shown = (site / page.relative_to(ROOT / "docs").with_suffix(".html")).read_text("utf-8")
        typeset = re.findall(r"<math .*?</math>", shown)
        assert len(typeset) == many, page
        assert [one for one in typeset if "\\" in one or "&amp;" in one] == [], "what the converter does not know"


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("dashboard", "how-to/watch.html"),
        ("how many people do I need", "explanation/planning.html"),
        ("delete my data", "how-to/person.html"),
    ],
)
def test_a_newcomer_finds_the_page_by_their_own_words(site, words, page):
    """The site's search shows first what has the words in its title: a page, or a section of one."""
    sections = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    titled = [
        part for part in sections if set(words.casefold().split()) <= set(re.findall(r"\w+", part["title"].casefold()))
    ]
    pages = {part["location"].partition("#")[0] for part in titled}
    assert page in pages
    assert pages <= {page, "index.html"}


def test_what_is_fetched_is_noticed():
    page = '<link href=x.css rel="stylesheet"><script src="https://cdn.example/a.js"></script><a href="https://x.test">'
    assert FETCHED.findall(page) == ['<script src="https://cdn.example/a.js']
    assert FETCHED.findall('<link rel="preconnect" href="https://fonts.example">') != []
    assert FETCHED.findall("@font-face { src: url(https://fonts.example/a.woff) }") != []


@pytest.mark.parametrize(
    ("uri", "written", "link"),
    [
        ("how-to/a.md", "../../examples/metrics.toml", "../examples/metrics.toml"),
        ("how-to/a.md", "../../CHANGELOG.md", "../CHANGELOG.md"),
        ("how-to/a.md", "../reference/b.md", "../reference/b.md"),
        ("index.md", "images/c.svg", "images/c.svg"),
        ("CONTRIBUTING.md", "docs/reference/b.md", "reference/b.md"),
        ("CONTRIBUTING.md", "README.md", "index.md"),
        ("how-to/a.md", "https://example.org/docs/a.md", "https://example.org/docs/a.md"),
    ],
)
def test_a_link_of_the_repository_is_written_for_the_site(uri, written, link):
    code = f"`[x]({written})`"
    assert hooks.relinked(f"{code} [x]({written}) [x](#here)", uri) == f"{code} [x]({link}) [x](#here)"
