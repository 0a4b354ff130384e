"""The first screen: what one report and a year say, in words that people read; everything else is one step away.

Readability is LIX (C. H. Björnsson, 1968): the mean number of words in a sentence plus the percentage of words with
more than six letters. 25 is a children's book, 35 fiction, 45 a newspaper, 55 a textbook; a law has 60 and more.
"""

import math
import operator
import re
from datetime import date
from pathlib import Path

import pytest

from overstory.cli.analysis.demo import FILE, METRIC
from overstory.client import Client
from overstory.client.consent import read_consent
from overstory.client.person.status import SCREEN, read_status
from overstory.client.person.view import View, asked_of, build, first_screen, question
from overstory.client.state.files import StatePaths
from overstory.collector.service import public_html
from overstory.console.screens.public import MEANING
from overstory.presentation.document import Folded, Lines
from overstory.presentation.render_html import STYLE, as_page, policy_of
from overstory.presentation.render_text import as_text
from overstory.privacy.registry.cost import headline, in_two_sentences
from overstory.protocol.metrics import load_registry, parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from support.devices import NOON, REGISTRY, Clock
from support.html_reader import HtmlReader
from support.registry_texts import registry_of
from support.running import within

ROOT = Path(__file__).parents[2]
TODAY = date(2026, 11, 21)
MOST_LIX = 40
"""Between fiction and a newspaper."""
MANY = {f"m{number}": {"title": f'"Question {number}"'} for number in range(40)}
ENDING, RAPPOR = {"expires": "2099-01-01"}, {"k": 128, "h": 2, "m": 16, "f": 0.5, "p": 0.5, "q": 0.75}
REGISTRIES = {
    "notes": load_registry(ROOT / "examples/notes.toml"),
    "product": load_registry(ROOT / "examples/metrics.toml", read_candidates=False),
    "demonstration": parse_registry(FILE.format(today=TODAY, metric=METRIC, candidates='"c"', **ENDING, **RAPPOR)),
    "forty": parse_registry(registry_of(MANY)),
    "tests": REGISTRY,
}
OPERATOR = 'operator = {name = "Example Inc.", url = "https://example.org"}\n'


def lix(text: str) -> float:
    """Return LIX; a line, and what comes before a colon, ends like a sentence."""
    words = re.findall(r"[^\W\d_]+(?:['-][^\W\d_]+)*|\d[\d,.]*", text)
    sentences = [part for part in re.split(r"[.!?:](?=\s|$)|\n", text) if re.search(r"\w", part)]
    return len(words) / len(sentences) + 100 * sum(len(word) > 6 for word in words) / len(words)


def words_of(page: str) -> str:
    return " ".join(" ".join(HtmlReader(page).texts).split())


def own_words(lines: list[str]) -> str:
    """Return the sentences that are ours: what a registry says of itself is its author's, addresses are nobody's."""
    kept = (line for line in lines if not line.startswith(("- ", "asked by: ", "  and ")))
    return "\n".join(kept)


def asked_texts(registry, tmp_path) -> list[str]:
    (blocks,) = first_screen(asked_of(StatePaths(tmp_path / "s"), registry, None, TODAY), "-d")
    return list(blocks.texts)


def status_of(registry, tmp_path):
    client = Client("t", registry=registry, state=tmp_path / "s", clock=Clock(), environ={}, policy=tmp_path / "none")
    client.consent("on")
    return read_status(client.paths, registry, client.effective, now=NOON)


@pytest.mark.parametrize("name", REGISTRIES)
def test_the_first_screens_are_twelve_lines_of_plain_words(tmp_path, name):
    registry = REGISTRIES[name]
    one, year = in_two_sentences(registry)
    asked, now = asked_texts(registry, tmp_path), status_of(registry, tmp_path).first_words()
    shown = as_text([Lines(*asked)]).splitlines()
    assert len(shown) + len(["application: t", "Agree to these metrics? [y/N]"]) <= SCREEN
    assert len(as_text([Lines(*now)]).splitlines()) + len(["application: t"]) <= SCREEN
    for texts in (asked, now):
        assert texts[texts.index(one) + 1] == year
        metrics = [text for text in texts if text.startswith("- ")]
        more = [text for text in texts if text.startswith("  and ")]
        assert len(metrics) >= 1
        assert len(metrics) + sum(int(text.split()[1]) for text in more) == len(registry)
        assert lix(own_words(texts)) <= MOST_LIX, own_words(texts)


@pytest.mark.parametrize("name", REGISTRIES)
def test_the_pages_begin_with_the_same_words_and_hide_the_rest_behind_a_click(tmp_path, name):
    registry = REGISTRIES[name]
    person = as_page(build(View("t", status_of(registry, tmp_path), ()), reports=0))
    assert words_of(person).index("One report from now on") < words_of(person).index("The whole state")
    assert "<details><summary>The whole state of this device</summary>" in person
    for page in (person, public_html(registry)):
        text = words_of(page)
        for sentence in in_two_sentences(registry):
            assert sentence in text
            assert lix(sentence) <= MOST_LIX
    begins = words_of(public_html(registry)).split(registry.title)[-1].partition("according to")[0]
    assert "Programs send it reports" in begins
    assert max(lix(begins), lix(MEANING)) <= MOST_LIX, begins


