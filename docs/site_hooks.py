"""The hooks of the documentation's site: pages outside docs/ become part of it, so that links work in both places.

In the repository a page links to ``../../CHANGELOG.md`` or ``../../examples/metrics.toml``. The site has no folder
above docs/, so it takes those files in under their own names, and the links are written as the site needs them. The
page of the Python API is written anew for each site: `reference/write_api.py`. A formula, LaTeX in a block ``math``,
is MathML there, which needs no script; GitHub typesets the block by itself.
"""

from __future__ import annotations

import importlib.util
import posixpath
import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "papers/results.md")
COPIED = ("examples", "LICENSE", "CITATION.cff")
FENCED = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
FORMULA = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s#]+)")


def on_files(files: Any, config: Any) -> Any:
    """Add the page of the Python API, the repository's own pages and its examples to the site."""
    files.append(File.generated(config, "reference/api.md", content=api_page()))
    for path in outside():
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def api_page() -> str:
    """Return the page of the Python API, from the docstrings of the packages."""
    spec = importlib.util.spec_from_file_location("write_api", Path(__file__).parent / "reference" / "write_api.py")
    assert spec is not None
    assert spec.loader is not None
    written = importlib.util.module_from_spec(spec)
    sys.modules["write_api"] = written  # dataclasses look their module up
    spec.loader.exec_module(written)
    return str(written.page())


def outside() -> list[Path]:
    """Return the files outside docs/ that pages may link to."""
    found = [ROOT / name for name in PAGES]
    for name in COPIED:
        path = ROOT / name
        found += sorted(path.rglob("*")) if path.is_dir() else [path]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Write the links as the site needs them, and formulas as MathML."""
    return typeset(relinked(markdown, page.file.src_uri))


def typeset(markdown: str) -> str:
    """Return a page's text with its formulas as MathML."""
    return FORMULA.sub(lambda formula: f"<div>{convert(formula[1].strip(), display='block')}</div>", markdown)


def relinked(markdown: str, uri: str) -> str:
    """Return a page's text with its relative links for the site; what is code is left alone.

    Parameters
    ----------
    markdown
        The page as it is in the repository.
    uri
        The page's place in the site; those of `PAGES` are there in the repository, too, all others below docs/.
    """
    here = PurePosixPath(uri if uri in PAGES else f"docs/{uri}").parent.as_posix()

    def link(match: re.Match[str]) -> str:
        if "://" in match[2] or match[2].startswith("mailto:"):
            return match[0]
        target = posixpath.normpath(posixpath.join(here, match[2]))
        target = "index.md" if target == "README.md" else target.removeprefix("docs/")
        return match[1] + posixpath.relpath(target, posixpath.dirname(uri) or ".")

    parts = FENCED.split(markdown)
    return "".join(part if place % 2 else LINK.sub(link, part) for place, part in enumerate(parts))
