"""Beyond the papers: what theory states is compared honestly."""

from overstory.planning import detection
from papers.beyond import people_needed
from papers.comparison import AGREES, DIFFERS
from papers.run import EXPERIMENTS
from papers.study import Context


def test_too_few_people_are_noticed(monkeypatch):
    """With half the people the share is seen less often than nine times in ten, and the verdict says so."""
    name = "beyond-people-needed"
    context = Context(EXPERIMENTS[name])
    honest = people_needed._tried(context, 0, 200)
    monkeypatch.setattr(
        people_needed, "required_sample_size", lambda *args, **more: detection.required_sample_size(*args, **more) // 2
    )
    half = people_needed._tried(context, 0, 200)
    assert half.people < honest.people
    verdicts = [one.verdict for one in people_needed._rates([honest, half], 200)]
    assert verdicts == [AGREES, DIFFERS]
