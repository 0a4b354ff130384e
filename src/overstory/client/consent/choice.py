"""Makes the person's choice: writes consent.json, and withdraws what waits and is no longer covered."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Mapping
from datetime import date
from types import MappingProxyType
from typing import TYPE_CHECKING

from overstory.client.consent.consent import Agreement, Choice, Consent, origin, pinned, read_consent
from overstory.client.outcomes import ConsentError, Fault, StateError
from overstory.client.state.files import make_folder, overwrite, refuse_foreign, sync_folder, write_atomically
from overstory.client.state.paths import StatePaths
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.protocol.metrics import MetricRegistry


def choose(
    paths: StatePaths,
    registry: MetricRegistry,
    choice: Choice | str,
    today: date,
    *,
    server: str | None = None,
    moved: bool = False,
) -> Consent:
    """Make a choice: the one way to change consent.json.

    What waits to be sent never outlives the consent that it was recorded under: it is dropped by `off`, kept from
    being sent by `local`, and does not come back with a later `on`. An `on` after an `on` drops what waits of metrics
    that it does not cover as they were, and everything where it names another collector.

    Where there is no room for a new file, as on a full disk, a choice that allows less is written over the one before.
    `off` holds even where that cannot be: the choice before is deleted, and it is as if nobody had been asked.

    Parameters
    ----------
    today
        The day of the choice, UTC.
    moved
        Where the state was begun on another machine: that this one replaces it, secret and ledger included.
    """
    if choice not in list(Choice):
        raise ParameterError(f"choice = {choice!r}: choose one of {', '.join(Choice)}")
    chosen, before = Choice(choice), _before(paths)
    if chosen is not Choice.OFF:
        refuse_foreign(paths)
        _settle_machine(paths, moved=moved, narrows=before is not None and chosen.rank < before.choice.rank)
    named = None if server is None else origin(server)
    listed = MappingProxyType({name: Agreement.to(metric, registry.oblivious) for name, metric in registry.items()})
    renewed = None if chosen is not Choice.ON or before is None else _renewed(paths, before, listed, named)
    consent_id = os.urandom(8).hex() if before is None or renewed is None else before.consent_id
    if renewed is not None and before is not None and named is None:
        named = before.server
    consent = Consent(chosen, today.isoformat(), registry.version, listed, consent_id, named, registry.budget)
    # Where the list is the same, both choices cover the metrics of all that waits.
    narrowed = renewed is None or before is None or not set(renewed) == set(before.metrics) == set(listed)
    if chosen is Choice.ON and narrowed:
        _withdraw(paths, Choice.OFF, renewed or ())
    _write(paths, consent)
    # First the file, then the rows: a flush that comes between them reads the file inside its transaction. Should the
    # rows be out of reach, nothing sends them meanwhile, and a later `on` withdraws them first.
    with contextlib.suppress(StateError):
        if chosen is not Choice.ON:
            _withdraw(paths, chosen)
        elif narrowed:
            _withdraw(paths, Choice.OFF, tuple(listed))
    return consent


def _settle_machine(paths: StatePaths, *, moved: bool, narrows: bool) -> None:
    from overstory.client.state.state import State

    state = State(paths)
    try:
        if moved:
            state.move_here()
        else:
            state.check_machine()
    except StateError as error:
        # A database that is busy or damaged keeps nobody from allowing less. One that could not be moved stays the
        # other machine's, and records nothing.
        if not narrows or error.fault in {Fault.ELSEWHERE, Fault.FOREIGN}:
            raise


def _renewed(
    paths: StatePaths, before: Consent, listed: Mapping[str, Agreement], server: str | None
) -> tuple[str, ...] | None:
    """Return the metrics of which an `on` after this choice covers what waits as well; None where it begins afresh."""
    if before.choice is not Choice.ON or before.earlier:
        return None
    if server is not None and _collector(paths, before) not in {None, server}:
        return None
    return tuple(n for n, agreed in before.metrics.items() if n in listed and listed[n].digest == agreed.digest)


def _collector(paths: StatePaths, consent: Consent) -> str | None:
    from overstory.client.state.state import State

    state = State(paths)
    if consent.server is not None or not state.exists:
        return consent.server
    with state.snapshot() as rows:
        return pinned(rows, consent)


def _before(paths: StatePaths) -> Consent | None:
    try:
        return read_consent(paths)
    except ConsentError:
        return None


def _write(paths: StatePaths, consent: Consent) -> None:
    try:
        make_folder(paths.folder)
        write_atomically(paths.consent, json.dumps(consent.to_json(), indent=1).encode())
    except OSError as error:
        if consent.choice is Choice.ON or not _forbidden(paths, consent):
            raise ConsentError(f"{paths.consent}: the choice cannot be written: {error.strerror or error}") from error


def _forbidden(paths: StatePaths, consent: Consent) -> bool:
    """Put `off` or `local` into force without a new file; return False when the earlier choice still applies."""
    with contextlib.suppress(OSError):
        # Shorter than what `_write` wrote about as many metrics. Half of it is no choice, and so `off` too.
        overwrite(paths.consent, json.dumps(consent.to_json(), separators=(",", ":")).encode())
        return True
    if consent.choice is Choice.OFF:
        with contextlib.suppress(OSError):
            paths.consent.unlink(missing_ok=True)
            sync_folder(paths.folder)
            return True
    return False


def _withdraw(paths: StatePaths, choice: Choice, spared: Collection[str] = ()) -> None:
    """Keep what waits from being sent, but for some metrics' reports."""
    from overstory.client.state.outbox import RowState
    from overstory.client.state.state import State

    state = State(paths)
    if state.exists:
        to = RowState.LOCAL if choice is Choice.LOCAL else RowState.DROPPED
        with state.transaction() as rows:
            withdrawn = rows.outbox.withdraw(to, "consent withdrawn", spared)
            if withdrawn and to is RowState.DROPPED:
                rows.count("withdrawn", withdrawn)
