"""The person's choice: on, local or off; made on a day, for the metrics of a registry as they were then.

`on` records and sends. `local` records, so that a person can see what would be sent, and never sends it, also not after
a later `on`. `off` records nothing. Nobody asked is like `off`, and says so.

A metric that was not there when the person chose, or whose meaning or privacy has changed since, is not covered by the
choice: the program asks again.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from overstory.client.atomic import make_folder, overwrite, sync_folder, write_atomically
from overstory.client.errors import ConsentError, StateError
from overstory.client.ownership import refuse_foreign
from overstory.client.paths import StatePaths
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric, MetricRegistry

VERSION: Final = 1


class Choice(StrEnum):
    """What may be done, from least to most."""

    OFF = "off"
    LOCAL = "local"
    ON = "on"

    @property
    def rank(self) -> int:
        """How much is allowed: 0, 1 or 2."""
        return list(Choice).index(self)


@dataclass(frozen=True)
class Consent:
    """A choice, as it stands in consent.json.

    Attributes
    ----------
    choice
        What the person chose.
    date
        The day, ISO 8601, UTC.
    registry
        The version of the registry that was shown.
    metrics
        The digest, in hexadecimal, of each metric that it listed, by id.
    mark
        Random: choices that differ in it do not vouch for each other's reports.
    """

    choice: Choice
    date: str
    registry: str
    metrics: Mapping[str, str]
    mark: str

    def covers(self, metric: str, digest: bytes) -> bool:
        """Whether the choice was made about this metric, as it is."""
        return self.metrics.get(metric) == digest.hex()

    def missing(self, registry: Mapping[str, Metric]) -> tuple[str, ...]:
        """Return the ids of metrics that the program has to ask about again: none after `off`, which is about all."""
        if self.choice is Choice.OFF:
            return ()
        return tuple(name for name, metric in registry.items() if not self.covers(name, metric.digest))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        about = {"choice": str(self.choice), "date": self.date, "registry": self.registry}
        return {"consent": VERSION, **about, "metrics": dict(self.metrics), "mark": self.mark}


def read_consent(paths: StatePaths) -> Consent | None:
    """Return the person's choice, or None when nobody was asked yet.

    Raises
    ------
    ConsentError
        When the file is not what was written, or cannot be read: to be taken as `off`.
    """
    try:
        content = paths.consent.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConsentError(f"{paths.consent}: {error.strerror}; nothing is recorded until it can be read") from error
    try:
        return _from_json(json.loads(content))
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        raise ConsentError(
            f"{paths.consent}: this is not a choice that was written here; nothing is recorded until one is made again"
        ) from error


def _from_json(read: Any) -> Consent:
    if read["consent"] != VERSION:
        raise ValueError("a later version's")
    texts = [read[name] for name in ("date", "registry", "mark")]
    metrics = MappingProxyType(dict(read["metrics"]))
    if not all(isinstance(text, str) for text in (*texts, *metrics, *metrics.values())):
        raise TypeError("not text")
    date.fromisoformat(read["date"])
    return Consent(Choice(read["choice"]), texts[0], texts[1], metrics, texts[2])


def choose(
    paths: StatePaths, registry: MetricRegistry, choice: Choice | str, today: date, *, moved: bool = False
) -> Consent:
    """Make a choice: the one way to change consent.json.

    What waits to be sent never outlives the consent that it was recorded under: it is dropped by `off`, kept from
    being sent for ever by `local`, and does not come back with a later `on`.

    Where there is no room for a new file, as on a full disk, a choice that allows less is written over the one before.
    `off` holds even where that cannot be: the choice before is deleted, and it is as if nobody had been asked.

    Parameters
    ----------
    paths
        The state.
    registry
        What was shown to the person.
    choice
        "on", "local" or "off".
    today
        The day of the choice, UTC.
    moved
        Where the state was begun on another machine: that this one replaces it, secret and ledger included.

    Raises
    ------
    ParameterError
        When there is no such choice.
    ConsentError
        When it cannot be kept; the choice before stands.
    StateError
        When the choice is `on` and an earlier consent's reports cannot be withdrawn; and for any but `off`, when the
        folder is another user's or open to others, or the state was begun on another machine and has not `moved`. The
        choice before stands.
    """
    if choice not in list(Choice):
        raise ParameterError(f"choice = {choice!r}: choose one of {', '.join(Choice)}")
    if choice != Choice.OFF:
        refuse_foreign(paths)
        _settle_machine(paths, moved=moved)
    chosen, before = Choice(choice), _before(paths)
    renewed = before is not None and before.choice is Choice.ON and chosen is Choice.ON
    listed = MappingProxyType({name: metric.digest.hex() for name, metric in registry.items()})
    mark = before.mark if before is not None and renewed else secrets.token_hex(8)
    consent = Consent(chosen, today.isoformat(), registry.version, listed, mark)
    if chosen is Choice.ON and not renewed:
        _withdraw(paths, Choice.OFF)
    _write(paths, consent)
    if chosen is not Choice.ON:
        # First the file, then the rows: a flush that comes between them reads the file inside its transaction. Should
        # the rows be out of reach, nothing sends them meanwhile, and a later `on` withdraws them first.
        with contextlib.suppress(StateError):
            _withdraw(paths, chosen)
    return consent


def _settle_machine(paths: StatePaths, *, moved: bool) -> None:
    from overstory.client.state import State

    state = State(paths)
    if moved:
        state.move_here()
    else:
        state.check_machine()


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
    """Put `off` or `local` into force without a new file; return False when the choice before still stands."""
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


def _withdraw(paths: StatePaths, choice: Choice) -> None:
    from overstory.client.outbox import RowState
    from overstory.client.state import State

    state = State(paths)
    if state.exists:
        to = RowState.LOCAL if choice is Choice.LOCAL else RowState.DROPPED
        with state.transaction() as rows:
            rows.outbox.withdraw(to, "consent withdrawn")
