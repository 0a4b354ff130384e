"""The commands of a service, as data: what each is for, and its options. Help loads this module alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from overstory.cli.command import (
    AT_LEAST_ONE,
    CSV,
    Command,
    Group,
    Needs,
    OneOf,
    Option,
    Together,
    flag,
    keys,
    settings,
)

CONSOLE: Final = "CONSOLE_"
RELAY_: Final = "RELAY_"
"""What the console's and the relay's own variables have after the prefix; the console shares the registry and the store
with `serve`."""

REGISTRY: Final = Option("--registry", required=True)
CONFIG: Final = Option("--config", "TOML file with these settings", "FILE")
STORES: Final = "the store: a file, sqlite:///FILE, or postgresql://..."
_A_PORT: Final = (lambda number: 0 <= number < 1 << 16, "ports are 0 .. 65535")
_NOT_NEGATIVE: Final = (lambda number: number >= 0, "give a number that is not negative")


def _up_to(most: int) -> tuple[Callable[[int], bool], str]:
    return lambda number: 1 <= number <= most, f"give 1 to {most:,}"


def _listening(port: int) -> tuple[Option, ...]:
    return (
        Option("--host", "address to listen on", "H", default="127.0.0.1"),
        Option("--port", "port; 0: any free port", "P", int, port, fits=_A_PORT),
        *keys(
            Option("--tls-certificate", "serve HTTPS: certificate chain, a PEM file", type=Path),
            Option("--tls-key", "private key of the certificate, a PEM file", type=Path),
        ),
    )


SERVE_SETTINGS: Final = settings(
    "",
    Option("--registry"),
    Option("--store", STORES, "URL"),
    *_listening(8000),
    Option("--open-writes", "take reports without a token (default: no)", type=bool, default=False),
    *keys(
        Option(
            "--oblivious-keys",
            "file of private keys, from `overstory keys`: take reports of oblivious metrics, sealed, through a relay",
            type=Path,
        ),
        Option(
            "--allow-weaker",
            "true: collect although the registry promises less privacy than stored reports were promised",
            type=bool,
            default=False,
        ),
        Option("--compact-every", "seconds between compactions; 0: never", "S", float, 10.0, fits=_NOT_NEGATIVE),
        Option(
            "--compact-within",
            "seconds that a few reports may wait before a large chunk is written again for them",
            "S",
            float,
            300.0,
            fits=_NOT_NEGATIVE,
        ),
        Option("--queue-reports", "reports that may wait for their commit", "N", int, 1_000_000, fits=AT_LEAST_ONE),
        Option("--grace", "seconds of refusing reports before it stops listening", "S", float, 1.0, fits=_NOT_NEGATIVE),
    ),
)

SERVE: Final = Command(
    "serve",
    "overstory serve --registry metrics.toml --store reports.db --port 8000",
    CONFIG,
    *SERVE_SETTINGS,
    more="""\
The collector takes reports over HTTP, acknowledges them after they are committed, and returns counts. It creates the
store if it does not exist. Devices need a write token unless --open-writes is given; counts need an admin token
(`overstory store tokens --add`). No address, user agent or time of a request is stored or logged.

Every setting is an environment variable (OVERSTORY_STORE for --store) and a key of the TOML file that --config or
OVERSTORY_CONFIG names (store = "reports.db"); the command line has those that most need. It overrides the environment,
which overrides the file. Put a store's URL with a password in the environment or the file: everybody on a machine can
see command lines.

SIGTERM and SIGINT end the collector after everything in its queue is committed. SIGHUP makes it read the registry, the
certificate, the tokens and the keys again. One process can serve a SQLite file; several can share a PostgreSQL
store.""",
    runs="service.serve",
    prints_json=False,
)

CONSOLE_SETTINGS: Final = (
    *settings(
        "",
        Option("--registry"),
        Option("--store", STORES, "URL"),
    ),
    *settings(
        CONSOLE,
        *_listening(8001),
        *keys(
            Option("--behind-proxy", "true: a proxy in front speaks TLS", type=bool, default=False),
            Option("--names", "further host names that browsers use, separated by commas", default=""),
            Option("--trust-header", "header in which a proxy passes on a person's name"),
            Option(
                "--from", "connections that may carry it: unix:/PATH, a socket that is made, or loopback", dest="from"
            ),
            Option("--roles", "TOML file of the roles of people", type=Path),
        ),
    ),
)

CONSOLE_COMMAND: Final = Command(
    "console",
    "overstory console --registry metrics.toml --store reports.db --open",
    CONFIG,
    *CONSOLE_SETTINGS,
    flag("--open", "open it in a browser, logged in"),
    flag("--check", "print the alarms as JSON; exit with 1 if there are any"),
    more="""\
