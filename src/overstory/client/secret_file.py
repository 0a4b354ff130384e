"""The device's secret on disk: from it follow the cohort and every permanent response, so it is made once and kept.

    magic "OVSS" | version u8 = 1 | 3 zero bytes | secret 32 bytes | the first 12 bytes of BLAKE2b of all the above

Its fingerprint stands in the database beside it. A secret that is lost or altered is told from a device that never had
one, and is never replaced silently: a fresh one would draw every permanent response again, and with it the privacy
loss of every value would begin anew.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final, NoReturn

from overstory.client.atomic import create
from overstory.client.errors import Fault, StateError

SECRET_BYTES: Final = 32
_HEAD: Final = b"OVSS\x01\0\0\0"
_CHECK: Final = 12


class DeviceSecret:
    """A secret that neither `repr` nor pickle gives away.

    Parameters
    ----------
    raw
        Its 32 bytes.

    Examples
    --------
    >>> DeviceSecret(bytes(32))
    DeviceSecret(fingerprint=ed882494)
    """

    __slots__ = ("_raw", "fingerprint")

    def __init__(self, raw: bytes) -> None:
        if len(raw) != SECRET_BYTES:
            raise ValueError(f"a device secret has {SECRET_BYTES} bytes")
        self._raw = raw
        self.fingerprint = hashlib.blake2b(raw, digest_size=16, person=b"fingerprint").digest()

    @classmethod
    def fresh(cls) -> DeviceSecret:
        """Return a new secret from the system's randomness."""
        return cls(os.urandom(SECRET_BYTES))

    def reveal(self) -> bytes:
        """Return the bytes, for the randomizer and for tags."""
        return self._raw

    def __repr__(self) -> str:
        return f"DeviceSecret(fingerprint={self.fingerprint.hex()[:8]})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a device's secret is not pickled: open the state where it is needed")


def read_secret(path: Path) -> DeviceSecret | None:
    """Return the secret in a file, or None when there is no file.

    Raises
    ------
    StateError
        `damaged` when the file is not what was written, `unreadable` when it cannot be opened.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(Fault.UNREADABLE, f"{path}: {error.strerror}; it must be readable by its owner") from error
    head, raw, check = content[: len(_HEAD)], content[len(_HEAD) : -_CHECK], content[-_CHECK:]
    if head != _HEAD or len(raw) != SECRET_BYTES or check != _checksum(head + raw):
        raise StateError(
            Fault.DAMAGED,
            f"{path}: this is not the secret that was written; restore it from a backup, or forget the whole state: "
            "a fresh secret would restart the privacy loss",
        )
    return DeviceSecret(raw)


def write_secret(path: Path, secret: DeviceSecret) -> None:
    """Write a secret to a new file.

    Raises
    ------
    OSError
        When the file exists, or cannot be written.
    """
    body = _HEAD + secret.reveal()
    create(path, body + _checksum(body))


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, person=b"secret file").digest()[:_CHECK]
