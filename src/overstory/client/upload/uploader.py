"""Sends a client's reports to its collector: checks address and token at once, and builds the sender when needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from overstory.client.consent.consent import Consent
    from overstory.client.consent.policy import Permission
    from overstory.client.state.state import Rows, State
    from overstory.client.upload.delivery import Round
    from overstory.client.upload.http import Transport
    from overstory.protocol.metrics import MetricRegistry

UNENCRYPTED: Final = "reports and the token travel unencrypted to %s: give an https:// address"
ONE_HOST: Final = "the relay and the collector are one host, %s, which sees both who sends and what is sent"


class Uploader:
    """Sends a client's reports to one collector, by one thread at a time.

    Parameters
    ----------
    transport
        How requests travel; None: over HTTP, through the proxy that `environ` names.
    clock
        The time of day, in unix seconds.
    """

    def __init__(
        self,
        server: str,
        token: str,
        transport: Transport | None,
        clock: Callable[[], float],
        environ: Mapping[str, str],
    ) -> None:
        from overstory.client.upload.http import endpoint
        from overstory.protocol.wire.reasons import check_token

        endpoint(server)
        check_token(token)
        self._server, self._token = server, token
        self._transport, self._clock, self._environ = transport, clock, environ
        self.after_fork()

    def after_fork(self) -> None:
        """Continue in a child, where no other thread is sending."""
        self._sending = threading.Lock()

    def deliver(
        self,
        state: State,
        registry: MetricRegistry,
        permission: Permission,
        consent: Consent,
        *,
        seconds: float,
    ) -> Round | None:
        """Send what is due under a consent, within a time limit; None where another thread is sending."""
        if not self._sending.acquire(blocking=False):
            return None
        from overstory.client.upload.http import http_transport
        from overstory.client.upload.sender import ReportSender

        def prepare(rows: Rows) -> None:
            state.check_machine(rows)
            permission.meet(rows, consent)

        try:
            transport = self._transport or http_transport(self._environ)
            sender = ReportSender(self._server, transport, self._token, clock=self._clock)
            permit, covers = permission.sends, permission.may_send
            return sender.deliver(state, registry, seconds=seconds, permit=permit, covers=covers, prepare=prepare)
        finally:
            self._sending.release()