The console shows a store in a browser: what is collected, estimates with their intervals over time, comparisons,
alarms, the health of the collectors, and a public page without a login. It runs in a process of its own, on the same
store as the collectors, and changes no report and no count.

It prints a link that logs in one browser once, within ten minutes. Others log in with a token of the store
(`overstory store tokens --add viewer`, or analyst); a session ends with its token. Behind a proxy that knows who
somebody is, `trust_header` names the header with the person's name, `from` says which connections may carry it, and
`roles` maps names to roles. On an address that other machines can reach, the console starts with TLS or with
`behind_proxy` only.

--check starts no server: it prints the alarms of the store as JSON, and exits with 1 if any of them is red or amber,
for cron and CI. Notes do not count. Run it once in each period; docs/explanation/alarms.md says what each alarm means.

Every setting is an environment variable (OVERSTORY_STORE and OVERSTORY_REGISTRY, shared with `overstory serve`;
OVERSTORY_CONSOLE_PORT for --port, and so on) and a key of the TOML file that --config or OVERSTORY_CONSOLE_CONFIG
names. SIGTERM and SIGINT end it.""",
    runs="service.console",
    prints_json=False,
)

RELAY_SETTINGS: Final = settings(
    RELAY_,
    Option("--gateway", "address of the collector", "URL"),
    *_listening(8100),
    Option("--spool", "shuffle: gather messages in this folder, and release many together", "DIR", Path),
    *keys(
        Option("--token-file", "with spool: file with the collector's token of the role relay", type=Path),
        Option("--per-hour", "messages of one address in any hour", "N", int, 50, fits=_up_to(1 << 20)),
        Option(
            "--trust-forwarded",
            "true: a proxy in front names the sender in X-Forwarded-For, whose last address counts",
            type=bool,
            default=False,
        ),
        Option("--most-bytes", "bytes of one message", "N", int, 1 << 16, fits=_up_to(1 << 24)),
        Option("--least", "messages of the smallest release", "N", int, 1000),
        Option(
            "--per-release",
            "messages of one address that are taken for one release (default: a twentieth of least, at least 1)",
            "N",
            int,
            fits=_up_to(1 << 20),
        ),
        Option("--every", "time between two releases, such as 90m, 24h or 7d", default="24h"),
        Option(
            "--at-most",
            "drop what waits if least is not reached within this; not shorter than every; the first message after a "
            "silence has at least half of it",
            default="30d",
        ),
        Option("--capacity", "messages that may wait, of 1 KiB each on disk, from the beginning", "N", int, 100_000),
    ),
)

RELAY: Final = Command(
    "relay",
    "overstory relay --gateway https://collector.example.org --port 8100",
    CONFIG,
    *RELAY_SETTINGS,
    more="""\
Somebody else than the operator of the collector runs the relay: it sees addresses and cannot read messages; the
collector reads messages and sees no addresses. Each message (message/ohttp-req, RFC 9458) is passed on at once, its
body alone; of the response, the body, the media type and the class of the status come back. No address, header or
time of a message is written anywhere.

With --spool the relay gathers messages on disk, answers 202 once a message is there, and releases all of them
together, in a random order, when `least` have come and `every` has passed since the last release. If fewer than `least`
have come within `at_most`, they are dropped and counted. Copies of a message count once. One address has at most
per_release / least of a release, and k addresses k times as much; also after a restart.

Every setting is an environment variable (OVERSTORY_RELAY_GATEWAY for --gateway) and a key of the TOML file that
--config or OVERSTORY_RELAY_CONFIG names.

SIGTERM and SIGINT end the relay after the messages that have begun. GET /healthz has counts, for this machine
alone.""",
    runs="service.relay",
    prints_json=False,
)

GATEWAY: Final = Command(
    "gateway",
    "overstory gateway --metric energy --registry metrics.toml --readings - --server https://collector.test",
    Option("--metric", "a metric of the registry", "ID", required=True),
    REGISTRY,
    Group(
        "readings",
        Option("--readings", "CSV or JSON lines, a file; -: standard input", "FILE", required=True),
        Option("--time-column", "column of times: a name, or a number from 1", "NAME", default="time"),
        Option("--value-column", "column of values: a name, or a number from 1", "NAME", default="value"),
        Option("--timezone", "time zone of times without an offset", "ZONE", default="UTC"),
    ),
    Group(
        "periods",
        Option("--pick", "value of a period with several readings", choices=("last", "mean", "sum"), default="last"),
        Option("--wait", "how long a stream waits for late readings after a period", "SECONDS", float, 60.0),
    ),
    Group(
        "the device and where its reports go",
        Option("--state", "the device's state (default: the platform's folder)", "DIR"),
        Option("--agree", "consent to this registry's metrics; local: nothing is sent", choices=("on", "local")),
        Option("--group", "public group of the device, sent in clear (default: other)", "NAME"),
        Option("--server", "address of the collector; OVERSTORY_WRITE_TOKEN has its write token", "URL"),
        Option("--spread", "longest random delay before sending", "SECONDS", float),
    ),
    more="""\
