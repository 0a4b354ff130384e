"""Run with another mechanism, an experiment says that it differs: its verdicts are not agreement by construction."""

import pytest

from overstory.planning import detection
from papers.beyond import people_needed
from papers.comparison import AGREES, DIFFERS
from papers.epidemic import fit
from papers.rappor import epsilons, figure_4, figure_5, figure_6, table_1, table_2
from papers.rappor.collections import collected
from papers.run import EXPERIMENTS
from papers.smart_homes import double_randomization, homes, window_based
from papers.study import Context

slow = pytest.mark.slow  # an experiment takes seconds


def noisier(f, **other):
    """Return RAPPOR with more noise than was asked for."""
    return collected((1 + f) / 2, **other)


def verdicts(name):
    """Run an experiment and return its verdicts of what was published, by name."""
    result = EXPERIMENTS[name].run(Context(EXPERIMENTS[name]))
    return {one.name: one.verdict for one in result.comparisons if one.published is not None}


@slow
@pytest.mark.parametrize(
    ("name", "module", "differ"),
    [
        (
            "rappor-epsilons",
            epsilons,
            {"epsilon of one report, f = 0.5", "q*, f = 0.5", "epsilon of one report, f = 0.75"},
        ),
        ("rappor-figure-5", figure_5, {"smallest frequency found, paper's procedure"}),
        (
            "rappor-table-1",
            table_1,
            {"standard error of a count", "standard error of V_1's count", "signal to noise of V_1"},
        ),
        (
            "rappor-table-2",
            table_2,
            {"names found by the paper's procedure", "standard error of a count, paper's procedure"},
        ),
        ("rappor-figure-6", figure_6, {"candidates found, paper's procedure"}),
        ("epidemic-fit", fit, {"estimated against true frequencies"}),
    ],
)
def test_more_noise_is_noticed(monkeypatch, name, module, differ):
    if module is fit:
        monkeypatch.setattr(module, "mechanism", lambda: collected(0.98))
    else:
        monkeypatch.setattr(module, "collected", noisier)
    found = verdicts(name)
    assert {one for one in differ if found[one] == AGREES} == set()


@slow
def test_another_channel_is_not_the_papers_bell(monkeypatch):
    honest = figure_4.basic_rappor_one_time
    monkeypatch.setattr(figure_4, "basic_rappor_one_time", lambda **given: honest(**given | {"q": 0.6}))
    found = verdicts("rappor-figure-4")
    for name in ("epsilon of one report", "the estimate from 10^6 reports", "error of one count, 10^6 reports"):
        assert found[name] == DIFFERS


@slow
def test_a_shorter_window_is_noticed(monkeypatch):
    monkeypatch.setattr(window_based, "WINDOW", 5)
    monkeypatch.setattr(window_based, "EPSILONS", (2.0, 10.0))
    found = verdicts("protecting-window")
    for estimates in ("the unbiased estimates", "Est_Freq made a distribution"):
        assert found[f"WB, epsilon 2, N = 100,000: MSE of {estimates}"] == DIFFERS


@slow
def test_a_strategy_that_is_no_better_than_rappor_is_noticed(monkeypatch):
    honest = double_randomization.built

    def worse(name, epsilon, bins=homes.BINS):
        return honest("rappor" if name == "opt-dr" else name, epsilon, bins)

    monkeypatch.setattr(double_randomization, "EPSILONS", (2.0,))
    monkeypatch.setattr(double_randomization, "built", worse)
    monkeypatch.setattr(double_randomization, "_epsilons", lambda: iter(()))
    found = verdicts("protecting-double")
    for measure in ("MSE", "Jensen-Shannon distance"):
        assert found[f"{measure} of OPT-DR against RAPPOR, p=.5 q=.75: least gain of all N"] == DIFFERS


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
