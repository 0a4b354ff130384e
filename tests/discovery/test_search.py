"""What a search finds: recall on a fixed seed, and broken searches that must fail the same check."""

import dataclasses

import numpy as np
import pytest

from overstory.discovery import CodedIntegers, CodedStrings, discover, find, prefix_extension, simulate
from overstory.discovery.prefixes import extend
from support.populations import score, zipf

VALUES = zipf(200_000, 20_000, seed=1, bits=32)
DOMAIN = CodedIntegers(32)
TOP = 12


def searched(plan, values=VALUES, seed=2, **choices):
    return find(plan, simulate(plan, values, np.random.default_rng(seed)), **choices)


def is_good(found):
    """The check: nearly all of the most frequent twelve, and hardly anything false."""
    result = score(found, VALUES, TOP)
    return result.recall >= 0.8 and result.detected >= 0.8 and result.false <= 0.25 * max(result.found, 1)


@pytest.mark.parametrize(
    "plan",
    [
        prefix_extension(epsilon=4.0, domain=DOMAIN, beam=64),
        prefix_extension(epsilon=4.0, domain=DOMAIN, levels=(9, 17, 26, 32), beam=64),
        discover(epsilon=4.0, domain=DOMAIN, beam=64, step=11),
    ],
    ids=["even levels", "odd levels", "default"],
)
def test_the_most_frequent_are_found(plan):
    assert is_good(searched(plan))


ONE_ROUND = ["grr", "sue", "oue", "hadamard", "subset", "projective", "linear-hash"]


@pytest.mark.parametrize("oracle", ONE_ROUND)
def test_every_oracle_of_one_round_can_be_plugged_in(oracle):
    plan = prefix_extension(epsilon=4.0, domain=CodedIntegers(8), step=4, beam=8, oracle=oracle)
    found = searched(plan, np.repeat([7, 200], [1500, 1000]), alpha=0.001, correction="bonferroni")
    assert found.found() == (7, 200)
    assert np.all(np.abs(found.counts[:2] - [1500, 1000]) < 5 * found.standard_errors[:2])


def test_a_beam_of_one_fails_the_check():
    assert not is_good(searched(prefix_extension(epsilon=4.0, domain=DOMAIN, beam=1)))


def test_the_wrong_hash_fails_the_check():
    plan, other = (prefix_extension(epsilon=4.0, domain=DOMAIN, beam=64, key=key) for key in ("ours", "theirs"))
    found = find(other, simulate(plan, VALUES, np.random.default_rng(2)))
    assert not is_good(found)
    assert score(found, VALUES, TOP).recall == 0


def test_losing_the_best_fails_the_check(monkeypatch):
    def upside_down(question, batch, parents, keep, domain):
        kept = extend(question, batch, parents, 4 * keep, domain)
        return dataclasses.replace(kept, rows=kept.rows[keep:], supports=kept.supports[keep:])

    monkeypatch.setattr("overstory.discovery.prefixes.extend", upside_down)
    assert not is_good(searched(prefix_extension(epsilon=4.0, domain=DOMAIN, beam=64)))


def test_few_users_on_the_last_level_fail_the_check():
    shares = [1.0, 1.0, 1.0, 0.01]
    assert not is_good(searched(prefix_extension(epsilon=4.0, domain=DOMAIN, beam=64, shares=shares)))


def test_the_dictionary_comes_first_and_takes_no_place_in_the_beam():
    present, counts = np.unique(VALUES, return_counts=True)
    top = present[np.argsort(-counts)]
    known = [int(value) for value in top[:6]] + [int(value) ^ 1 for value in top[:6]]
    plan = discover(epsilon=4.0, domain=DOMAIN, known=known, beam=64, step=11)
    found = searched(plan)
    by_source = dict(zip(found.raw_values, found.sources, strict=True))
    assert all(by_source[value] == "dictionary" for value in known)
    assert set(known[:6]) <= set(found.found())
    assert len(set(known[6:]) & set(found.found())) <= 1
    later = {int(value) for value in top[6:10]}
    assert len(later & set(found.found())) >= 3
    assert all(by_source[value] == "search" for value in later & set(found.found()))
    truth = counts[np.argsort(-counts)][:6].sum() / len(VALUES)
    assert abs(found.known_frequency - truth) < 5 * found.known_standard_error
    assert "outside the dictionary" in " ".join(found.notes)


def test_text_is_found_with_its_length():
    words = [b"a", b"ab", b"ab\x80", b"abcdefgh", "né".encode()]
    values = [words[i % 5] for i in range(15_000)]
    found = searched(discover(epsilon=4.0, domain=CodedStrings(8), step=11, beam=24), values, correction="bonferroni")
    assert set(found.found()) == set(words)
    assert found.values[found.raw_values.index(b"ab\x80")] == "ab\\x80"


def test_the_same_seed_finds_the_same():
    plan = prefix_extension(epsilon=4.0, domain=DOMAIN, beam=16)
    once, again = searched(plan), searched(plan)
    assert once.raw_values == again.raw_values
    assert np.array_equal(once.counts, again.counts)
    assert searched(plan, seed=3).raw_values != once.raw_values


def test_progress_is_told_and_rises():
    told = []
    plan = prefix_extension(epsilon=4.0, domain=CodedIntegers(16), beam=4)
    reports = simulate(plan, range(1000), np.random.default_rng(1), progress=lambda _, done: told.append(done))
    find(plan, reports, progress=lambda what, done: told.append(1 + done) if "bits" in what else None)
    assert told == sorted(told)
    assert len(told) == 4
