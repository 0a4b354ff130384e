"""Whether a report is sent, when, and how long it is: the same for every history of values."""

import math

import pytest

from overstory.client import Outcome
from overstory.client.session import Session
from overstory.client.state.files import StatePaths
from overstory.client.state.state import State
from overstory.client.upload.http import Response
from overstory.privacy.registry.cost import metric_cost
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import REGISTRY, mechanism
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.upload import decode_uploads
from support.collector_doubles import accepted
from support.devices import DAY, NOON, Clock, device
from support.privacy_cases import toml_parameters
from support.registry_texts import plain_registry

STRINGS = ("rappor", "rappor-one-time")
HISTORIES = {
    "unchanged": (1, 1, 1, 1),
    "changing": (1, 2, 1, 2),
    "past the cap": (1, 2, 3, 4),
    "outside the domain": (1, 99, None, [2]),
    "outside from the first": (float("nan"), 1, 2, "seven"),
}


def registry_of(oracle, over_cap, size=8):
    numbers = f'{{kind = "integers", min = 0, max = {size - 1}, outside = "reject"}}'
    domain = '{kind = "strings"}' if oracle in STRINGS else numbers
    keys = {"oracle": f'"{oracle}"', "parameters": toml_parameters(oracle)}
    keys |= {"max_values": "2", "over_cap": f'"{over_cap}"'}
    return parse_registry(plain_registry("m", domain=domain, **keys))


def seen_by_the_network(folder, registry, values):
    clock, seen = Clock(), []

    def transport(request):
        (upload,) = decode_uploads(request.body, 1)
        seen.append((clock.now, upload.period, len(request.body)))
        return Response(200, {}, accepted(request.body))

    sends = {"server": "https://example.org", "transport": transport, "spread": 0}
    said = []
    with device(folder, registry=registry, clock=clock, **sends) as client:
        for value in values:
            said.append(client.record("m", value))
            client.flush()
            clock.tomorrow()
    return seen, said


def held(oracle, values):
    """The history in the oracle's own type; what is outside stays outside."""
    if oracle not in STRINGS:
        return values
    return tuple(f"v{value}" if isinstance(value, int) and value < 90 else None for value in values)


def rules():
    """Every oracle with every rule of what it takes beyond its cap; one rule of each is looked at in every run."""
    for number, oracle in enumerate(REGISTRY):
        possible = ("first", "drop") if oracle in STRINGS else ("first", "drop", "nearest")
        for over_cap in possible:
            often = over_cap == possible[number % len(possible)]
            yield pytest.param(oracle, over_cap, marks=[] if often else [pytest.mark.slow])


@pytest.mark.parametrize(("oracle", "over_cap"), list(rules()))
def test_the_presence_of_a_report_says_nothing_of_the_value(tmp_path, oracle, over_cap):
    registry = registry_of(oracle, over_cap)
    uploads = {
        name: seen_by_the_network(tmp_path / str(number), registry, held(oracle, values))[0]
        for number, (name, values) in enumerate(HISTORIES.items())
    }
    expected = [(NOON + day * DAY, int(NOON // DAY) + day) for day in range(4)]
    assert [entry[:2] for entry in uploads["unchanged"]] == expected
    assert all(seen == uploads["unchanged"] for seen in uploads.values())


def test_the_check_catches_a_device_that_falls_silent(tmp_path, monkeypatch):
    """The device as it was: a value past the cap is not reported."""
    record = Session.record

    def silent(self, metric, value, now, allowed):
        outcome = record(self, metric, value, now, allowed)
        if outcome in (Outcome.CAPPED, Outcome.UNFIT):
            self._pending.pop()
        return outcome

    monkeypatch.setattr(Session, "record", silent)
    registry = registry_of("grr", "drop")
    seen = [seen_by_the_network(tmp_path / n, registry, HISTORIES[n])[0] for n in ("unchanged", "past the cap")]
    assert seen[0] != seen[1]


def test_the_program_is_told_what_was_reported_as_nothing(tmp_path):
    said = seen_by_the_network(tmp_path, registry_of("grr", "drop"), (1, 2, 3, 99, 1))[1]
    assert said == [Outcome.RECORDED, Outcome.RECORDED, Outcome.CAPPED, Outcome.UNFIT, Outcome.RECORDED]


def test_past_the_last_step_the_nearest_is_the_first(tmp_path):
    """A domain larger than the walk: a value far from all that were reported."""
    registry = registry_of("grr", "nearest", size=20_000)
    far = seen_by_the_network(tmp_path / "far", registry, (0, 1, 19_000, 12_000, 0))
    near = seen_by_the_network(tmp_path / "near", registry, (0, 1, 1, 1, 0))
    assert [entry[:2] for entry in far[0]] == [entry[:2] for entry in near[0]]
    assert far[1] == [Outcome.RECORDED] * 5


def responses(folder):
    with State(StatePaths(folder / "state")).snapshot() as rows:
        return rows.responses("m")


@pytest.mark.parametrize(("over_cap", "most"), [("first", 2), ("nearest", 2), ("drop", 3)])
def test_nothing_is_one_response_and_a_lifetime_counts_it(tmp_path, over_cap, most):
    """D is at most the cap; where values are dropped, one more."""
    registry = registry_of("grr", over_cap)
    values = (None, 1, 99, 2, [], 3, 4, None, 2, 1)
    seen_by_the_network(tmp_path, registry, values)
    assert len(responses(tmp_path)) == registry["m"].max_responses == most
    line = metric_cost(registry["m"]).line("values")
    assert math.isclose(line.epsilon, most * 1.0, rel_tol=1e-8)
    assert ("and nothing" in line.about) == (over_cap == "drop")


def test_without_a_cap_a_lifetime_counts_nothing_beside_the_domain(tmp_path):
    numbers = '{kind = "integers", min = 0, max = 2, outside = "reject"}'
    registry = parse_registry(plain_registry("m", domain=numbers))
    seen_by_the_network(tmp_path, registry, (0, 1, 2, 9, 0))
    assert len(responses(tmp_path)) == 4
    assert math.isclose(metric_cost(registry["m"]).line("values").epsilon, 4.0, rel_tol=1e-8)


@pytest.mark.parametrize(("oracle", "truth"), [("oue", (1000, 1000, 1000, 0)), ("grr", (1250, 1250, 1250, 250))])
def test_nothing_adds_to_no_bit_and_evenly_to_symbols(oracle, truth):
    """Of 4,000 devices a quarter holds nothing: of symbols each value gains 1/k of the share, of bits none does."""
    built, devices, counts = mechanism(oracle, domain_size=4, epsilon=3.0), 4000, [0] * 4
    for number in range(devices):
        secret, value = number.to_bytes(16, "big"), number % 4
        sent = built.nothing(secret, "m", 0) if value == 3 else built.responder(secret, "m", 0)(value)
        for place in range(4):
            counts[place] += built.supports(Report(0, sent), place)
    p, q = float(built.p_star), float(built.q_star)
    estimates = [(count - devices * q) / (p - q) for count in counts]
    spread = math.sqrt(devices * max(p * (1 - p), q * (1 - q))) / (p - q)
    assert all(abs(estimate - true) < 5 * spread for estimate, true in zip(estimates, truth, strict=True))
