"""A device, with a clock that is set and randomness that is a known stream: a person's commands, a gateway, a state."""

import sqlite3

from frozen import NOON
from stage import play_frozen, scene, serving

DAY = 86_400
STATE = "--app ./state"
ASKED = {"app": "editor", "registry": "metrics.toml", "state": "state"}
ENERGY = "gateway --metric energy --registry metrics.toml --readings readings.csv --state meter"


@scene
def a_person_and_a_program(place):
    """Consent, records over three days, what is shown of them, the end."""
    values = [["colour", "red"], ["colour", "blue"], ["tree", "oak"], ["theme", "mauve"], ["tabs", 77], ["energy", 0.3]]
    again = [["colour", "blue"], ["tree", "elm"], ["word", "oak"], ["ended", "red"]]
    return "".join(
        play_frozen(
            place,
            f"status {STATE} --registry metrics.toml --json",
            f"local {STATE} --registry metrics.toml --json",
            f"on {STATE} --registry metrics.toml --yes --json",
            ASKED | {"record": values},
            ASKED | {"record": again, "now": NOON + DAY},
            ASKED | {"record": [["colour", "green"], ["colour", 7]], "now": NOON + 2 * DAY},
            f"status {STATE} --json",
            f"view {STATE} --json",
            f"off {STATE} --json",
            f"status {STATE} --json",
            f"forget {STATE} --yes --json",
            f"status {STATE} --registry metrics.toml --json",
        )
    )


@scene
def a_gateway(place):
    """Readings of two days with no collector, the uploads to the last byte; and of another meter, with a collector."""
    printed = play_frozen(place, f"{ENERGY} --agree on --server http://127.0.0.1:9 --json", f"{ENERGY} --json")
    with sqlite3.connect(place / "meter" / "state.db") as connection:
        uploads = connection.execute("SELECT body FROM outbox ORDER BY id").fetchall()
    with serving(place, "--registry", "metrics.toml", "--store", "meters.db", "--open-writes") as (url, _):
        sent = play_frozen(place, f"{ENERGY.replace('meter', 'second')} --agree on --server {url} --json")
    return "".join((*printed, *(f"{body.hex()}\n" for (body,) in uploads), *sent))


@scene
def the_state_of_a_device(place):
    """The tables of its database."""
    play_frozen(
        place,
        "on --app ./tables --registry metrics.toml --yes",
        ASKED | {"record": [["colour", "red"]], "state": "tables"},
    )
    return schema(place / "tables" / "state.db")


def schema(path):
    """The SQL of every table and index."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, name")
        return "".join(f"{' '.join(sql.split())}\n" for (sql,) in rows)
