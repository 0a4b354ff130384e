"""The laws that a user's own oracle is held to, over every small oracle; and files of oracles that break one each."""

import json
import os
import pickle
from pathlib import Path

import grimp
import pytest

import overstory
from overstory.audit.laws import LAWS, MOST_COMPARISONS, Alarm, Comparisons, check_laws
from overstory.cli.own_files import load_oracles
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.sampling import SystemEntropy
from support.contract_cases import SMALL_CASES
from support.running import within

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "own_oracle.py")
COUNTED = ("p* and q*", "unbiased")


def laws_of(built):
    """Those that it has: filters are decoded, sampled bits are not in every report, seeds are too many to average."""
    averaged = built.encoding.pure and not built.encoding.decoded and built.num_cohorts <= 16
    return [law for law in LAWS if averaged or law not in COUNTED]


@pytest.mark.sampled(60)
@pytest.mark.parametrize(
    ("case", "law"), [(case, law) for case in SMALL_CASES for law in laws_of(case.build())], ids=str
)
def test_every_small_oracle_obeys(case, law):
    decoded = {"is_tight": False} if law == "epsilon" and case.build().encoding.decoded else {}  # some pairs of filters
    assert LAWS[law](case.build(), **decoded)


HEAD = "import overstory\nfrom math import exp\n@overstory.oracle_kind('mine')\n"
BITS = HEAD + "def mine(*, domain_size: int, epsilon: float):\n    p, q = .5, 1 / (exp(epsilon) + 1)\n"
SETS = (
    HEAD
    + "def mine(*, domain_size: int, epsilon: float):\n    kept = exp(epsilon) / (exp(epsilon) + domain_size - 2)\n"
)
BROKEN = {
    "p too large": (BITS + "    return overstory.OwnBits(domain_size, .6, q)", "epsilon", "0.5 is asked for, and 0.9"),
    "own symbol too likely": (
        SETS + "    return overstory.OwnSets([{v} for v in range(domain_size)], domain_size, kept)",
        "epsilon",
        "0.5 is asked for, and 0.9",
    ),
    "q* of another paper": (BITS + "    return overstory.OwnBits(domain_size, p, q, q_star=.3)", "p* and q*", "is 0.3"),
    "biased": (BITS + "    return overstory.OwnBits(domain_size, p, q, q_star=.3)", "unbiased", "the mean estimate is"),
    "a default epsilon": (
        SETS.replace("domain_size: int, epsilon: float", "domain_size=6, epsilon=1.0")
        + "    return overstory.OwnSets([{v} for v in range(domain_size)], domain_size, kept)",
        "epsilon",
        "0.5 is asked for, and 0.",
    ),
    "p* too small": (BITS + "    return overstory.OwnBits(domain_size, p, q, p_star=.49)", "p* and q*", "is 0.49"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_file_that_breaks_a_law_is_found_by_it(broken, tmp_path):
    text, law, numbers = BROKEN[broken]
    (tmp_path / "mine.py").write_text(text)
    ran = within("check-oracle", "mine.py", "--json", cwd=tmp_path)
    checked = json.loads(ran.stdout)
    assert (ran.returncode, checked["holds"]) == (1, False)
    broken_laws = {row["law"]: row["numbers"] for row in reversed(checked["laws"]) if not row["holds"]}
    assert numbers in broken_laws[law]
    assert broken_laws.keys() <= {"epsilon", *COUNTED}


def test_a_mistake_in_a_user_s_function_is_hers_and_has_its_line(tmp_path) -> None:
    (tmp_path / "mine.py").write_text(BITS + "    return overstory.OwnBits(domain_size, p, q / 0)")
    ran = within("check-oracle", "mine.py", cwd=tmp_path)
    assert ran.returncode == 2
    assert "mine.py, line 6: ZeroDivisionError in mine: float division by zero" in ran.stderr


def test_what_all_reports_reveal_is_held_to_what_is_asked_for(tmp_path) -> None:
    text = BITS.replace("epsilon: float", "epsilon_report: float, epsilon_permanent: float").split("    p, q")[0]
    (tmp_path / "mine.py").write_text(text + "    return overstory.OwnBits(domain_size, .99, .01, again=(.6, .5))")
    asked = ("--domain-size", 4, "--epsilon", 1, "--epsilon-permanent", 2, "--reports", 1000)
    ran = within("compare", "mine.py", *asked, cwd=tmp_path)
    assert ran.returncode == 2
    assert "in any number of reports, where 2.0 is asked for" in ran.stderr


def test_an_oracle_that_is_too_large_to_enumerate_is_refused(tmp_path) -> None:
    large = BITS.replace("domain_size: int", "domain_size=40")
    (tmp_path / "mine.py").write_text(large + "    return overstory.OwnBits(domain_size, p, q)")
    ran = within("check-oracle", "mine.py", cwd=tmp_path)
    assert ran.returncode == 2
    assert "mine: 1,099,511,627,776 payloads in 1 cohorts are too many to enumerate" in ran.stderr


OUE = mechanism("oue", domain_size=4, epsilon=1.0)


class Lazy(BitMechanism):
    """Its likelihoods are right, and what it draws is not: bit 0 is the true one."""

    def draw(self, held, cohort, entropy):
        return super().draw(held, cohort, entropy) & ~1 | held & 1


class Leaky(BitMechanism):
    """It says of itself that it reveals less."""

    epsilon_report = 0.9


class Waning(BitMechanism):
    """It says of itself that more reports reveal less."""

    def epsilon_n(self, reports):
        return super().epsilon_n(reports) / (1 + (reports == 100))


class Doubled(BitMechanism):
    """A report has twice its probability."""

    def likelihood(self, report, value):
        return super().likelihood(report, value) * (1 + (report.bits == 1))


class Forgetful(BitMechanism):
    """The permanent response is drawn again whenever it is asked for."""

    def responder(self, secret, metric, cohort):
        return lambda value: self.draw(self.held(value, cohort), cohort, SystemEntropy())


class Silent(BitMechanism):
    """The permanent response follows from the value alone."""

    def responder(self, secret, metric, cohort):
        return super().responder(bytes(32), metric, cohort)


class Renamed(BitMechanism):
    """Each batch names other parameters."""

    @property
    def digest(self):
        return os.urandom(len(super().digest))


BROKEN_KINDS = [
    (Renamed, "wire", "not read as they were written"),
    (Lazy, "frequencies", "reports of value"),
    (Leaky, "epsilon", "0.900000000 is stated"),
    (Waning, "epsilon", "of 1, 2, 5, 100 and any number"),
    (Doubled, "probabilities", "sums to"),
    (Forgetful, "seeds", "two responses to one value"),
    (Silent, "seeds", "there is no noise"),
]


@pytest.mark.parametrize(("kind", "law", "said"), BROKEN_KINDS)
def test_a_mechanism_broken_on_purpose_breaks_its_law(kind, law, said):
    with pytest.raises(Alarm, match=said):
        LAWS[law](kind(OUE.name, OUE.parameters, OUE.encoding, OUE.rounds))


def test_each_oracle_that_is_checked_has_a_false_alarm_rate_of_its_own(monkeypatch):
    """A file of many large oracles made more comparisons together than one rate was divided among."""
    monkeypatch.setattr(Comparisons, "made", MOST_COMPARISONS)
    assert all(holds for _, holds, _ in check_laws(OUE))
    assert Comparisons.made > MOST_COMPARISONS


def test_the_example_obeys_and_takes_part_everywhere(tmp_path):
    ran = within("check-oracle", EXAMPLE, cwd=tmp_path)
    assert (ran.returncode, ran.stdout.count(" holds "), "BROKEN" in ran.stdout) == (0, 4 * len(LAWS), False)
    ranked = within("compare", EXAMPLE, "--domain-size", 7, "--epsilon", 1, "--reports", 1000, cwd=tmp_path)
    assert {line.split()[0] for line in ranked.stdout.splitlines() if line} > {"fano", "three-quarters", "grr"}
    said = within("privacy", f"{EXAMPLE}:fano", "--param", "epsilon=1", cwd=tmp_path)
    assert said.stdout.startswith("fano: epsilon = 1.0")
    asked = ("--param", "epsilon=1", "--reports", 2000)
    audited = within("audit", "--oracle", f"{EXAMPLE}:fano", *asked, cwd=tmp_path)
    assert audited.returncode == 0
    assert "no fault found" in audited.stdout


def test_an_oracle_of_ones_own_is_used_as_any_other():
    load_oracles(EXAMPLE)
    fano = overstory.oracle("fano", epsilon=3)
    reports = fano.simulate([0] * 5000 + [4] * 5000, rng=1)
    estimate = fano.estimate(fano.accumulate(reports))
    assert estimate.frequencies[[0, 4]] == pytest.approx(0.5, abs=0.03)
    assert overstory.oracles()["fano"].startswith("Seven values")
    assert pickle.loads(pickle.dumps(fano.mechanism)).digest == fano.mechanism.digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "registers no oracle"),
        ("def broken(:", "line 1: SyntaxError"),
        ("\nx = 1 / 0", "line 2: ZeroDivisionError"),
        (HEAD.replace("mine", "grr") + "def f(): ...", "grr is an oracle of the library"),
        (HEAD + "def f(*, colour): ...", "give colour a default"),
        (BITS + "    return overstory.OwnBits(domain_size, p, q, p_star=.3, q_star=.3)", "p_star = q_star = 0.3: an"),
        (HEAD + "def f(*, epsilon): return 3", "returns int: return overstory.OwnBits or OwnSets"),
        (
            HEAD + "def f(*, epsilon): return overstory.OwnSets([{0}, {1}, {0}], 3, .9)",
            "values 0 and 2 share 1 outputs",
        ),
        (HEAD + "def f(*, epsilon): return overstory.OwnSets([{0}, {1, 2}], 3, .9)", "value 1 owns 2 outputs"),
    ],
)
def test_a_file_at_fault_is_one_sentence(text, said, tmp_path):
    (tmp_path / "mine.py").write_text(text)
    ran = within("check-oracle", "mine.py", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr


def test_a_column_that_is_not_named_is_said(tmp_path):
    ran = within("compare", EXAMPLE, "data.csv", "--epsilon", 1, "--reports", 1000, cwd=tmp_path)
    assert ran.returncode == 2
    assert "--column missing" in ran.stderr


def test_an_oracle_for_other_values_or_that_reveals_more_is_not_ranked(tmp_path):
    ran = within("compare", EXAMPLE, "--domain-size", 9, "--epsilon", 1, "--reports", 1000, cwd=tmp_path)
    assert ran.stderr == "overstory compare: note: fano is left out: it is not for domain_size = 9, epsilon = 1.0\n"
    (tmp_path / "mine.py").write_text(BROKEN["p too large"][0])
    ran = within("compare", "mine.py", "--domain-size", 4, "--epsilon", 1, "--reports", 1000, cwd=tmp_path)
    assert ran.returncode == 2
    assert "mine reveals epsilon 1.4" in ran.stderr


def test_commands_of_analysis_alone_run_a_file():
    """No device, relay, collector or console can: their packages import no command at all (`make lint`)."""
    runs = grimp.build_graph("overstory").find_modules_that_directly_import("overstory.cli.own_files")
    commands = {"analysis.audit", "analysis.compare", "registry.privacy"}
    assert runs == {f"overstory.cli.{command}" for command in commands}
    with pytest.raises(ParameterError, match="there is no mechanism"):
        mechanism(f"{EXAMPLE}:fano", epsilon=1)
