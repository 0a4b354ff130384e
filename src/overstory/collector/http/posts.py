"""The entrance for posts, which no framework answers: bodies are read within one bound, and answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from overstory.collector.http.endpoint import Head, ReportEndpoint, read_head
from overstory.collector.ingest.ingest import JSON, Decision
from overstory.protocol.wire.reasons import Reason
from overstory.supervision.answers import Response
from overstory.supervision.bodies import Bodies, DisconnectedError, Receive

LONG: Final = 64 * 1024
"""A longer body that must be parsed or opened is worked on in another thread: the event loop serves others."""


class Entrance:
    """The entrance for posts to one path: `judge` says why a head is refused, or None; `work` answers a body."""

    def __init__(
        self,
        endpoint: ReportEndpoint,
        bodies: Bodies,
        judge: Callable[[Head], Reason | Response | None],
        work: Callable[[Head, bytes], Awaitable[Response]],
    ) -> None:
        self.endpoint, self.bodies, self._judge, self._work = endpoint, bodies, judge, work

    def refuse(self, head: Head) -> Response | None:
        why = self._judge(head)
        return self.endpoint.refuse(why, close=why is Reason.TOO_LARGE) if isinstance(why, Reason) else why

    async def answer(self, headers: Sequence[tuple[bytes, bytes]], receive: Receive) -> Response | None:
        """Read a post and return its answer; None where its sender has gone."""
        head = read_head(headers)
        refused = self.refuse(head)
        if refused is not None:
            return refused
        try:
            body = await self.bodies.read(receive, partial(self.endpoint.too_large, head))
            return self.endpoint.refuse(body, close=True) if isinstance(body, Reason) else await self._work(head, body)
        except DisconnectedError:
            return None
        except Exception as error:  # noqa: BLE001 - any error is the collector's, and the reports may come again
            return self.endpoint.fault(error)


class ReportEntrance(Entrance):
    """POST /v1/reports."""

    def __init__(self, endpoint: ReportEndpoint, bodies: Bodies) -> None:
        super().__init__(endpoint, bodies, endpoint.admit, self.post)

    async def post(self, head: Head, body: bytes, *, oblivious: bool = False) -> Response:
        """Decide about reports and commit them; `oblivious`: they came sealed, through a relay."""

        def decide() -> Decision:
            return self.endpoint.decide(head, body, oblivious=oblivious)

        # A few bytes can be inflated to megabytes.
        is_long = head.encoding not in {"", "identity"} or (len(body) > LONG and head.content_type == JSON)
        return await self.endpoint.taken(await self.bodies.in_thread(body, decide) if is_long else decide())

    def of_other_shards(self) -> Entrance:
        """Return the entrance of another shard than the collector's: it refuses each post before its body is read."""

        def judge(head: Head) -> Response:
            return self.endpoint.refuse(self.endpoint.admit(head) or Reason.WRONG_SHARD, close=True)

        return Entrance(self.endpoint, self.bodies, judge, self.post)
