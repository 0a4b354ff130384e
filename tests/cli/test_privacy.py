"""``overstory privacy``: every oracle, RAPPOR's files, which metric is meant, a script's JSON, bad input."""

import json
from pathlib import Path

import pytest

from overstory.cli import main as command_line
from overstory.files.rappor import RapporParameters, write_params
from overstory.presentation.formats import epsilon_text
from overstory.privacy import statement
from overstory.protocol.kinds.registry import FAMILIES, REGISTRY, any_mechanism, mechanism
from support.privacy_cases import some_parameters
from support.running import within


def run(capsys, *arguments):
    status = command_line.main(["privacy", *map(str, arguments)])
    return status, *capsys.readouterr()


RANGE, SIZE = {"epsilon": 1.5, "minimum": -2.0, "maximum": 5.0}, {"epsilon": 1.5, "domain_size": 64}
BUILT = dict.fromkeys(FAMILIES["numbers"], (any_mechanism, RANGE)) | {"ranges": (any_mechanism, SIZE)}
BUILT |= {name: (mechanism, some_parameters(name)) for name in REGISTRY}


@pytest.mark.parametrize("name", sorted(BUILT))
def test_every_oracle_has_its_report(capsys, name):
    build, given = BUILT[name]
    said = statement(build(name, **given))
    options = [text for key, value in given.items() for text in ("--param", f"{key}={value}")]
    status, out, err = run(capsys, name, *options, "--json")
    assert (status, err) == (0, "")
    assert json.loads(out) == json.loads(json.dumps(said.to_json()))
    status, out, err = run(capsys, name, *options)
    assert (status, err) == (0, "")
    assert f" {epsilon_text(said.epsilon_report)} " in out
    words = " ".join(out.split())
    assert all(" ".join(claim.assumption.split()) in words for claim in said.claims)
    assert all(" ".join(claim.caution.split()) in words for claim in said.claims if claim.caution)


@pytest.fixture
def params(tmp_path):
    path = tmp_path / "params.csv"
    write_params(path, RapporParameters(k=128, h=2, m=16, p=0.5, q=0.75, f=0.5))
    return path


def test_windows_and_what_has_no_bound(capsys):
    options = ("wb", "--param", "domain_size=5", "--param", "epsilon=1", "--param", "window=4")
    _, out, _ = run(capsys, *options)
    assert "whatever you hold and however it changes: 4 reports" in out
    assert "at delta 1e-06" in out
    assert "no bound" in out
    _, out, _ = run(capsys, *options, "--delta", "0.001", "--json")
    assert json.loads(out)["delta"] == 0.001


# --- metrics
EXAMPLE = Path(__file__).parents[2] / "examples" / "metrics.toml"


def test_a_metric_of_a_registry_is_stated_with_its_year(tmp_path):
    (tmp_path / "metrics.toml").write_bytes(EXAMPLE.read_bytes())  # its candidate files are not needed
    ran = within("privacy", "meter-memo", "--registry", "metrics.toml", cwd=tmp_path)
    assert ran.returncode == 0
    about, year, oracle = ran.stdout.split("\n\n")[:3]
    often = "one report every 30 minutes, of at most 6 values, until 2027-11-21"
    assert about == f"meter-memo: Energy of half an hour, for years, {often}"
    assert "whatever you hold and however it changes, in the first year: " in year
    assert oracle.startswith("l-osue:")
    panel = within("privacy", "theme", "--registry", "metrics.toml", cwd=tmp_path).stdout
    assert panel.startswith("theme: Colour theme, 1 answer a year, shared, until ")
