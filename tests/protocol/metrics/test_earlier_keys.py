"""A key under its name of version 0.1: read for one version, with a warning, and no digest follows the name."""

import logging

import pytest

from overstory.protocol.errors import FormatError
from overstory.protocol.metrics import RegistryError, load_registry, metric_from_json, parse_registry
from support.registry_texts import registry_text

CAP = "max_values = 2"
EARLIER, TODAY = registry_text(CAP, 'beyond = "drop"'), registry_text(CAP, 'over_cap = "drop"')


@pytest.mark.parametrize(
    ("text", "of_registry", "of_metric"),
    [
        (registry_text(), "5a704a747220258fb0fc11102cb72c55", "5105b02cbebcd8110162cce4ef5a6d2c"),
        (EARLIER, "2af6034052be09bc3a3fecfecf4e993f", "f235205eee30771647e62d31894ff115"),
        (TODAY, "2af6034052be09bc3a3fecfecf4e993f", "f235205eee30771647e62d31894ff115"),
    ],
    ids=["neither key", "the earlier key", "the key"],
)
def test_digests_are_those_of_version_0_1(text, of_registry, of_metric):
    registry = parse_registry(text)
    assert (registry.digest.hex(), registry["colour"].digest.hex()) == (of_registry, of_metric)


def test_the_earlier_key_means_the_same():
    assert parse_registry(EARLIER) == parse_registry(TODAY)
    assert parse_registry(EARLIER)["colour"].over_cap == "drop"


@pytest.mark.parametrize("values", [("drop", "drop"), ("first", "nearest")])
def test_both_keys_at_once_are_a_fault(values):
    text = registry_text(CAP, f'beyond = "{values[0]}"', f'over_cap = "{values[1]}"')
    with pytest.raises(RegistryError) as caught:
        parse_registry(text)
    (fault,) = caught.value.faults
    assert text.splitlines()[fault.line - 1] == f'beyond = "{values[0]}"'
    assert fault.field == "metrics.colour.beyond"
    assert "over_cap" in fault.message


@pytest.mark.parametrize("wrong", ['"keep"', '"nearest"', "7"])
def test_a_fault_of_its_value_is_named_by_the_key_that_is_written(wrong):
    with pytest.raises(RegistryError) as caught:
        parse_registry(registry_text(CAP, f"beyond = {wrong}"))
    assert caught.value.faults[0].field == "metrics.colour.beyond"


def test_a_file_with_the_earlier_key_is_loaded_with_a_warning_in_the_log(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    file = tmp_path / "metrics.toml"
    file.write_text(TODAY.replace("theme.", "theme, beyond doubt."))
    load_registry(file)
    assert not caplog.records
    file.write_text(EARLIER)
    load_registry(file)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("overstory.registry", "WARNING")
    assert record.getMessage() == f"{file}: metrics.colour.beyond is version 0.1's name of over_cap: rename the key"


def test_a_public_entry_of_an_earlier_collector_is_read():
    metric = parse_registry(TODAY)["colour"]
    entry = metric.to_json()
    assert "beyond" not in entry
    earlier = {("beyond" if key == "over_cap" else key): value for key, value in entry.items()}
    assert metric_from_json(earlier) == metric_from_json(entry) == metric
    with pytest.raises(FormatError, match="over_cap"):
        metric_from_json(entry | {"beyond": "drop"})
