"""What a reviewer is warned of in a registry without faults: one table of registries and of what is said of them."""

import datetime as dt

import pytest

from overstory.privacy.attacks import linkability
from overstory.privacy.registry.warnings import registry_notes, registry_warnings
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from support.devices import DEFAULT, OBLIVIOUS, oblivious_registry
from support.oblivious_receiver import Receiver
from support.registry_texts import example_text, plain_registry
from support.running import within

TODAY = dt.date(2026, 11, 21)
REASON = 'yearly_reason = "It tells of nobody what all do not know."'
PANEL = 'panel = {cycle = "year", answers = 1}'
TWO_ROUNDS = {"oracle": '"l-grr"', "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}"}
ONCE = {"oracle": '"grr"', "parameters": "{epsilon = 1.0}"}
BINS = '{kind = "bins", min = 0, max = 2, count = 10, outside = "clamp"}'
WINDOW = {"domain": BINS, "oracle": '"opt-wb"', "parameters": "{epsilon = 1.0, window = 9}"}
RAPPOR = {"domain": '{kind = "strings"}', "oracle": '"rappor"', "parameters": "{}"}
MANY_ROWS = ONCE | {"domain": '{kind = "integers", min = 0, max = 1999}', "oracle": '"hadamard"'}


def of(*more, **instead):
    return example_text(*more, REASON, **TWO_ROUNDS | instead)


def published(*more, **instead):
    return 'opt_out = "Settings"\n' + of('publish = "estimates"', *more, **instead)


NO_PLACE = "is reported as nothing, which takes one of these places"
ONE_METRIC = [  # a registry, and the fields that are warned of with a part of what is said
    (of(), {}),
    (of(expires="2026-11-21"), {"expires": "expired on 2026-11-21"}),
    (of(expires="2026-11-22"), {"expires": "expires in 1 day, on 2026-11-22"}),
    (of(expires="2026-12-21"), {"expires": "expires in 30 days"}),
    (of(expires="2026-12-22"), {}),
    (of("max_values = 2"), {"max_values": NO_PLACE}),
    (of("max_values = 2", 'over_cap = "drop"'), {}),
    (of("max_values = 3"), {"max_values": NO_PLACE}),
    (of("max_values = 3", 'over_cap = "drop"'), {"max_values": "has no effect: the domain has 3 values"}),
    (of("max_values = 4"), {"max_values": "has no effect: the domain has 3 values"}),
    (of("max_values = 3", **WINDOW), {"max_values": "all noise is drawn afresh"}),
    (of(**WINDOW), {}),
    (of(**RAPPOR), {"max_values": "no cap: what one device may reveal by ever new values is without bound"}),
    (of("max_values = 9", **RAPPOR), {}),
    (published("publish_least = 20"), {"publish_least": "estimates of 20 reports are close to the reports: 100 are"}),
    (published("max_values = 9", **RAPPOR), {"publish": "strings without a file of candidates have no estimates to"}),
    (published(), {}),
    (of(**TWO_ROUNDS | {"oracle": '"loloha"'}), {}),
    (of(**ONCE | {"period": '"week"', "expires": "2026-11-22"}), {"expires": "expires in 1 day"}),  # one report
]


SEARCH = {"domain": '{kind = "unknown-strings", max_bytes = 12}', "oracle": '"prefix-search"'}
SEARCH |= {"parameters": "{epsilon = 3.0}"}
ONE_METRIC += [
    (of(**SEARCH), {}),
    (of("max_values = 3", **SEARCH), {}),
]


def always_the_same(oracle):
    words = linkability(mechanism(oracle, domain_size=3, epsilon=1.0)).unchanged_words()
    return f"an unchanged value always sends the same report ({words}), and two different ones prove a change; "


