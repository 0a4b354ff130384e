"""Once `record` has returned, nothing that the client holds is a true value, or a true encoding."""

import subprocess
import sys
from pathlib import Path

import pytest

from overstory.client import Outcome
from overstory.client.state.state import State
from support.devices import Clock, device, registry
from support.reachable import reachable_objects

WIDE = 'domain = {kind = "integers", min = 0, max = 99999}\nperiod = "day"\n'
TEXT = "a private page, 7f3a"
NUMBERS = (41_871, 41_872, 53_001)
METRICS = {
    "text": 'domain = {kind = "strings"}\noracle = "rappor"\nperiod = "day"\n',
    "open": 'domain = {kind = "strings"}\noracle = "rappor"\nperiod = "day"\nparameters = {f = 0.0}\n',
    "hashed": WIDE + 'oracle = "loloha"\nparameters = {epsilon_permanent = 2.0, epsilon_report = 1.0}\n',
    "window": WIDE.replace("99999", "59999") + 'oracle = "opt-wb"\nparameters = {epsilon = 1.0, window = 4}\n',
    "nearest": WIDE + 'oracle = "grr"\nparameters = {epsilon = 4.0}\nmax_values = 1\nover_cap = "nearest"\n',
    "first": WIDE + 'oracle = "grr"\nparameters = {epsilon = 4.0}\nmax_values = 1\nover_cap = "first"\n',
}


def true_things(client):
    """Whatever a client reaches that is, or holds, one of the values."""
    needles = (TEXT, TEXT.encode(), *NUMBERS)
    return [one for one in reachable_objects(client) if isinstance(one, str | bytes | int) and one in needles]


def used(folder, **entries):
    clock = Clock()
    client = device(folder, clock=clock, registry=registry(**entries))
    for day in range(3):
        for name in client.registry:
            outcome = client.record(name, TEXT if name in ("text", "open") else NUMBERS[day])
            assert outcome in (Outcome.RECORDED, Outcome.CAPPED)
        client.flush()
        clock.tomorrow()
    assert client.record("hashed", TEXT) is Outcome.UNFIT
    return client


def test_no_value_is_reached_from_a_client(tmp_path):
    client = used(tmp_path, **METRICS)
    assert true_things(client) == []
    client.close()
    assert true_things(client) == []


def test_no_value_is_reached_after_the_state_has_failed(tmp_path):
    """An error that is kept, to be shown, keeps the frames it was raised in: the value is a local of them."""
    client = device(tmp_path, clock=Clock(), registry=registry(**METRICS))
    client.paths.folder.mkdir(exist_ok=True)
    State(client.paths).begin()
    client.paths.secret.write_bytes(b"damaged")
    for _ in range(2):
        assert client.record("text", TEXT) is Outcome.UNAVAILABLE
    assert client.status().problem
    assert true_things(client) == []


def test_the_walk_finds_what_a_client_keeps(tmp_path):
    client = used(tmp_path, **METRICS)
    recorders = client._session._recorders
    for held in (recorders["text"]._by_tag, recorders["window"]._nearest):
        held[TEXT] = b""
        assert true_things(client)
        held.clear()
    try:
        local = TEXT
        raise ValueError  # noqa: TRY301 - its frame is what is kept
    except ValueError as error:
        client._session.last_error = error
    assert true_things(client), local


READS = """
import sys, tempfile
from pathlib import Path
sys.path[:0] = sys.argv[1], str(Path(sys.argv[1]).parent)
from support.devices import Clock, device
from test_no_value_in_memory import registry, METRICS

def needle():
    return "".join(chr(ord(letter) ^ 1) for letter in reversed(sys.argv[2]))

def found():
    wanted, number = needle().encode(), 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if " rw" in line and "[v" not in line and end - start < 1 << 28:
                memory.seek(start)
                try:
                    held = memory.read(end - start)
                except OSError:
                    continue
                number += held.count(wanted)
                del held
    return number

clock = Clock()
with tempfile.TemporaryDirectory() as folder:
    client = device(Path(folder), clock=clock, registry=registry(text=METRICS["text"], open=METRICS["open"]))
    kept = []
    for name in ("text", "open"):
        client.record(name, "a page that everybody looks at, it is the same" if sys.argv[3] == "nobody" else needle())
    if sys.argv[3] == "keeper":
        kept.append(needle())
    for day in range(60):
        clock.tomorrow()
        for name in ("text", "open"):
            client.record(name, f"another page, number {day}")
    client.flush()
    print(found())
    client.close()
"""


def memory_of(who):
    """How often the value stands in a process's memory, once some sixty others were recorded after it."""
    hidden = "".join(chr(ord(letter) ^ 1) for letter in reversed("a page that nobody else ever looked at, 51c9e07b"))
    asked = [sys.executable, "-c", READS, str(Path(__file__).parent), hidden, who]
    return int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="memory is read through Linux's /proc")
def test_the_value_stands_in_the_memory_no_longer():
    """`found` itself makes copies, to search for: as many as in a process that never had the value."""
    never, recorded, kept = map(memory_of, ("nobody", "client", "keeper"))
    assert recorded <= never < kept
