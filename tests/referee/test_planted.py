"""The defects of the second audit, planted again one by one: the referee finds each of them in some life."""

import pytest
from hypothesis import HealthCheck, Phase, find, settings

from referee import life, sentences
from referee.planted import FINDINGS
from referee.stories import stories

ASKED = ("H1", "H2", "H4", "H6", "M1", "M2", "M3", "M5", "M6", "M7")  # those that the referee was built to find
MOST_STORIES = 400

looks = settings(
    max_examples=MOST_STORIES,
    database=None,
    derandomize=True,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def _printed_again(nothing_forbids):
    """Let no page be remembered that was printed without the defect, or with it."""
    remembered = (life.shown, life.differences, life.private)
    for printed in remembered:
        printed.cache_clear()
    yield
    for printed in remembered:
        printed.cache_clear()


@pytest.mark.parametrize("name", FINDINGS)
def test_a_planted_defect_is_found(name, monkeypatch):
    finding = FINDINGS[name]
    finding.plant(monkeypatch)

    def tells(story):
        return any(finding.tells(lie, story) for lie in life.lies(story))

    find(
        stories(finding.worlds, crowded=finding.crowded), tells, settings=looks
    )  # raises NoSuchExample where no life tells it


def test_all_that_were_asked_for_are_planted():
    assert set(ASKED) <= set(FINDINGS)


def test_a_sentence_has_one_form():
    """No line is read by two entries: which one comes first decides nothing."""
    lines = [line for world in ("grr", "search") for line in life.shown(world, "agreed")]
    for line in lines:
        assert sum(pattern.fullmatch(line) is not None for pattern, _ in sentences.READERS) <= 1, line
