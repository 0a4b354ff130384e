"""The glossary defines every word of ours once, in the alphabet's order within each part."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text("utf-8")
OURS = """
    account, batch, batch id, budget, candidate, cap, channel, chunk, claim, cohort, collector, compaction,
    composition, consent, count, debias, decode, delta, design effect, design matrix, detected, device, dictionary,
    domain, encoding, epsilon, estimator, floor, frequency, frequency oracle, fresh, grace, group, heavy hitter,
    history, inbox, instantaneous response, interval, kept, ledger, linkable, mechanism, memo, metric, nothing,
    outbox, p_star, parameters, payload, period, permanent response, post-processing, q_star, randomizer, registry,
    relay, report, retention, secret, standard error, statement, store, support, support count, terms,
    threshold, token, upload, value
"""


def parts(page):
    return [re.findall(r"^\*\*([^*]+)\*\*\n:   \S", part, re.MULTILINE) for part in page.split("\n## ")[1:]]


def words(page):
    """Each defined word; an entry may define two, as "Count, frequency" does."""
    entries = [entry for part in parts(page) for entry in part]
    return [word.strip("` ").lower() for entry in entries for word in entry.split(",")]


def test_every_word_of_ours_is_defined():
    assert {word.strip() for word in OURS.split(",")} - set(words(PAGE)) == set()


def test_no_word_is_defined_twice():
    assert sorted(set(words(PAGE))) == sorted(words(PAGE))
    assert len(words(PAGE.replace("**Memo**", "**Terms**"))) != len(set(words(PAGE.replace("**Memo**", "**Terms**"))))


def test_each_part_is_in_the_alphabets_order():
    for part in parts(PAGE):
        assert part == sorted(part, key=lambda word: word.strip("`").lower())
