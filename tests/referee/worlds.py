"""The worlds that stories are set in: a metric as a person may first agree to it, and what it may become.

A world has two to four values, one of which may not be in the domain, and registries by name. The first one is what a
story begins with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from overstory.protocol.metrics import parse_registry
from support.registry_texts import registry_of

METRIC = "theme"
AGREED = "agreed"
RETITLED = "titled"  # in every world: the same with another title
COLOURS = '{kind = "categories", names = ["red", "green", "blue"]}'
SIX = '{kind = "categories", names = ["red", "green", "blue", "grey", "pink", "white"]}'
SWAPPED = '{kind = "categories", names = ["green", "red", "blue"]}'
NUMBERS = '{{kind = "integers", min = 0, max = {most}, outside = "{outside}"}}'
TABLE = '{kind = "table", names = ["x", "y"], of = [{kind = "categories", names = ["a", "b"]}, {kind = "categories", names = ["u", "v"]}]}'  # noqa: E501
TURNED = TABLE.replace('["u", "v"]', '["v", "u"]')
UNKNOWN = '{{kind = "unknown-integers", bits = 8{known}}}'
GROUPS = '{by = "release", shares = {"1.0" = 0.9, "1.1" = 0.05}, devices = 20000}'
LIMIT = "[budget]\nepsilon = 1.5\n"


@dataclass(frozen=True)
class World:  # a metric's values, and its registries by name: keys of the metric's table as TOML, by key
    values: tuple[Any, ...]
    base: Mapping[str, str]
    variants: Mapping[str, Mapping[str, str]]
    head: str = ""  # tables of the registry itself
    first_lines: str = ""  # keys of the registry itself

    @property
    def names(self):
        return (AGREED, *self.variants, RETITLED)


def search(known="", epsilon=2.0):
    return {"domain": UNKNOWN.format(known=known), "parameters": f"{{epsilon = {epsilon}}}"}


def bloom(cohorts, f=0.5):
    return {"parameters": f"{{num_bits = 4, num_hashes = 2, num_cohorts = {cohorts}, f = {f}, p = 0.5, q = 0.75}}"}


WORLDS = {
    "grr": World(
        ("red", "green", "mauve"),
        {"domain": COLOURS, "parameters": "{epsilon = 1.0}", "window": "3"},
        {
            "swapped": {"domain": SWAPPED},
            "stronger": {"parameters": "{epsilon = 0.5}"},
            "weaker": {"parameters": "{epsilon = 1.5}"},
            "more": {"domain": COLOURS.replace('"blue"', '"blue", "grey"')},
            "kept-longer": {"retention_days": "120"},
        },
    ),
    "basic": World(
        ("red", "blue", "mauve"),
        {"domain": COLOURS, "oracle": '"basic-rappor"', "parameters": "{}", "max_values": "2", "window": "3"},
        {
            "swapped": {"domain": SWAPPED},
            "drop": {"over_cap": '"drop"'},
            "capless": {"max_values": "3"},
            "other-noise": {"parameters": "{f = 0.25}"},
        },
    ),
    "budget": World(
        ("red", "blue", "mauve"),
        {"domain": SIX, "oracle": '"basic-rappor"', "parameters": "{}"},
        {"other-noise": {"parameters": "{f = 0.75}"}},
        head=LIMIT,
    ),
    "clamp": World(
        (0, 2, 9),
        {
            "domain": NUMBERS.format(most=2, outside="clamp"),
            "oracle": '"l-grr"',
            "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}",
            "window": "3",
        },
        {
            "reject": {"domain": NUMBERS.format(most=2, outside="reject")},
            "separate": {"domain": NUMBERS.format(most=2, outside="separate")},
        },
    ),
    "words": World(
        ("v0", "v1", "v2"),
        {"domain": '{kind = "strings"}', "oracle": '"rappor"', "window": "2"} | bloom(2),
        {"one-cohort": bloom(1), "three-cohorts": bloom(3), "quieter": bloom(2, 0.75)},
    ),
    "pairs": World(
        (("a", "u"), ("b", "u"), ("a", "v")),
        {
            "domain": TABLE,
            "oracle": '"l-grr"',
            "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}",
            "window": "2",
        },
        {"turned": {"domain": TURNED}},
    ),
    "nearest": World(
        (0, 2, 3),
        {"domain": NUMBERS.format(most=3, outside="reject"), "max_values": "2", "over_cap": '"nearest"', "window": "3"},
        {
            "drop": {"over_cap": '"drop"'},
            "first": {"over_cap": '"first"'},
            "three": {"max_values": "3"},
        },
    ),
    "window": World(
        ("red", "green", "mauve"),
        {"domain": COLOURS, "oracle": '"opt-wb"', "parameters": "{epsilon = 2.0, window = 4}", "groups": GROUPS},
        {"swapped": {"domain": SWAPPED}, "shorter": {"parameters": "{epsilon = 2.0, window = 3}"}},
    ),
    "grouped": World(
        ("red", "green"),
        {
            "domain": COLOURS,
            "oracle": '"l-osue"',
            "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}",
            "groups": GROUPS,
            "window": "2",
        },
        {"swapped": {"domain": SWAPPED}},
    ),
    "search": World(
        (5, 200, "no number"),
        {"oracle": '"prefix-search"'} | search(),
        {"five-known": search(", known = [5]"), "two-known": search(", known = [5, 200]")},
    ),
    "published": World(
        ("red", "green", "blue"),
        {"domain": COLOURS, "oracle": '"oue"', "publish": '"estimates"', "grace_days": "2"},
        {},
        first_lines='opt_out = "Turn it off in the settings."',
    ),
    "panel": World(
        ("red", "green", "mauve"),
        {
            "domain": COLOURS,
            "oracle": '"l-grr"',
            "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}",
            "panel": '{cycle = "month", answers = 30}',
        },
        {"none": {"panel": '"none"'}, "rarer": {"panel": '{cycle = "year", answers = 360}'}},
    ),
    "flips": World(
        ("red", "green", "mauve"),
        {"domain": SIX, "oracle": '"dbitflip"', "parameters": "{epsilon = 1.0, sampled_bits = 1}", "window": "2"},
        {"one-more": {"domain": SIX.replace('"white"', '"white", "black"')}},
    ),
    "seeds": World(
        (0, 1, 2),
        {
            "domain": NUMBERS.format(most=3, outside="clamp"),
            "oracle": '"olh"',
            "parameters": "{epsilon = 1.0, num_seeds = 64}",
            "groups": GROUPS,
            "window": "2",
        },
        {},
    ),
}


@cache
def registry_text(world, name):
    about = WORLDS[world]
    keys = dict(about.base) | dict(about.variants.get(name, {}))
    if name == RETITLED:
        keys["title"] = '"Another title"'
    text = registry_of({METRIC: keys}, version=name)
    lines = [line for line in text.splitlines() if line != "parameters = {}"]
    return "\n".join([lines[0], about.first_lines, *lines[1:], "", about.head])


@cache
def registry(world, name):
    return parse_registry(registry_text(world, name))


def metric(world, name):
    return registry(world, name)[METRIC]


@cache
def registry_file(world, name, folder):
    path = folder / f"{world}-{name}.toml"
    path.write_text(registry_text(world, name), encoding="utf-8")
    return path