ONE_ROUND = ("grr", "oue", "sue", "subset", "olh", "blh", "hadamard", "projective", "dbitflip")
ONE_METRIC += [(of(**ONCE | {"oracle": f'"{name}"'}), {"oracle": always_the_same(name)}) for name in ONE_ROUND]
HIDES = "of a million devices {} it){}: an oracle with at most 1,024 hides a device among many"
FEW = "; after retention_days a count of fewer than 10 reports is deleted"
ONE_METRIC += [
    (of(**ONCE | {"oracle": '"linear-hash"'}), {"oracle": "", "parameters": HIDES.format("1 shares", "")}),
    (of(**MANY_ROWS), {"oracle": "", "parameters": HIDES.format("489 share", FEW)}),
]

OFTEN = example_text(
    'panel = "none"', 'attribute = "tint"', oracle='"opt-wb"', parameters="{epsilon = 0.05, window = 1}"
)
ALWAYS = "\n\n" + OFTEN.partition("\n\n")[2].replace("colour", "often")
OTHER = EXAMPLE[EXAMPLE.index("[metrics") :].replace("colour", "other")
YEAR = (
    "epsilon 55.5, whatever you hold and however it changes, in the first year, most of it by 54 reports of "
    'colour; with panel = {cycle = "year", answers = 1}, and no max_values, epsilon 1; or give yearly_reason, '
    "why a metric needs more"
)


def limited(budget, more="", epsilon=4.0):
    panel = example_text('attribute = "tint"', parameters=f"{{epsilon = {epsilon}}}")
    return f"{PANEL}\nbudget = {budget}\n{panel}{more}"


A_YEAR = [  # the same of what a year tells, and of budgets; "a budget bounds a year, too"
    (example_text(**TWO_ROUNDS), {"panel": YEAR}),
    (example_text(PANEL, **TWO_ROUNDS), {}),
    (example_text(REASON, **TWO_ROUNDS), {}),
    (example_text(REASON, OTHER, **TWO_ROUNDS), {"panel": "reports of other"}),
    ("budget = {epsilon = 8.0}\n" + example_text(**TWO_ROUNDS), {}),
    ("budget = {epsilon = 8.1}\n" + example_text(**TWO_ROUNDS), {"panel": "epsilon 8.1, "}),
    (
        f"{PANEL}\n" + example_text(parameters="{epsilon = 9.0}"),
        {"panel": "epsilon 9, and an oracle with less: up to 8;"},
    ),
    (limited('{epsilon = 4.0, per = "year"}'), {}),
    (
        limited('{epsilon = 4.0, per = "year"}', ALWAYS),
        {"budget": "a year's reports cost epsilon 6.7, and the budget allows 4: "},
    ),
    (limited('{epsilon = 7.0, per = "year"}', ALWAYS), {}),
    (
        limited('{epsilon = 9.0, per = "year", attributes = {tint = 4.0}}', ALWAYS),
        {"budget": "a year's reports of tint cost epsilon 6.7"},
    ),
    (limited("{epsilon = 40.0}"), {"budget": "epsilon 40 is for all years together: "}),
]


def grouped(shares='{"1.0" = 0.6, "1.1" = 0.3}', more="", devices=500_000, **keys):
    groups = f'{{by = "release", shares = {shares}, devices = {devices}{more}}}'
    return plain_registry("m", groups=groups, **keys)


HASHED = {"oracle": '"olh"', "parameters": "{epsilon = 1.0, num_seeds = 256}"}
A_FEW = "the rarest group has about 7.8 in a period for each of 256 cohorts or seeds"
GROUPS = [
    (grouped(), {}),
    (grouped(devices=20_000), {}),
    (grouped(**HASHED), {}),
    (grouped(devices=20_000, **HASHED), {"retention_days": A_FEW}),
    (grouped(more=", floor = 50"), {"groups": "floor = 50: the group is sent in clear"}),
    (grouped('{"1.0" = 0.6, "1.1" = 0.4}'), {"groups": "the shares leave no device for 'other'"}),
]

FIRST, SECOND, THIRD = Receiver(key_id=1), Receiver(key_id=2), Receiver(key_id=3)
RELAY = "https://relay.example.net/"
OF_P256 = bytes.fromhex("0045" + "02" + "0010" + "04" * 64 + "00" * 2)