def test_a_text_for_lawyers_is_caught():
    old = (
        "Epsilon 33.8512: whatever you hold and however it changes, in the first year: 30 reports, only on whether the "
        "value changed once; nothing is equal in every report, but reports of an unchanged value are alike\n"
    )
    assert lix("The cat sat. It ate a fish.") < 10 < MOST_LIX
    lawyers = "Consent to processing notwithstanding revocation necessitates comprehensive documentation"
    assert lix(old * 2 + lawyers) > 30
    assert lix("Notwithstanding aforementioned stipulations, comprehensive documentation is necessary hereafter") > 60


@pytest.mark.parametrize("name", REGISTRIES)
def test_the_sentences_say_what_the_numbers_say(name):
    registry = REGISTRIES[name]
    one = max(metric.mechanism.epsilon_report for metric in registry.values())
    for sentence, epsilon in zip(in_two_sentences(registry), (one, headline(registry).epsilon), strict=True):
        found = re.search(r"at most ([\d,]+) of ([\d,]+) cases", sentence)
        if found is None:
            assert epsilon > math.log(1e6)
            assert ("no known limit" in sentence) == math.isinf(epsilon)
        else:
            right, of = (int(number.replace(",", "")) for number in found.groups())
            assert (right - 1) / of < 1 / (1 + math.exp(-epsilon)) <= right / of + 1e-12


def test_details_are_all_that_there_was(tmp_path):
    asked = asked_of(StatePaths(tmp_path / "s"), REGISTRY, None, TODAY)
    text = as_text(question(asked))
    assert all(word in text for metric in REGISTRY.values() for word in (metric.id, metric.owner, metric.purpose))
    folded = Folded("more", (Lines("a"), Lines("b")))
    assert as_text([folded]) == as_text(folded.blocks)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("on --yes --json --details --app ./s --registry metrics.toml", "--details is of the text, and JSON has them"),
        ("status --json --details --app ./s --registry metrics.toml", "--details is of the text, and JSON has them"),
        ("status --details", "--details is of one application: give --app NAME"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(tmp_path, nothing_forbids, line, said):
    (tmp_path / "metrics.toml").write_text(EXAMPLE)
    ran = within(*line.split(), cwd=tmp_path)
    assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr


def test_the_operator_is_named_wherever_people_are_asked(tmp_path):
    registry = parse_registry(OPERATOR + EXAMPLE)
    who = "asked by: Example Inc. (https://example.org)"
    assert any(text.startswith(who) for text in asked_texts(registry, tmp_path))
    asked = asked_of(StatePaths(tmp_path / "s"), registry, None, TODAY)
    assert who in as_text(question(asked))
    assert any(text.startswith(who) for text in status_of(registry, tmp_path).first_words())
    page = public_html(registry)
    assert "<h1 id=" in page
    assert "What Example Inc. collects</h1>" in page
    assert policy_of(re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]) in page
    assert "What is collected here</h1>" in public_html(parse_registry(EXAMPLE))


def test_another_operator_asks_again(tmp_path):
    before = parse_registry(OPERATOR + EXAMPLE)
    status_of(before, tmp_path)
    consent = read_consent(StatePaths(tmp_path / "s"))
    assert consent.operator == "Example Inc. (https://example.org)"
    for changed in (OPERATOR.replace("Inc", "Ltd"), ""):
        other = parse_registry(changed + EXAMPLE)
        assert consent.missing(other)
        assert other.digest != before.digest


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ('name = " "', "operator.name: give who collects, as people know them"),
        ('name = "E", url = "example.org"', "operator.url: 'example.org' is no link"),
        ('name = "E", link = "https://example.org"', "operator.link: no such key; the keys are name, url"),
    ],
)
def test_a_wrong_operator_is_a_fault(keys, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_registry(f"operator = {{{keys}}}\n{EXAMPLE}")


def contrast(first, second):
    """Return the contrast ratio of two colours by WCAG 2.2: (L1 + 0.05) / (L2 + 0.05), the lighter one first."""
    luminances = []
    for colour in (first, second):
        parts = [byte / 255 for byte in bytes.fromhex(colour[1:])]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        luminances.append(sum(map(operator.mul, (0.2126, 0.7152, 0.0722), linear)))
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)


def test_text_stands_out_on_the_backgrounds_that_pages_have():
    schemes = [
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", part))
        for part in STYLE.split("@media (prefers-color-scheme: dark)", 1)
    ]
    assert [colours["paper"] for colours in schemes] == ["#fefefe", "#141a16"]
    for colours in schemes:
        for ink in ("ink", "muted", "blue", "good", "bad"):
            assert contrast(colours[ink], colours["paper"]) >= 4.5, (ink, colours)
    assert ":focus-visible { outline: 2px" in STYLE
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)  # of WCAG's own examples
