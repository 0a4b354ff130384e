"""``overstory privacy`` and ``overstory compare --numeric`` for what takes numbers."""

import json

import pytest

from overstory.cli import main as command_line
from overstory.privacy import statement
from overstory.protocol.metrics.mechanisms import FAMILIES, any_mechanism


def run(capsys, *arguments):
    status = command_line.main([*map(str, arguments)])
    return status, *capsys.readouterr()


@pytest.mark.parametrize("name", sorted([*FAMILIES["numbers"].builders, "ranges"]))
def test_privacy_of_every_name(capsys, name):
    given = {"epsilon": 1.5} | ({"domain_size": 64} if name == "ranges" else {"minimum": -2.0, "maximum": 5.0})
    options = [text for key, value in given.items() for text in ("--param", f"{key}={value}")]
    said = statement(any_mechanism(name, **given))
    status, out, err = run(capsys, "privacy", name, *options, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(said.to_json()))
    status, out, err = run(capsys, "privacy", name, *options)
    words = " ".join(out.split())
    assert (status, err) == (0, "")
    assert all(" ".join(claim.caution.split()) in words for claim in said.claims if claim.caution)
    assert any(claim.caution for claim in said.claims)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("duchi", "--param", "epsilon=much"), "--param epsilon=much: give a number"),
        (("duchi", "--param", "resolution=2.5"), "--param resolution=2.5: give a whole number"),
        (("duchi",), "duchi needs the parameter epsilon"),
        (("duchi", "--param", "epsilon=1", "--param", "outside=wrap"), "outside = 'wrap': choose clamp or reject"),
        (("dutchi",), "there is no mechanism 'dutchi'; did you mean duchi? choose one of"),
        ((), "piecewise"),
    ],
)
def test_privacy_says_what_is_wrong(capsys, arguments, says):
    status, out, err = run(capsys, "privacy", *arguments)
    assert (status, out) == (2, "")
    assert says in err


def test_the_error_of_a_mean_at_equal_privacy(capsys):
    status, out, err = run(capsys, "compare", "--numeric", -1, 1, "--epsilon", 1, "--reports", 10**4, "--json")
    assert (status, err) == (0, "")
    read = json.loads(out)
    rows = {row["name"]: row for row in read["randomizers"]}
    assert set(rows) == set(FAMILIES["numbers"].builders)
    assert read["randomizers"] == sorted(read["randomizers"], key=lambda row: row["worst"])
    for name, row in rows.items():
        built = any_mechanism(name, epsilon=1.0, minimum=-1.0, maximum=1.0)
        assert row["middle"] == pytest.approx((float(built.variance(0)) / 10**4) ** 0.5)
        assert row["end"] == pytest.approx((float(built.variance(1)) / 10**4) ** 0.5)
        assert row["epsilon_report"] <= 1
    assert rows["duchi"]["report_bits"] == 1
    status, out, _ = run(capsys, "compare", "--numeric", -1, 1, "--epsilon", 1, "--reports", 10**4)
    assert status == 0
    assert out.splitlines()[1].split() == ["hybrid", "2.071e-02", "2.071e-02", "22"]


def test_errors_grow_with_the_range_and_never_overflow(capsys):
    def errors(low, high):
        status, out, _ = run(capsys, "compare", "--numeric", low, high, "--epsilon", 1, "--reports", 10**4, "--json")
        assert status == 0
        return {row["name"]: row["worst"] for row in json.loads(out)["randomizers"]}

    small, large = errors(0, 1), errors(0, 1e200)
    assert large == pytest.approx({name: 1e200 * error for name, error in small.items()}, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--numeric", -(10**308), 10**308, "--reports", 5), "too large for floats"),
        (("--numeric", 1, 0, "--reports", 5), "not below maximum"),
        (("--numeric", 0, 1), "--numeric needs --reports N"),
        (("--numeric", 0, 1, "--reports", 0), "--numeric needs --reports N"),
        (("--numeric", 0, 1, "--reports", 5, "--domain-size", 4), "--numeric goes with"),
        (("--numeric", 0, 1, "--reports", 5, "--plot", "a.svg"), "--numeric goes with"),
        (("--numeric", 0, "nan", "--reports", 5), "maximum = nan"),
    ],
)
def test_compare_says_what_is_wrong(capsys, arguments, says):
    status, out, err = run(capsys, "compare", "--epsilon", 1, *arguments)
    assert (status, out) == (2, "")
    assert says in err
