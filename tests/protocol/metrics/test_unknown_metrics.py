"""Unknown strings and integers in a registry: what is read, what is refused, and what a device reads as well."""

import pytest

from overstory.protocol.domains import domain_from
from overstory.protocol.domains.codes import ELSEWHERE, unknown_integers, unknown_strings
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import RegistryError, load_registry, parse_registry
from overstory.protocol.metrics.metric_table import metric_from_json
from support.registry_texts import registry_text, the_fault

KINDS = {
    "strings": ('{kind = "unknown-strings", max_bytes = 10}', "oak"),
    "an alphabet": ('{kind = "unknown-strings", max_bytes = 10, alphabet = "abcdefghijklmnop"}', "oak"),
    "expected strings": ('{kind = "unknown-strings", max_bytes = 10, known = ["oak", "elm"]}', "elm"),
    "integers": ('{kind = "unknown-integers", bits = 20}', 443),
    "expected integers": ('{kind = "unknown-integers", bits = 20, known = [80, "443"]}', 443),
}


def read(domain, parameters="{epsilon = 2.0}", oracle="prefix-search", **differences):
    text = registry_text(metric="word", domain=domain, oracle=oracle, parameters=parameters, **differences)
    return parse_registry(text)["word"]


@pytest.mark.parametrize(("domain", "value"), KINDS.values(), ids=KINDS)
def test_each_kind_is_read_and_read_again_from_the_public_registry(domain, value):
    metric = read(domain)
    assert metric.domain.label(metric.encode(value)) == str(value)
    assert metric.reading == "search"
    again = metric_from_json(metric.to_json())
    assert again == metric
    assert again.digest == metric.digest
    assert domain_from(metric.domain.canonical()) == metric.domain
    assert metric.mechanism.plan.known == {metric.encode(metric.domain.read(text)) for text in metric.domain.known}


@pytest.mark.parametrize(
    ("domain", "without_code", "of_another_type"),
    [
        (unknown_strings(3), ["oaks"], [7, None]),
        (unknown_strings(3, alphabet="abc"), ["abx", "aaaa"], [7]),
        (unknown_integers(8), [256, -1], ["7", True]),
    ],
)
def test_a_value_without_a_code_is_elsewhere_and_one_of_another_type_refused(domain, without_code, of_another_type):
    assert {domain.encode(value) for value in without_code} == {ELSEWHERE}
    assert domain.label(ELSEWHERE) == "a value that the search does not cover"
    for value in of_another_type:
        with pytest.raises(ParameterError, match="is no "):
            domain.encode(value)


def write(folder, domain, trees):
    (folder / "trees.txt").write_text(trees)
    path = folder / "metrics.toml"
    path.write_text(registry_text(metric="word", domain=domain, oracle="prefix-search", parameters="{epsilon = 2.0}"))
    return path


@pytest.mark.parametrize(
    ("domain", "differences", "message"),
    [
        ('{kind = "unknown-strings", max_bytes = 99}', {}, "max_bytes"),
        ('{kind = "unknown-strings", bits = 9}', {}, "no such key"),
        ('{kind = "unknown-integers", bits = 65}', {}, "bits"),
        ('{kind = "unknown-integers", bits = 8, known = [300]}', {}, "known: 300 is outside the domain"),
        ('{kind = "unknown-strings", known = ["a", "a"]}', {}, "known: a value comes twice"),
        ('{kind = "unknown-strings", known = [1.5]}', {}, "known: give a list of values"),
        ('{kind = "unknown-strings", known = "list.txt"}', {}, "cannot be read"),
        ('{kind = "unknown-strings"}', {"oracle": "olh"}, "olh takes symbols or strings, not values that nobody"),
        ('{kind = "categories", names = ["a", "b"]}', {}, "prefix-search takes values that nobody listed, not symbols"),
        ('{kind = "unknown-strings"}', {"parameters": "{epsilon = 2.0, waves = 2}"}, "waves"),
        ('{kind = "unknown-strings"}', {"parameters": "{epsilon = 2.0, values = 3}"}, "the domain says"),
        ('{kind = "unknown-strings"}', {"instead": {"retention_days": "retention_days = 0"}}, "keep them for a day"),
    ],
)
def test_what_cannot_be_is_one_fault(tmp_path, domain, differences, message):
    (tmp_path / "trees.txt").write_text("oak\n")
    given = {"oracle": "prefix-search", "parameters": "{epsilon = 2.0}"} | differences
    assert message in the_fault(registry_text(metric="word", domain=domain, **given), tmp_path).message


def test_expected_values_may_be_in_a_file_and_a_device_reads_it_too(tmp_path):
    path = write(tmp_path, '{kind = "unknown-strings", max_bytes = 6, known = "trees.txt"}', "oak\nelm\n")
    server, device = load_registry(path)["word"], load_registry(path, read_candidates=False)["word"]
    listed = read('{kind = "unknown-strings", max_bytes = 6, known = ["oak", "elm"]}')
    assert server == device
    assert server.digest == device.digest == listed.digest
    (tmp_path / "trees.txt").write_text("oak\nelm\nash\n")
    assert load_registry(path)["word"].digest != listed.digest
    (tmp_path / "trees.txt").unlink()
    with pytest.raises(RegistryError, match="cannot be read"):
        load_registry(path, read_candidates=False)
