"""The client: what a program embeds. It records in memory, and flushes to the disk and to the collector.

A client does not disturb its program: `record`, `flush`, `status` and `close` never raise (except a strict client's
`record`) and report problems in what they return. Before the first `record` there is no thread and no file.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, cast

from overstory.client.consent import UNASKED, Choice, Consent, EffectiveChoice, Permission, PermissionSources
from overstory.client.outcomes import MADE, Fault, Flushed, Outcome, StateError, WarnsOnce
from overstory.client.state.files import StatePaths, check_app, introduce, policy_file, state_folder
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from overstory.client.outcomes import Round
    from overstory.client.person.status import Status
    from overstory.client.session import Session
    from overstory.client.state.rows import Bounds
    from overstory.client.state.state import State
    from overstory.client.upload.delivery import Collector
    from overstory.client.upload.http import Transport
    from overstory.protocol.metrics import MetricRegistry

WEEK: Final = 7 * 86_400.0
EXIT_TIMEOUT: Final = 1.0  # seconds for which the exit of the program waits for other processes that hold the state
UNENCRYPTED: Final = "reports and the token travel unencrypted to %s: give an https:// address"
ONE_HOST: Final = "the relay and the collector are one host, %s, which sees both who sends and what is sent"


class Client:
    """One application's reports on one device.

    Parameters
    ----------
    app
        The application's name; its state is in a folder of that name.
    registry
        The metric registry that the program was built with: a file, a package's too, or a `MetricRegistry`.
    server
        The collector's address; None: reports are queued, and not sent. A gateway gives its way to send in its place.
    token
        The application's write token.
    state
        The folder of the state, where it is not the platform's.
    clock
        The time of day, in unix seconds.
    end_clock
        The time by which a metric ends and its key is destroyed, where `clock` follows something else than the day.
    environ
        The environment to be honoured: the process's, unless given.
    policy
        The administrator's policy file, where it is not the platform's.
    background
        Whether a daemon thread flushes; it starts with the first record.
    interval
        Seconds between the thread's rounds.
    spread
        The longest random delay before a report is sent, in seconds, which hides when it was recorded; None: the
        metric's period, six hours at most. 0 is for tests and demonstrations.
    transport
        How requests travel, instead of over HTTP.
    bounds
        How large the outbox may grow.
    groups
        Public facts such as ``{"release": "1.1"}``: a metric's reports name the one that it has groups by, in clear.
    strict
        Whether `record` raises ParameterError for a metric that the registry does not list and for a value outside its
        domain, also where the person has not consented: for tests and development.

    Raises
    ------
    ParameterError
        When a setting cannot be.
    FormatError
        When the registry cannot be read or has faults.

    Examples
    --------
    >>> import tempfile
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Client("themes", registry=parse_registry(EXAMPLE), state=folder, environ={}) as client:
    ...         before = client.record("colour", "red")
    ...         choice = client.consent("local").choice
    ...         after = client.record("colour", "red")
    >>> print(before, choice, after)
    not-asked local recorded
    """

    def __init__(
        self,
        app: str,
        registry: MetricRegistry | str | os.PathLike[str] | Traversable,
        *,
        server: str | Collector | None = None,
        token: str = "",
        state: str | os.PathLike[str] | None = None,
        clock: Callable[[], float] = time.time,
        end_clock: Callable[[], float] | None = None,
        environ: Mapping[str, str] | None = None,
        policy: str | os.PathLike[str] | None = None,
        background: bool = False,
        interval: float = 60.0,
        spread: float | None = None,
        transport: Transport | None = None,
        bounds: Bounds | None = None,
        groups: Mapping[str, str] | None = None,
        strict: bool = False,
    ) -> None:
        self.app, self.registry = check_app(app), read_registry(registry)
        environ = os.environ if environ is None else environ
        self.paths = StatePaths(Path(state) if state is not None else state_folder(app, environ))
        self._collector = None if server is None or isinstance(server, str) else server
        address = self._collector.server if self._collector is not None else cast("str | None", server)
        if self._collector is not None and (token or transport is not None):
            raise ParameterError("token, transport: this server is a Collector, which has its own")
        if address is not None:
            from overstory.client.upload.http import endpoint
            from overstory.protocol.wire.reasons import check_token

            endpoint(address)
            check_token(token)
        self._server, self._token, self._transport, self._environ = address, token, transport, environ
        self._clock, self._end_clock, self._bounds = clock, end_clock or clock, bounds
        self._spread = None if spread is None else seconds("spread", spread, 0.0, WEEK)
        interval = seconds("interval", interval, 0.01, WEEK)
        self._background = Background(self.flush, interval) if background else None
        self._sources = PermissionSources(self.paths, environ, policy_file(environ) if policy is None else Path(policy))
        self._permission = Permission(self._sources, self.registry, address)
        self._warn, self._strict = WarnsOnce(), strict
        self._notes = warn_of_clear(self._warn, address, self.registry)
        self._groups = check_groups(self._warn, self.registry, groups or {})
        self._closed = self._introduced = False
        self._session: Session | None = None  # None before anything was recorded or went wrong
        self._starting, self._sending, self._process = threading.Lock(), threading.Lock(), os.getpid()

    def __repr__(self) -> str:
        return f"Client({self.app!r}, state={os.fspath(self.paths.folder)!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Client is not pickled: build one in each process, they share the state on disk")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, metric: str, value: Any) -> Outcome:
        """Record a value: randomize it and hold the report in memory; never waits for the network, and never raises.

        A mistyped metric or value is logged once. Python's development mode (``-X dev``) shows it as a warning, before
        anybody has consented, too; a strict client raises.

        Parameters
        ----------
        metric
            The metric's id.
        value
            What its domain takes. It is not stored.

        Returns
        -------
        Outcome
            What was done.

        Raises
        ------
        ParameterError
            When the client is strict and the metric is not listed, or the value is outside its domain.
        """
        if self._strict or sys.flags.dev_mode:
            warn_of_mistake(self._warn, self.registry, metric, value, strict=self._strict)
        try:
            return self._record(metric, value)
        except Exception as error:  # noqa: BLE001 - no error of ours may reach the host program
            elsewhere = self._note(error, "recording").fault is Fault.ELSEWHERE
            return Outcome.NOT_ASKED if elsewhere else Outcome.UNAVAILABLE

    def flush(self, timeout: float = 5.0) -> Flushed:
        """Write what is in memory to the disk, durably, then send what is due; never raises.

        Parameters
        ----------
        timeout
            Upper bound in seconds for writing and sending together; a gateway's request that has begun by then is
            waited for.
        """
        written: Mapping[str, int] = {}
        sent: Round | None = None
        try:
            until = time.monotonic() + timeout
            self._notice_fork()
            if self._session is not None:
                written = self._session.flush(self._sources, max(timeout, 0.0))
            consent = self._permission.sends()
            if self.paths.database.exists():
                if self._server is not None and consent is not None:
                    sent = self._deliver(self._server, until - time.monotonic())
                self._begun().retire_hourly()
        except Exception as error:  # noqa: BLE001 - no error of ours may reach the host program
            return Flushed(written, sent, str(self._note(error, "flushing")))
        return Flushed(written, sent)

    def status(self) -> Status:
        """Say what may be done and why, what waits, and what went wrong; never raises."""
        from overstory.client.person.status import Status, read_status

        effective = EffectiveChoice(Choice.OFF, "it cannot be found out", None)
        memory = {} if self._session is None else self._session.to_show()
        try:
            effective, now = self._sources.now(), self._clock()
            server = self._permission.server
            status = read_status(self.paths, self.registry, effective, now=now, server=server, **memory)
            return replace(status, notes=(*status.notes, *self._notes))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            problem = memory.get("problem") or str(error)
            return Status(effective, {}, self.paths.folder, memory.get("pending", 0), problem=problem)

    def consent(self, choice: Choice | str, *, moved: bool = False) -> Consent:
        """Make the person's choice, for this registry and collector; see `overstory.client.consent.choose`.

        Parameters
        ----------
        choice
            "on", "local" or "off".
        moved
            Where the state was begun on another machine: that this machine replaces it.

        Raises
        ------
        ParameterError
            When there is no such choice.
        ConsentError, StateError
            When it cannot be kept. After an "off" or a "local" that cannot, this client records nothing all the same.
        """
        today = datetime.fromtimestamp(self._clock(), UTC).date()
        consent = self._permission.choose(self.paths, choice, today, moved=moved)
        self._introduce()
        return consent

    def close(self, timeout: float = 5.0) -> None:
        """Flush, and end the background thread; never raises. A closed client records nothing."""
        if self._closed:
            return
        timeout = timeout if isinstance(timeout, int | float) else 5.0
        self.flush(timeout)
        self._closed = True
        if self._background is not None:
            self._background.stop(min(1.0, timeout))
        atexit.unregister(self._at_exit)

    @property
    def effective(self) -> EffectiveChoice:
        """What may be done now, and its cause."""
        return self._sources.now()

    @property
    def fault(self) -> Fault | None:
        """Why the state could not be used when it was last needed; None when it could."""
        error = None if self._session is None else self._session.last_error
        return None if error is None else error.fault

    def _record(self, name: str, value: Any) -> Outcome:
        if self._closed:
            return Outcome.CLOSED
        metric = self.registry.metrics.get(name) if isinstance(name, str) else None
        if metric is None:
            warn_of_unknown(self._warn, self.registry)
            return Outcome.UNKNOWN
        allowed = self._sources.now()
        if not self._introduced and (allowed.choice is not Choice.OFF or allowed.cause == UNASKED):
            self._introduce()
        refusal = self._permission.refusal(metric, allowed)
        if refusal is not None:
            return refusal
        self._notice_fork()
        try:
            outcome = (self._session or self._begun()).record(metric, value, self._clock(), allowed)
        except ParameterError:
            self._warn(f"period {metric.id}", "%s: this time has no period; set the clock right", metric.id)
            return Outcome.PAST
        if outcome is Outcome.UNFIT:
            warn_of_unfit(self._warn, metric.id)
        if outcome in MADE and self._background is not None:
            self._background.wake()
        return outcome

    def _introduce(self) -> None:
        """Leave what is public where the person's commands look for it; recording does not need it."""
        self._introduced = True
        with contextlib.suppress(OSError, StateError):
            introduce(self.paths, self.app, self.registry, self._permission.server)

    def _begun(self) -> Session:
        """Return the session; the first call makes it, and nothing is opened yet."""
        from overstory.client.session import Session
        from overstory.client.state.state import watch

        with self._starting:
            if self._session is None:
                watch(self)  # without a session, `_notice_fork` is enough
                clock, groups = self._end_clock, self._groups
                self._session = Session(self._state(), self.registry, clock, groups, spread=self._spread)
                atexit.register(self._at_exit)
            return self._session

    def _state(self) -> State:
        from overstory.client.state.state import State

        return State(self.paths, bounds=self._bounds)

    def _deliver(self, server: str, seconds: float) -> Round | None:
        """Send what is due, within a time limit; None where another thread is sending."""
        from overstory.client.upload.delivery import Collector
        from overstory.client.upload.http import http_transport

        state, permission = self._state(), self._permission
        if self._collector is not None:  # nobody waits for a gateway's call to return: it may wait for the database
            state.timeout = 10.0
        if not self._sending.acquire(blocking=False):
            return None
        try:
            transport = self._transport or http_transport(self._environ)
            to = self._collector or Collector(server, transport, self._token, clock=self._clock)
            permit, covers = permission.sends, permission.may_send
            state.check_machine()
            return to.send_due(state, self.registry, seconds=seconds, permit=permit, covers=covers)
        finally:
            self._sending.release()

    def after_fork(self) -> None:
        """Continue in a child: its own locks, no thread, and none of the parent's queue."""
        self._starting, self._sending, self._process = threading.Lock(), threading.Lock(), os.getpid()
        for part in (self._background, self._session):
            if part is not None:
                part.after_fork()

    def _notice_fork(self) -> None:
        if os.getpid() != self._process:  # forked without Python's knowledge
            self.after_fork()

    def _at_exit(self) -> None:
        """Write what is in memory; nothing is sent, the next run sends it. Never raises."""
        try:
            if self._session is not None:
                self._session.flush(self._sources, EXIT_TIMEOUT)
        except Exception as error:  # noqa: BLE001 - the program is ending
            self._warn("exit", "what was not flushed is lost: %s", type(error).__name__)

    def _note(self, error: Exception, doing: str) -> StateError:
        """Warn of an error and keep it for `status`; it was raised below `record`, so its frames hold the value."""
        if isinstance(error, StateError):
            noted = StateError(error.fault, str(error))
            self._warn(f"state {noted.fault}", "%s", str(noted))
        else:  # its message might hold the value: only its kind is passed on
            noted = StateError(Fault.UNREADABLE, f"{doing} failed: {type(error).__name__}")
            self._warn(str(noted), "%s", str(noted))
        self._begun().last_error = noted
        return noted


