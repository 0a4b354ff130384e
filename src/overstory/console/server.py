"""The console as a process: where it listens, the link that it prints, and its end."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from overstory.console.access import Cookie, Gate, Origin, Sessions, TokenRoles, TrustedProxy
from overstory.console.app import LOG, Console
from overstory.console.data import ConsoleData
from overstory.protocol.errors import ParameterError
from overstory.supervision.connection import BoundedConnection
from overstory.supervision.listening import ConnectionLimits, Listening, ServingError
from overstory.supervision.server import SupervisedServer, server_config
from overstory.supervision.upkeep import Task


@dataclass(frozen=True, slots=True)
class Access:
    """How people reach the console."""

    names: Sequence[str] = ()  # host names that a proxy passes on
    behind_proxy: bool = False  # a proxy in front speaks TLS
    proxy: TrustedProxy | None = None  # says who somebody is


def check_exposure(listening: Listening, access: Access) -> None:
    """Raise `ParameterError` where sessions would cross a network unencrypted."""
    if listening.exposed and not access.behind_proxy:
        raise ParameterError(
            f"--host {listening.host} can be reached from other machines, and there is no TLS: set tls_certificate "
            "and tls_key, or behind_proxy = true if a proxy in front speaks TLS"
        )


def make_gate(data: ConsoleData, listening: Listening, access: Access, port: int) -> Gate:
    """Return the gate of a console that listens on `port`."""
    return Gate(
        Origin.of(listening.host, access.names),
        Sessions(),
        Cookie(port, plain=listening.certificate is None and not access.behind_proxy),
        TokenRoles(data.store.tokens),
        access.proxy,
    )


def make_server(console: Console, listening: Listening, announce: Callable[[], object]) -> SupervisedServer:
    """Return what serves a console and then calls `announce`."""
    config = server_config(console, listening, BoundedConnection, lifespan="off", timeout_graceful_shutdown=2)
    return SupervisedServer(config, LOG, announce)


def serve(
    data: ConsoleData,
    listening: Listening,
    access: Access,
    announce: Callable[[str], None],
    *,
    open_link: Callable[[str], object] | None = None,
) -> None:
    """Serve until a signal."""
    check_exposure(listening, access)
    sys.setswitchinterval(0.0005)  # a page that reads the store often waits so long for one that computes
    with listening.bind(ConnectionLimits().taking_seconds) as bound:
        address = listening.address(bound)
        gate = make_gate(data, listening, access, bound.getsockname()[1])

        def announce_link() -> None:
            announce(f"console on {address}/login#{gate.sessions.make_link('admin')}")
            if open_link is not None:
                open_link(f"{address}/login#{gate.sessions.make_link('admin')}")

        console = Console(data, gate)
        server = make_server(console, listening, announce_link)
        sockets = [bound]
        if access.proxy is not None and access.proxy.socket:
            sockets.append(_unix_socket(Path(access.proxy.socket)))
        console.upkeep.start([Task("store", 5.0, 30.0, needed=True, thread="store", work=data.store.tokens)])
        try:
            server.run(sockets)
        finally:
            asyncio.run(console.upkeep.stop(5.0))  # a store that hangs is not waited for
            if access.proxy is not None and access.proxy.socket:
                Path(access.proxy.socket).unlink(missing_ok=True)


def _unix_socket(path: Path) -> socket.socket:
    """Return a socket at `path` that only this user and the path's group can open."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.stat().st_mode):
            path.unlink()  # of a console that was killed
    bound = socket.socket(socket.AF_UNIX)
    before = os.umask(0o117)
    try:
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        raise ServingError(f"cannot listen on {path}: {error.strerror or error}") from error
    finally:
        os.umask(before)
    return bound
