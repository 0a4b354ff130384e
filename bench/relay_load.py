"""How many messages a relay takes: `python bench/relay_load.py [--seconds 10] [--senders 16]`.

A real `overstory relay`, with `--spool` on a fresh spool on the disk, then passing messages on to a server that
answers at once, and a client over loopback that opens a connection for each message, as devices do. The machine's cores
are shared by all three.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from overstory.protocol.oblivious.formats import REQUEST_TYPE, RESPONSE_TYPE

SIZE = 567  # bytes of a message
RELAY = [sys.executable, "-m", "overstory", "relay", "--port", "0"]
LIMITS = {"PER_HOUR": "1000000", "PER_RELEASE": "1000000"}
ANSWER = (
    f"HTTP/1.1 200 OK\r\nContent-Type: {RESPONSE_TYPE}\r\nContent-Length: 560\r\nConnection: close\r\n\r\n".encode()
    + bytes(560)
)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one message, as a gateway that does nothing."""
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(SIZE)
    writer.write(ANSWER)
    await writer.drain()
    writer.close()


async def send(port: int, sender: str, until: float, seconds: list[float]) -> None:
    """Send one message after the other from one address, and note how long each took."""
    head = f"POST / HTTP/1.1\r\nHost: r\r\nContent-Type: {REQUEST_TYPE}\r\nContent-Length: {SIZE}\r\n\r\n"
    while time.perf_counter() < until:
        began = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(sender, 0))
        writer.write(head.encode() + os.urandom(SIZE))
        got = await reader.read()
        writer.close()
        if not got.startswith((b"HTTP/1.1 202", b"HTTP/1.1 200")):
            raise SystemExit(f"the relay answered {got[:100]!r}")
        seconds.append(time.perf_counter() - began)


def of_process(process: int, file: str) -> str:
    """Return what the system says of a process."""
    return Path(f"/proc/{process}/{file}").read_text()


async def measure(settings: dict[str, str], senders: int, seconds: float) -> dict[str, float]:
    """Run a relay, load it, and return what came of it."""
    gateway = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    url = f"http://127.0.0.1:{gateway.sockets[0].getsockname()[1]}"
    environ = os.environ | {f"OVERSTORY_RELAY_{name}": value for name, value in (LIMITS | settings).items()}
    relay = await asyncio.create_subprocess_exec(*RELAY, "--gateway", url, env=environ, stdout=subprocess.PIPE)
    assert relay.stdout is not None
    port = int((await relay.stdout.readline()).decode().rsplit(":", 1)[1])
    took: list[float] = []
    began = time.perf_counter()
    await asyncio.gather(*(send(port, f"127.0.1.{n + 1}", began + seconds, took) for n in range(senders)))
    elapsed = time.perf_counter() - began
    memory = int(of_process(relay.pid, "status").split("VmRSS:")[1].split()[0])
    used = sum(map(int, of_process(relay.pid, "stat").rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    relay.terminate()
    await relay.wait()
    gateway.close()
    took.sort()
    return {
        "messages per second": round(len(took) / elapsed),
        "milliseconds of a core for a message": round(1000 * used / len(took), 2),
        "milliseconds, median": round(1000 * took[len(took) // 2], 1),
        "milliseconds, 99%": round(1000 * took[len(took) * 99 // 100], 1),
        "memory of the relay, MB": round(memory / 1000, 1),
    }


def main() -> None:
    """Measure both kinds of relay."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--senders", type=int, default=16, help="addresses that send at once")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/var/tmp" if Path("/var/tmp").is_dir() else None) as folder:
        token = Path(folder) / "token"
        token.write_text("ovr_none")
        token.chmod(0o600)
        spool = {"SPOOL": f"{folder}/spool", "TOKEN_FILE": str(token), "CAPACITY": "200000", "EVERY": "30d"}
        results = {
            "shuffle": asyncio.run(measure(spool, args.senders, args.seconds)),
            "pass-through": asyncio.run(measure({}, args.senders, args.seconds)),
        }
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
