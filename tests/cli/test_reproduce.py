"""`overstory reproduce`, run as a person runs it."""

import overstory
from support.running import within

SMALL = "rappor-75-of-100"


def test_it_prints_what_was_published_beside_ours_and_writes_everything(tmp_path):
    done = within("reproduce", SMALL, "--quick", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1.39e-24 (section 3)" in done.stdout
    assert "agrees" in done.stdout
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {f"{SMALL}.json", f"{SMALL}.png", f"{SMALL}.svg", "index.html", "summary.md", "summary.tex"}


def test_the_page_says_how_to_get_it_again(tmp_path):
    done = within("reproduce", "rappor-figure-1", "--quick", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "overstory reproduce --all --quick" in (tmp_path / "out" / "summary.md").read_text()


def test_what_needs_a_checkout_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(overstory, "__file__", str(tmp_path / "site" / "overstory" / "__init__.py"))
    done = within("reproduce", cwd=tmp_path)
    assert done.returncode == 2
    assert "papers/ of the source: clone the repository" in done.stderr
