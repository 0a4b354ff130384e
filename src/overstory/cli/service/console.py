"""``overstory console``: pages for those who run a collector and those who read its estimates."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import add_command
from overstory.cli.service.serve_settings import CONSOLE, PREFIX, Setting, check_common, fill_in

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData

MORE = """\
The console shows a store in a browser: what is collected, estimates with their intervals over time, comparisons,
alarms, the health of the collectors, and a public page without a login. It runs in a process of its own, on the same
store as the collectors, and changes no report and no count.

It prints a link that logs in one browser once, within ten minutes. Others log in with a token of the store
(`overstory store tokens add --role viewer`, or analyst); a session ends with its token. Behind a proxy that knows who
somebody is, --trust-header names the header with the person's name, --from says which connections may carry it, and
--roles maps names to roles. On an address that other machines can reach, the console starts with TLS or with
--behind-proxy only.

--check starts no server: it prints the alarms of the store as JSON, and exits with 1 if any of them is red or amber,
for cron and CI. Notes do not count. Run it once in each period; docs/explanation/alarms.md says what each alarm means.

Every option but --open and --check can be set by an environment variable (OVERSTORY_STORE and OVERSTORY_REGISTRY,
shared with `overstory serve`; OVERSTORY_CONSOLE_PORT for --port, and so on) or by the TOML file that --config or
OVERSTORY_CONSOLE_CONFIG names. SIGTERM and SIGINT end it."""

NICE: Final = 5
"""How much the console lets other processes go first: where a collector has no processor to spare, pages wait."""

EXAMPLE = "overstory console --registry metrics.toml --store reports.db --open"


def _own(name: str, kind: Any, default: Any, text: str, metavar: str | None = None) -> Setting:
    return Setting(name, kind, default, text, metavar, scope=CONSOLE)


SETTINGS: Final = (
    Setting("registry", str, None, "the metric registry", "FILE"),
    Setting(
        "store",
        str,
        None,
        "the store: a file, sqlite:///FILE, or postgresql://...; once for each shard's store, where there are shards",
        "URL",
        repeatable=True,
    ),
    _own("previous", str, None, "the registry's version before, to show the public what changed", "FILE"),
    _own("host", str, "127.0.0.1", "address to listen on (default: 127.0.0.1)", "H"),
    _own("port", int, 8001, "port; 0: any free port (default: 8001)", "P"),
    _own("tls-certificate", Path, None, "serve HTTPS: certificate chain, PEM", "FILE"),
    _own("tls-key", Path, None, "private key of the certificate, PEM", "FILE"),
    _own("behind-proxy", bool, default=False, text="a proxy in front speaks TLS (default: no)"),
    _own("names", str, "", "further host names that browsers use, separated by commas", "NAME,..."),
    _own("trust-header", str, None, "header in which a proxy passes on a person's name", "NAME"),
    _own("from", str, None, "connections that may carry it: unix:/PATH, a socket that is made, or loopback", "WHERE"),
    _own("roles", Path, None, "TOML file of the roles of people", "FILE"),
)


def add_parser(commands: Any) -> None:
    parser = add_command(commands, "console", "show a store in a browser", more=MORE, example=EXAMPLE)
    parser.add_argument("--config", metavar="FILE", help="TOML file with these settings")
    for setting in SETTINGS:
        setting.add_to(parser)
    parser.add_argument("--open", action="store_true", help="open it in a browser, logged in")
    parser.add_argument("--check", action="store_true", help="print the alarms as JSON; exit with 1 if there are any")
    parser.add_argument("--ends-with-input", action="store_true", help=argparse.SUPPRESS)


def check_settings(args: argparse.Namespace) -> None:
    """Fill in the settings of the environment and the file, and check that they fit together."""
    fill_in(args, SETTINGS, os.environ, CONSOLE)
    check_common(args, "port")


def run(args: argparse.Namespace) -> int:
    check_settings(args)
    if args.check:
        return _check(args)
    from overstory.console.access import parse_proxy
    from overstory.console.server import Access, check_exposure, serve
    from overstory.supervision.listening import Listening

    listening = Listening(args.host, args.port, args.tls_certificate, args.tls_key)
    names = tuple(filter(None, map(str.strip, args.names.split(","))))
    access = Access(names, args.behind_proxy, parse_proxy(args.trust_header, getattr(args, "from"), args.roles))
    check_exposure(listening, access)
    os.nice(NICE)
    if args.open:
        import webbrowser
    with open_data(args.registry, args.store, args.previous) as data:
        serve(
            data,
            listening,
            access,
            partial(print, flush=True),
            open_link=webbrowser.open if args.open else None,
            ends_with_input=args.ends_with_input,
        )
    return 0


def _check(args: argparse.Namespace) -> int:
    from overstory.console.alarms import check

    with open_data(args.registry, args.store) as data:
        data.decoder.patience = None
        result, is_alarming = check(data)
    print(json.dumps(result, indent=2, allow_nan=False))
    return int(is_alarming)


def show_store(registry: str, store: str) -> None:
    """Run a console for this machine alone, on any free port, until it is interrupted."""
    from overstory.console.server import Access, serve
    from overstory.supervision.listening import Listening

    with open_data(registry, [store]) as data:
        serve(data, Listening(port=0), Access(), partial(print, flush=True))


@contextmanager
def open_data(registry: str, urls: Sequence[str], previous: str | None = None) -> Iterator[ConsoleData]:
    """Give what the screens read: the registry, the open stores, and the registry's version before."""
    from overstory.cli.stores import open_stores
    from overstory.console.data import ConsoleData
    from overstory.protocol.metrics import load_registry

    metrics, before = load_registry(registry), load_registry(previous) if previous else None
    with open_stores(urls) as store:
        data = ConsoleData(metrics, store, previous=before)
        try:
            yield data
        finally:
            data.decoder.close()


@contextmanager
def console_process(registry: str, store: str, port: int | None, environ: Mapping[str, str]) -> Iterator[None]:
    """Run a console as a child until the block ends; it ends with this process, however that ends. None: no console.

    Its settings are variables, because a store's URL may have a password, and everybody can see a command line.
    """
    if port is None:
        yield
        return
    settings = {f"{PREFIX}REGISTRY": registry, f"{PREFIX}STORE": store, f"{PREFIX}{CONSOLE}PORT": str(port)}
    command = [sys.executable, "-m", "overstory", "console", "--ends-with-input"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, env={**environ, **settings})  # noqa: S603 - our own program
    try:
        yield
    finally:
        assert child.stdin is not None
        child.stdin.close()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