Readings are lines with a time and a value: CSV in a .csv, JSON in a .jsonl or .ndjson; else JSON if the first line that
is not blank begins with {. Each period of the metric is reported once, after its end: the state folder
remembers this through restarts and crashes. One state folder is one device. For a file, the times in it are the clock,
so that a year takes seconds; a stream (-) is followed in real time.""",
    runs="service.gateway",
)

SIMULATE: Final = Command(
    "simulate",
    "overstory simulate --registry metrics.toml --devices 10000 --store trial.db --truth truth.csv\n"
    "  overstory simulate --registry metrics.toml --devices 10000 --years 2 --store trial.db\n"
    "  overstory simulate --registry metrics.toml --devices 500 --periods 4 --store http://127.0.0.1:8000",
    REGISTRY,
    Option("--devices", "number of devices", "N", int, required=True),
    Option("--periods", "number of periods in which devices may report", "T", int, 1),
    Option("--years", "instead of --periods: all periods of the last Y years; needs a store", "Y", int),
    Option("--metric", "only this metric; may be repeated (default: all)", "ID", action="append"),
    Option(
        "--store",
        "where reports go: a store, into which a collector with the devices' clock writes, or a running collector's "
        "address, http://..., whose write token OVERSTORY_WRITE_TOKEN has",
        "URL",
        required=True,
    ),
    Group(
        "what devices hold (unless given: the n-th value is 1/n as frequent as the first)",
        Option("--candidates", "values of a metric of strings, one per line", "FILE"),
        Option("--data", "draw the values from a column of a CSV or Parquet file", "FILE"),
        Option("--column", "column of the values"),
        Option("--change", "share of devices that draw another value each period (default: 0)", "SHARE", float, 0.0),
        Option("--group", "group of every device (default: drawn by the registry's public shares)"),
        Option("--seed", "seed: the same devices and values again; a collector counts their reports once", "S"),
    ),
    CSV,
    Option("--truth", "write the devices' true values to this file, as CSV", "FILE"),
    more="""\
Each device has its own secret, state and outbox, and randomizes like a real one. Only three things differ: its clock is
simulated, its state is in memory, and it sends without a delay. Reports are for the last T periods, the current one
included. With --years it also prints how many reports one device sent in a year, and the most that any year can reveal
of a person.""",
    runs="service.simulate",
    rules=(OneOf(("--periods", "--years")), Together(("--data", "--column"))),
)

DOCTOR: Final = Command(
    "doctor",
    "overstory doctor --registry metrics.toml --store reports.db --url https://collector.example.org",
    Option("--registry", "registry of the collected metrics"),
    Option("--store", "a file, sqlite:///FILE, or postgresql://...", "URL"),
    Option("--url", "address of a running collector", "URL"),
    Option("--config", "TOML file with the settings of `overstory serve`", "FILE"),
    more="""\
Prints one line for each check: ok, warning or error, and what to do. The options decide what is checked; the settings
of `overstory serve` are also read from its file and its environment. Nothing is changed.
The exit status is 1 when there is an error.""",
    runs="service.doctor",
)

EXPORT: Final = Command(
    "export",
    "overstory export --store reports.db --registry metrics.toml exported\n"
    "  overstory export --store reports.db --registry metrics.toml s3://bucket/reports",
    Option("destination", "a folder, or an address in an object store", "DESTINATION"),
    Option("--store", "where the reports are: a file, or postgresql://...", "URL", required=True),
    REGISTRY,
    Option("--metric", "only this metric (default: all of the registry)", "ID"),
    more="""\
Writes the reports of closed periods, those that take no reports any more, as Parquet in blocks into folders
metric=ID/period=N/digest=HEX, and a manifest of each. What is there already is not written again; an export that was
killed is completed by the next one. `overstory sum DESTINATION/metric=ID` counts what manifests list, and so do Dask
and Spark; `overstory decode DESTINATION --registry FILE` reads it as a store. Stores that
are exported into one destination are then read together. Retention deletes reports in the store, never the exported
files: that is yours to do.""",
    runs="service.store:export",
)

KEYS: Final = Command(
    "keys",
    "overstory keys --new oblivious.keys\n  overstory keys oblivious.keys\n  overstory keys --remove 1 oblivious.keys",
    Option("file", "the file of private keys", "FILE", Path),
    flag("--new", "draw a key first, with the next free number; the file is made where it is missing"),
    Option("--remove", "first remove the earlier key of this number, 0 to 255", "N", int),
    more="""\
Prints the line `keys` of the registry's table [oblivious]: the public keys. A device seals the reports of an oblivious
metric for one of them; only the collector opens them, whose setting `oblivious_keys` names the file. All devices must
have the same keys: a key that one device alone gets would single it out. So they come with the registry, and no address
serves them.

To rotate: add a new key, send the collector SIGHUP, put the new line into the registry and release it; remove the old
key when no message comes for it any more.""",
    runs="service.keys",
    rules=(OneOf(("--new", "--remove")),),
)

_BACKUP: Final = "overstory store backup postgresql://overstory@db/reports monday.db"
_RESTORE: Final = "overstory store restore monday.db postgresql://overstory@db/reports"


def _of_store(name: str, summary: str, example: str, runs: str, *options: Option) -> Command:
    return Command(
        name,
        example,
        Option("url", "the store", "URL"),
        *options,
        summary=summary,
        runs=f"service.store:{runs}",
    )


TOKENS: Final = Command(
    "tokens",
    "overstory store tokens reports.db\n"
    "  overstory store tokens reports.db --add write --application my-app --expires 2027-11-21\n"
    "  overstory store tokens reports.db --revoke 5f3a9c01",
    Option("url", "the store", "URL"),
    Option(
        "--add",
        "make a token and show it once; write: send reports; viewer: read the console; analyst: also decode and write "
        "notes there; admin: all of that, and read counts over HTTP; relay: pass on what a shuffling relay releases; "
        "monitor: read /metrics",
        choices=("write", "viewer", "analyst", "admin", "relay", "monitor"),
    ),
    Option("--application", "with --add: name of the application that uses it", "NAME"),
    Option("--expires", "with --add: first day, in UTC, on which it is refused (default: never)", "DATE"),
    Option("--revoke", "revoke the token with this id", "ID"),
    summary="list tokens for writing and reading, make one, or revoke one",
    more="""\
A write token is part of a program that sends reports: everybody who has the program has the token, which only keeps
strangers out. An admin token lets its holder read counts. In the console (`overstory console`) a viewer
reads every page, and an analyst also decodes with candidates and writes notes. A relay token is for the operator of a
shuffling relay (`overstory relay --spool`): it reads nothing. A monitor token is for Prometheus: it reads /metrics
alone. To rotate a token, add a new one, release it, then revoke the old one. The store has only the SHA-256 of a token:
it is shown once, when it is made.""",
    runs="service.store:tokens",
    rules=(OneOf(("--add", "--revoke")), Together(("--add", "--application")), Needs(("--expires",), ("--add",))),
)

STORE: Final = Command(
    "store",
    "overstory store create reports.db\n"
    "  overstory store summary reports.db\n"
    "  overstory store tokens reports.db --add write --application my-app\n"
    "  overstory store backup reports.db monday.db",
    more="""\
URL names the store: a file (reports.db, sqlite:///reports.db), or postgresql://USER:PASSWORD@HOST/DATABASE.
A collector (`overstory serve`) compacts and retains by itself. docs/how-to/stores.md describes what is stored.""",
    actions=(
        _of_store("create", "create a store", "overstory store create reports.db", "create"),
        _of_store("summary", "show what a store contains", "overstory store summary reports.db --json", "summarize"),
        _of_store(
            "compact",
            "count and shuffle the reports in the inbox, and delete those past retention, as a collector does",
            "overstory store compact reports.db",
            "compact",
        ),
        _of_store(
            "backup",
            "copy a store, as of one moment, into a file that opens as a store",
            _BACKUP,
            "back_up",
            Option("file", "the backup: a file that does not exist yet", "FILE"),
        ),
        Command(
            "restore",
            _RESTORE,
            Option("file", "the backup", "FILE", Path),
            Option("url", "the new store: a file that does not exist, or an empty database", "URL"),
            summary="fill a new store from a backup",
            runs="service.store:fill",
        ),
        TOKENS,
    ),
)

COMMANDS: Final = {
    command.name: command for command in (CONSOLE_COMMAND, DOCTOR, EXPORT, GATEWAY, KEYS, RELAY, SERVE, SIMULATE, STORE)
}
