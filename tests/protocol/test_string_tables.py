"""Tables of which a variable is any string: values, texts, registries, and what is said to a person."""

import datetime as dt
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.client import Randomizer
from overstory.planning.registry import plan_registry
from overstory.privacy.registry.changes import compare_registries
from overstory.privacy.registry.page import metric_page
from overstory.privacy.registry.warnings import registry_warnings
from overstory.protocol.domains import Categories, Integers, Strings, StringTable, domain_from
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.metrics import RegistryError, load_registry, metric_from_json
from support.registry_texts import registry_of

CRASH = Categories(("no", "yes"))
PAIRS = StringTable((Strings("sites.txt"), CRASH), ("site", "crash"))
TWO_LISTS = '{kind = "strings", candidates = "sites.txt"}, {kind = "strings", candidates = "tools.txt"}'
LISTED = '{kind = "strings", candidates = "sites.txt"}, {kind = "categories", names = ["no", "yes"]}'
FILTER = '{oracle = "rappor", num_bits = 8, num_hashes = 1, num_cohorts = 2}'
BOTH = "{of = [" + FILTER + ', {oracle = "grr", epsilon = 2.0}]}'


def text_of(of: str = LISTED, parameters: str = BOTH, *, more: str = "", **keys: str) -> str:
    domain = f'{{kind = "table", names = ["site", "crash"]{more}, of = [{of}]}}'
    return registry_of({"crashes": {"domain": domain, "oracle": '"joint"', "parameters": parameters, **keys}})


def loaded(folder: Path, text: str, **files: str):
    for name, lines in {"sites": "a.org\nb.org\n", "tools": "vim\nemacs\nother\n", **files}.items():
        folder.joinpath(f"{name}.txt").write_text(lines)
    folder.joinpath("metrics.toml").write_text(text)
    return load_registry(folder / "metrics.toml")


def metric_of(folder: Path, text: str, **files: str):
    return loaded(folder, text, **files)["crashes"]


@given(st.text(max_size=8), st.sampled_from(CRASH.names))
def test_a_label_is_read_as_the_pair_that_it_names(site, crash):
    """Also where the string has commas, but for those that begin the other variable's name."""
    encoded = PAIRS.encode((site, crash))
    if ", crash=" not in site:
        assert PAIRS.encode(PAIRS.read(PAIRS.label(encoded))) == encoded
    assert PAIRS.encode({"crash": crash, "site": site}) == encoded


def test_texts_are_read_at_the_comma_that_fits():
    assert PAIRS.read("a, b, yes") == ("a, b", "yes")
    numbers = StringTable((Integers(0, 9), Strings()), ("count", "site"))
    assert numbers.read("3,a,b") == (3, "a,b")
    both = StringTable((Strings(), Strings()), ("site", "tool"))
    assert both.read("a, vim") == ("a", "vim")
    assert both.read("site=a, b, tool=vim") == ("a, b", "vim")
    with pytest.raises(ParameterError, match="several commas may separate them; write site=VALUE, tool=VALUE"):
        both.read("a, b, vim")
    with pytest.raises(ParameterError, match="no comma separates a value of each"):
        PAIRS.read("a, perhaps")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (("a.org",), "a value each of site, crash, not 1 values"),
        (("a.org", "perhaps"), "crash: 'perhaps' is not a category"),
        ((7, "yes"), "site: this metric takes a string, not int"),
        ({"site": "a.org"}, "crash is missing"),
    ],
)
def test_values_outside_are_refused(value, says):
    with pytest.raises(ParameterError, match=says):
        PAIRS.encode(value)


def test_candidates_change_no_digest_and_no_report(tmp_path):
    metric = metric_of(tmp_path, text_of())
    assert metric.candidate_lists == (("a.org", "b.org"), None)
    longer = metric_of(tmp_path, text_of(), sites="a.org\nb.org\nc.org\n")
    assert (longer.digest, longer.counts_digest) == (metric.digest, metric.counts_digest)
    assert domain_from(json.loads(json.dumps(metric.domain.to_json()))) == metric.domain
    again = metric_from_json(json.loads(json.dumps(metric.to_json())))
    assert again.to_json() == metric.to_json()
    unread = load_registry(tmp_path / "metrics.toml", read_candidates=False)["crashes"]
    assert unread.candidate_lists == ()
    assert unread == again


