"""Which machine a state is on: a state that was copied to another one says so, and asks.

A copy of a state has the same secret. Whoever has the image that it was copied from, or any other copy, can read the
reports of all of them; so a copy records and sends nothing until somebody says what it is: the same device, moved
(``on --moved``), or another one, which begins again (``forget``).

What is kept is a hash of the machine's own id, keyed with the fingerprint of the device's secret. It is never sent, and
says nothing of the secret. A machine without an id (a container whose image leaves it empty) is not checked.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from typing import Final

from overstory.client.errors import Fault, StateError

PLACES: Final = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
UNSET: Final = frozenset({"", "uninitialized"})
MARK_BYTES: Final = 16

ELSEWHERE: Final = (
    "this state was begun on another machine; if this machine replaces that one, say so: overstory on --moved; if it "
    "is another device, begin again: overstory forget, then overstory on"
)

UNCHECKED: Final = "this machine has no id of its own, so a copy of this state on another one would not be noticed"


@cache
def machine_id(platform: str = sys.platform) -> str | None:
    """Return the machine's own id, or None where there is none that can be read; a process asks once."""
    found = _windows() if platform == "win32" else _mac() if platform == "darwin" else _linux()
    return None if found in UNSET else found


def mark_of(fingerprint: bytes) -> bytes | None:
    """Return what a state keeps of the machine that it is on; None where the machine has no id.

    Parameters
    ----------
    fingerprint
        Of the device's secret: the marks of two devices on one machine differ.
    """
    found = machine_id()
    if found is None:
        return None
    return hashlib.blake2b(found.encode(), digest_size=MARK_BYTES, key=fingerprint, person=b"machine").digest()


def elsewhere(folder: Path) -> StateError:
    """Return the error of a state that was begun on another machine."""
    return StateError(Fault.ELSEWHERE, f"{folder}: {ELSEWHERE}")


def _linux() -> str:
    for place in PLACES:
        try:
            found = place.read_text("ascii", "replace").strip()
        except OSError:
            continue
        if found not in UNSET:
            return found
    return ""


def _windows() -> str:
    try:
        import winreg

        path = r"SOFTWARE\Microsoft\Cryptography"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:  # type: ignore[attr-defined,unused-ignore]
            return str(winreg.QueryValueEx(key, "MachineGuid")[0])  # type: ignore[attr-defined,unused-ignore]
    except (ImportError, OSError):
        return ""


def _mac() -> str:
    import re
    import subprocess

    asked = ("/usr/sbin/ioreg", "-rd1", "-c", "IOPlatformExpertDevice")
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=5, check=True).stdout  # noqa: S603 - ours
    except (OSError, ValueError, subprocess.SubprocessError):  # ValueError: what it wrote is no text
        return ""
    found = re.search(r'"IOPlatformUUID" = "([^"]+)"', said)
    return "" if found is None else found[1]