# --- checks of settings and calls -------------------------------------------------------------------------------------


def read_registry(registry: MetricRegistry | str | os.PathLike[str] | Traversable) -> MetricRegistry:
    """Return a registry, read from its file if need be, a package's too; a device has no use for candidates."""
    if isinstance(getattr(registry, "metrics", None), Mapping):
        return cast("MetricRegistry", registry)
    if not isinstance(registry, str | os.PathLike) and not hasattr(registry, "read_bytes"):
        raise ParameterError(f"registry: give a file or a MetricRegistry, not {type(registry).__name__}")
    from overstory.protocol.metrics import load_registry

    try:
        return load_registry(cast("str | os.PathLike[str] | Traversable", registry), read_candidates=False)
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", source=str(registry)) from error


def warn_of_mistake(warn: WarnsOnce, registry: MetricRegistry, name: object, value: object, *, strict: bool) -> None:
    """Warn of a wrong name of a metric, or a value outside its domain; where the client is strict, raise that."""
    from overstory.protocol.errors import suggestion
    from overstory.protocol.metrics.registry import UnknownMetricError

    try:
        if not isinstance(name, str):
            raise UnknownMetricError(f"a metric is named by a string, not by {type(name).__name__}")
        metric = registry[name]
        try:
            metric.encode(value)
        except Exception as error:  # noqa: BLE001 - a value of the program's own class may raise anything
            raise ParameterError(f"{name}: {error}{suggestion(value, metric.domain.choices)}") from None
    except ParameterError as wrong:
        if strict:
            raise
        if isinstance(wrong, UnknownMetricError):
            warn_of_unknown(warn, registry)
        else:
            warn_of_unfit(warn, str(name))


