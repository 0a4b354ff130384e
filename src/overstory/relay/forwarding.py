"""Passing each message on at once: its body to the gateway, and the body of the response back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from overstory.client.upload.http import Request, Response, Transport
from overstory.protocol.oblivious.messages import REQUEST_TYPE, RESPONSE_TYPE
from overstory.relay.connection import PROBLEM, Answer, problem

PATH: Final = "/v1/oblivious"
SECONDS: Final = 30.0
THREADS: Final = 64
"""Messages that are passed on at once; others wait for them."""

PASSED_BACK: Final = (RESPONSE_TYPE, PROBLEM)


class Forwarder:
    """Passes messages on to one gateway.

    Parameters
    ----------
    gateway
        The gateway's address, without the path.
    transport
        Sends one request.
    trouble
        Is called with a reason when a message could not be passed on.
    """

    def __init__(self, gateway: str, transport: Transport, trouble: Callable[[str], None]) -> None:
        self._url, self._transport, self._trouble = gateway + PATH, transport, trouble
        self._threads = ThreadPoolExecutor(THREADS, "overstory-relay")
        self._under_way = 0

    async def deliver(self, message: bytes) -> Answer:
        """Pass a message on, and return the answer to its sender."""
        request = Request(self._url, message, REQUEST_TYPE, timeout=SECONDS)
        self._under_way += 1
        try:
            response = await asyncio.get_running_loop().run_in_executor(self._threads, self._transport, request)
        finally:
            self._under_way -= 1
        return self._passed_back(response)

    def _passed_back(self, response: Response) -> Answer:
        """Return the class of the status, the media type and the body: nothing else comes from the gateway."""
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        readable = media_type in PASSED_BACK
        if response.status is not None and response.status // 100 == 2 and media_type == RESPONSE_TYPE:
            return Answer(200, media_type, response.body)
        if response.status is not None and response.status // 100 == 4:
            self._trouble(f"the gateway refused a message with {response.status}")
            return Answer(400, media_type if readable else "", response.body if readable else b"")
        self._trouble(response.error or f"the gateway answered with {response.status} {media_type}".rstrip())
        return problem(502, "the gateway does not answer as it should: send the message again later")

    def describe(self) -> dict[str, Any]:
        """Return facts of ``/healthz``."""
        return {"mode": "pass-through", "under_way": self._under_way}

    def close(self) -> None:
        """Wait for what is under way."""
        self._threads.shutdown()