def test_two_metrics_and_two_variables_hash_strings_differently(tmp_path):
    metric = metric_of(tmp_path, text_of(TWO_LISTS, f"{{of = [{FILTER}, {FILTER}]}}"))
    keys = [part.parameters["hash_key"] for part in metric.mechanism.components]
    assert keys == ["crashes[0]", "crashes[1]"]


def test_a_change_of_one_variable_redraws_nothing_of_the_other(tmp_path):
    metric = metric_of(tmp_path, text_of())
    device = Randomizer(metric.mechanism, secret=bytes(16), metric=metric.id, memo_size=0)
    permanents = [device.permanent(metric.encode(value)) for value in (("a.org", "no"), ("a.org", "yes"))]
    sites = {metric.mechanism.payloads(permanent)[0] for permanent in permanents}
    assert len(sites) == 1


@pytest.mark.parametrize(
    ("of", "parameters", "more", "says"),
    [
        (LISTED.replace('"sites.txt"', "7"), BOTH, "", "domain 1: candidates = 7: give the name of a file"),
        (LISTED.replace("sites", "none"), BOTH, "", "none.txt: cannot be read"),
        (f"{LISTED}, {LISTED}", BOTH, "", "names has 2 names for 4 variables"),
        (LISTED, BOTH, ', tables = "all pairs"', "devices are divided over tables of listed values"),
        (LISTED, f"{{of = [{FILTER}, {FILTER}]}}", "", "rappor takes strings, and this variable has 2 values"),
        (LISTED, BOTH.replace(FILTER, '{oracle = "grr", epsilon = 1.0}'), "", "grr takes symbols, and this variable"),
        (LISTED, BOTH.replace(FILTER, '{oracle = "olh", epsilon = 1.0}'), "", "cannot link olh"),
        (LISTED, "{epsilon = 1.0}", "", "joint"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_registry_is_named_once(tmp_path, of, parameters, more, says):
    with pytest.raises(RegistryError, match=says) as caught:
        loaded(tmp_path, text_of(of, parameters, more=more))
    assert len(caught.value.faults) == 1


def test_three_variables_cannot_be_linked(tmp_path):
    with pytest.raises(ParameterError, match="strings are linked with one other variable"):
        StringTable((Strings(), CRASH, CRASH), ("a", "b", "c"))
    with pytest.raises(ParameterError, match="no variable takes strings"):
        StringTable((CRASH, CRASH), ("a", "b"))
    loaded(tmp_path, text_of())
    with pytest.raises(FormatError, match=r"no plan is made for pairs of values: give an oracle \(joint\)"):
        plan_registry(needs(text_of()), tmp_path)


def test_devices_divided_over_tables_have_no_plan_either():
    categories = '{kind = "categories", names = ["no", "yes"]}'
    domain = f'{{kind = "table", names = ["a", "b"], tables = "all pairs", of = [{categories}, {categories}]}}'
    text = registry_of({"crashes": {"domain": domain, "oracle": '"divided"', "parameters": "{}"}})
    with pytest.raises(FormatError, match="no plan is made for combinations, divided over tables"):
        plan_registry(needs(text), None)


def needs(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith(("oracle", "parameters"))]
    return "\n".join([*lines, "needs = {epsilon_report = 1.0, reports = 10000}", ""])


def test_the_page_the_warnings_and_the_diff(tmp_path):
    registry = loaded(tmp_path, text_of())
    facts = dict(metric_page(registry["crashes"]).facts)
    assert facts["What a report can be about"].startswith("site, crash together (a change of any of them")
    assert "site: any text, hashed" in facts["What a report can be about"]
    longer = loaded(tmp_path, text_of(), sites="a.org\nb.org\nc.org\n")
    (change,) = compare_registries(registry, longer)
    assert (change.what, change.detail) == ("candidates", "stored counts can be decoded again with the new list")
    other = loaded(tmp_path, text_of(LISTED.replace('["no", "yes"]', '["yes", "no"]')))
    kinds = {change.kind.value for change in compare_registries(registry, other)}
    assert kinds >= {"breaks-counts", "weakens-privacy"}
    without = f'opt_out = "o"\n{text_of(LISTED.replace(", candidates = " + chr(34) + "sites.txt" + chr(34), ""))}'
    text = without + 'publish = "estimates"\n'
    warned = registry_warnings(loaded(tmp_path, text), text, dt.date(2026, 11, 23))
    assert any("strings without a file of candidates" in fault.message for fault in warned)