def relayed(relay=RELAY, keys=FIRST.keys):
    return oblivious_registry(relay, keys).text


UNUSABLE = "devices can use none of these, so that nothing is sent"
RELAYS = [  # the same, and the collector's address; of the relay alone
    (relayed("http://relay.example.net/"), None, {"relay": "over plain http anybody on the way sees who sends"}),
    (relayed(), "https://relay.example.net:8443", {"relay": "this is the collector's own host"}),
    (relayed(keys=OF_P256), None, {"keys": UNUSABLE}),
    (relayed(keys=Receiver(ciphers=(1,)).keys), None, {"keys": UNUSABLE}),
    (relayed(keys=FIRST.keys + SECOND.keys + THIRD.keys), None, {"keys": "3 keys, where a rotation needs 2"}),
    (relayed(keys=FIRST.keys + Receiver(key_id=1).keys), None, {"keys": "two keys have one id"}),
    (
        relayed().replace(OBLIVIOUS, ""),
        None,
        {"oblivious": 'no metric has transport = "oblivious": nothing goes through'},
    ),
    (relayed(), "http://127.0.0.1:8000", {}),
    *(
        (relayed(relay, FIRST.keys + SECOND.keys), "https://collector.example.com", {})
        for relay in (RELAY, "http://127.0.0.1:9000/", "http://localhost/", "http://[::1]:9000/")
    ),
]

WARNED = [  # with the fields that are looked at
    *(
        (text, None, {"expires", "max_values", "over_cap", "oracle", "parameters", "publish", "publish_least"}, said)
        for text, said in ONE_METRIC
    ),
    *((text, None, {"panel", "budget"}, said) for text, said in A_YEAR),
    *((text, None, {"groups", "retention_days"}, said) for text, said in GROUPS),
    *((text, server, {"relay", "keys", "oblivious"}, said) for text, server, said in RELAYS),
]


@pytest.mark.parametrize(("text", "server", "about", "said"), WARNED)
def test_what_is_worth_a_second_look_is_said_at_its_line_and_nothing_else_is(text, server, about, said):
    every = [
        (fault.field.rpartition(".")[2], fault)
        for fault in registry_warnings(parse_registry(text), text, TODAY, server=server)
    ]
    found, lines = [(key, fault) for key, fault in every if key in about], text.splitlines()
    assert sorted(key for key, _ in found) == sorted(said)
    for key, fault in found:
        assert said[key] in fault.message
        is_written = any(line.startswith(f"{key} =") for line in lines)
        begins = f"{key} =" if is_written else ("[metrics.", "[oblivious]", "registry =")
        assert lines[fault.line - 1].startswith(begins)


def test_lint_names_the_line_and_takes_the_collectors_address(tmp_path):
    text = relayed("http://relay.example.net/")
    (tmp_path / "metrics.toml").write_text(text)
    out = within("metrics", "lint", "metrics.toml", "--server", "http://relay.example.net", cwd=tmp_path).stdout
    line = text.splitlines().index('relay = "http://relay.example.net/"') + 1
    assert f"metrics.toml:{line}: warning: oblivious.relay: over plain http" in out
    assert f"metrics.toml:{line}: warning: oblivious.relay: this is the collector's own host" in out


BOTH = "colour through the relay, first directly: a device may send both at about the same time"
ALONE = oblivious_registry(RELAY, FIRST.keys, colour=DEFAULT["colour"] + OBLIVIOUS).text
NOTES = [
    (relayed(), [BOTH]),
    (ALONE, []),
    (plain_registry("m", "n"), ["m, n name no attribute: if some of them tell of one thing, give them one"]),
    (plain_registry("m", "n", attribute='"looks"'), []),
]


@pytest.mark.parametrize(("text", "said"), NOTES)
def test_what_a_reviewer_should_know_in_any_case(text, said):
    notes = [note for note in registry_notes(parse_registry(text)) if said != [BOTH] or "relay" in note]
    assert [note[: len(begins)] for note, begins in zip(notes, said, strict=False)] == said
    assert bool(notes) == bool(said)
