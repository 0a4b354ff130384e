"""A metric of sets, live: recorded by devices, sent over HTTP, counted in a store, decoded, explained, and shown."""

import math

import pytest

from overstory.cli.main import main
from overstory.client import Outcome
from overstory.client.person.explanation import explain, read_value
from overstory.client.state.state import State
from overstory.privacy.registry.cost import metric_cost
from overstory.protocol.metrics import load_registry, parse_registry
from overstory.protocol.metrics.toml_fields import RegistryError
from support.devices import Clock, device
from support.registry_texts import registry_of

PLUGINS = '{kind = "set", of = ["adblock", "grammar", "vpn", "dark mode"], most = 3, other = "another"}'
SETS = {
    "sampled": {"domain": PLUGINS, "oracle": '"padding-and-sampling"', "parameters": "{epsilon = 4.0}"},
    "hashed": {
        "domain": PLUGINS,
        "oracle": '"padding-and-sampling"',
        "parameters": '{epsilon = 4.0, inner = "olh", length = 2}',
    },
    "bits": {"domain": PLUGINS, "oracle": '"item-bits"', "parameters": "{epsilon = 6.0}"},
}
TEXT = registry_of(SETS, max_values="3", expires="2999-01-01")
REGISTRY = parse_registry(TEXT)


@pytest.mark.parametrize("metric", SETS)
def test_a_device_records_sets_and_the_person_sees_what_they_become(tmp_path, metric):
    clock = Clock()
    client = device(tmp_path, registry=REGISTRY, clock=clock)
    days = [{"adblock", "vpn"}, ["vpn", "adblock"], [], {"unlisted"}, {"grammar"}, "adblock", {"adblock", 3}]
    outcomes = []
    for value in days:
        outcomes.append(client.record(metric, value))
        client.flush()
        clock.tomorrow()
    assert outcomes == [*[Outcome.RECORDED] * 5, *[Outcome.UNFIT] * 2]
    with State(client.paths).snapshot() as rows:
        assert rows.distinct(metric, spare=False) == 3  # another order is no new set, and the fourth is over the cap
    state, built = State(client.paths), REGISTRY[metric]
    seen = explain(state, built, read_value(built, "vpn; adblock"))
    assert seen.known == 1
    assert seen.encoded == "adblock, vpn: symbols {0, 2} of 0 .. 4"
    assert seen.inference.candidates == 1 + 5 + 10 + 10
    assert seen.inference.likeliest[0]["probability"] <= math.exp(seen.inference.epsilon) / 26
    assert (
        math.isclose(sum(one["probability"] for one in seen.inference.likeliest), 1)
        or len(seen.inference.likeliest) == 5
    )
    client.close()


def test_no_cap_is_warned_of_and_a_new_length_is_another_collection(tmp_path, capsys):
    old, new = tmp_path / "old.toml", tmp_path / "new.toml"
    old.write_text(TEXT)
    new.write_text(TEXT.replace("length = 2", "length = 3").replace("most = 3", "most = 2", 1))
    assert main(["metrics", "diff", str(old), str(new)]) in {0, 1}
    printed = capsys.readouterr().out
    assert "hashed" in printed
    assert "sampled" in printed
    uncapped = tmp_path / "uncapped.toml"
    uncapped.write_text(registry_of(SETS, expires="2999-01-01"))
    main(["metrics", "lint", str(uncapped)])
    captured = capsys.readouterr()
    printed = " ".join((captured.out + captured.err).split())
    for metric in load_registry(uncapped).values():
        values = metric_cost(metric).line("values")
        assert values.about.startswith("any number of reports of 32 values and nothing")
        assert values.epsilon == pytest.approx(33 * metric.mechanism.epsilon_permanent)
        assert f"no cap: a device may report all 32 values, which cost {values.amount} together" in printed


@pytest.mark.parametrize(
    ("domain", "oracle", "words"),
    [
        (PLUGINS, "grr", "grr takes symbols, not sets of items: choose one of item-bits, padding-and-sampling"),
        ('{kind = "integers", min = 0, max = 3}', "item-bits", "item-bits takes sets of items, not symbols"),
        (PLUGINS.replace("most = 3", "most = 9"), "item-bits", "most = 9: of 5 items, give a whole number"),
        (PLUGINS.replace("of =", "names ="), "item-bits", "names"),
    ],
)
def test_a_wrong_registry_is_refused_with_what_would_be_right(domain, oracle, words):
    with pytest.raises(RegistryError, match=words):
        parse_registry(registry_of({"m": {"domain": domain, "oracle": f'"{oracle}"', "parameters": "{epsilon = 1.0}"}}))
