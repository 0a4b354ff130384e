"""A real collector for the demonstration: `overstory serve` in a process of its own, and a device's way to it."""

from __future__ import annotations

import http.client
import json
import secrets
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from overstory.protocol.errors import OverstoryError
from overstory.protocol.wire.upload import ID_BYTES, MEDIA_TYPE, Upload, encode_upload

READY: Final = "listening on http://"
PATIENCE: Final = 60.0


class ServiceError(OverstoryError):
    """The collector did not start, or refused what it was sent."""


class CollectorService:
    """A collector on a store, from entering to leaving the block; it starts while the caller goes on.

    Parameters
    ----------
    registry, store
        The metric registry, and the store: two files, or a database's address.
    """

    def __init__(self, registry: Path, store: Path | str, log: Path) -> None:
        self._command = [sys.executable, "-m", "overstory", "serve", "--registry", str(registry), "--store", str(store)]
        self._log = log
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            command = [*self._command, "--port", "0", "--open-writes"]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)  # noqa: S603
        return self

    def post(self, metric: str, period: int, reports: bytes) -> int:
        """Send one packed batch; return how many reports the collector has committed."""
        body = encode_upload(Upload(secrets.token_bytes(ID_BYTES), metric, period, reports))
        connection = self._connection = self._connection or self._connected()
        try:
            try:
                answer = _posted(connection, body)
            except ConnectionError:  # a collector closes what was idle for long: the same bytes, on a new connection
                connection.close()
                answer = _posted(connection, body)
            results = json.loads(answer.read())
        except (OSError, http.client.HTTPException) as error:
            raise ServiceError(f"the collector does not answer ({error}); see {self._log}") from error
        if answer.status != http.client.OK or results["results"][0]["rejected"]:
            raise ServiceError(f"the collector refused reports: {results}")
        return int(results["results"][0]["accepted"])

    def url(self) -> str:
        """Wait until the collector says where it listens, and return that."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if READY in line:
                return "http://" + line.split(READY)[1].split()[0].rstrip("/")
        raise ServiceError(f"the collector did not start; see {self._log}")

    def _connected(self) -> http.client.HTTPConnection:
        address = urlsplit(self.url())
        return http.client.HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()
        self._process.terminate()  # it commits what it was sent, and goes
        try:
            self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        if error is None and self._process.returncode:
            raise ServiceError(f"the collector ended with status {self._process.returncode}; see {self._log}")


def _posted(connection: http.client.HTTPConnection, body: bytes) -> http.client.HTTPResponse:
    connection.request("POST", "/v1/reports", body, {"Content-Type": MEDIA_TYPE})
    return connection.getresponse()