def warn_of_unknown(warn: WarnsOnce, registry: MetricRegistry) -> None:
    """Warn of a metric that is not listed. Its name is not logged: in a call with swapped arguments it is the value."""
    listed = ", ".join(registry.metrics)
    warn("metric", "a metric that the registry does not list was not recorded; it lists %s", listed)


def warn_of_unfit(warn: WarnsOnce, name: str) -> None:
    """Warn of a value outside a metric's domain; it is not logged."""
    warn(f"unfit {name}", "a value is outside the domain of %s: reported as nothing", name)


def warn_of_clear(warn: WarnsOnce, server: str | None, registry: MetricRegistry) -> tuple[str, ...]:
    """Warn of a collector that is not reached over HTTPS, or is its own relay; return the notes for the person."""
    from overstory.protocol.wire import shared_host, unencrypted_host

    relay = None if registry.oblivious is None else registry.oblivious.relay
    hosts = {UNENCRYPTED: unencrypted_host(server), ONE_HOST: relay and shared_host(relay, server)}
    notes = tuple(note % host for note, host in hosts.items() if host)
    for note in notes:
        warn(f"clear {note}", "%s", note)
    return notes


def check_groups(warn: WarnsOnce, registry: MetricRegistry, groups: Mapping[str, str]) -> Mapping[str, str]:
    """Return the facts that decide on groups; warn where a metric has groups by one that is not given."""
    if not isinstance(groups, Mapping) or not all(isinstance(text, str) for pair in groups.items() for text in pair):
        raise ParameterError(f'groups = {groups!r:.100}: give texts by name, such as {{"release": "1.1"}}')
    by = sorted({metric.groups.by for metric in registry.metrics.values() if metric.groups is not None})
    for name in by:
        if name not in groups:
            warn(f"groups {name}", "no group by %s is given: reports name the group other", name)
    return dict(groups)


def seconds(name: str, value: float, least: float, most: float) -> float:
    """Return a setting in seconds, or raise ParameterError when it is out of range."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise ParameterError(f"{name} = {value!r}: give seconds, from {least:g} to {most:g}")
    return float(value)


GATHER: Final = 1.0  # seconds between a report and its flush, so that reports of one moment share a transaction


class Background:
    """A daemon thread that calls `flush`; it starts when first woken, and does not delay the exit of the program."""

    def __init__(self, flush: Callable[[], object], interval: float) -> None:
        self._flush, self._interval = flush, interval
        self.after_fork()

    def after_fork(self) -> None:
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._news, self._stop = threading.Event(), threading.Event()

    def wake(self) -> None:
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="overstory", daemon=True)
                    self._thread.start()
        self._news.set()

    def stop(self, timeout: float) -> None:
        self._stop.set()
        self._news.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.is_set():
            if self._news.wait(self._interval):
                self._stop.wait(min(GATHER, self._interval))
            self._news.clear()
            if not self._stop.is_set():
                self._flush()
