"""A collector over HTTP, its clock set: every page, every reason to refuse; and what its store then holds."""

import functools
import http.client
import json
import os
import random
import signal
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from normal import parsed
from stage import play_frozen, run, scene, serving

USUAL = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Headers of every answer, written down as one line; "usual" names its type where it is plain JSON."""
LEFT_OUT = {"date", "server", "content-length"}


class Talk:  # what is asked of one collector and what it answers, as text
    def __init__(self, address):
        self.address, self._host = address, address.removeprefix("http://")
        self.text = ""
        self.body = b""

    def ask(self, path, body=None, *, method="", about="", **headers):
        """Ask once on a connection of its own, and write the answer down."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self._host, timeout=30)
        connection.request(method or ("GET" if body is None else "POST"), path, body, sent)
        answer = connection.getresponse()
        self.body = answer.read()
        connection.close()
        got = {name.lower(): value for name, value in answer.getheaders() if name.lower() not in LEFT_OUT}
        lines = [f"{name}: {value}" for name, value in sorted(got.items())]
        if USUAL.items() <= got.items():
            rest = got.items() - USUAL.items() - {("content-type", "application/json")}
            lines = ["the usual headers", *(f"{name}: {value}" for name, value in sorted(rest))]
        shown = {name: text if name != "authorization" else text.split(" ")[0] + " ..." for name, text in sent.items()}
        asked = " ".join(
            (method or ("GET" if body is None else "POST"), path, *(f"{k}: {v}" for k, v in shown.items()))
        )
        self.text += "\n".join((f"== {about or asked}", str(answer.status), *lines, ""))
        return self

    def shown(self):
        """Write the body of the last answer down."""
        text = self.body.decode("utf-8")
        self.text += f"{parsed(text)}\n"
        return self


KIND = "application/vnd.overstory.reports"
JSON = "application/json"
DAYS = ("2026-11-18", "2026-11-19", "2026-11-21")
COUNTS = (
    "",
    "?from=2026-11-19&to=2026-11-20",
    "?from=yesterday",
    "?from=2026-11-21&to=2026-11-01",
    "?form=xml",
)
SERVED = "--registry metrics.toml --store golden.db"


def uploaded(metric, period, digest, number, rows, width):
    """One upload as JSON: its reports as cohort and bits."""
    reports = [[cohort, bits.to_bytes(width, "little").hex()] for cohort, bits in rows]
    return {"batch": f"{number:032x}", "metric": metric, "period": period, "digest": digest, "reports": reports}


def colours(seed, count=600):
    """Reports of which two thirds are likely to have the first bit, one third the second."""
    draw = random.Random(seed).random
    return [(0, sum((draw() < (0.6 if bit == n % 3 // 2 else 0.2)) << bit for bit in range(3))) for n in range(count)]


def trees(seed):
    """Random reports of a Bloom filter."""
    random_bits = random.Random(seed).getrandbits
    return [(n % 4, random_bits(32) & random_bits(32)) for n in range(400)]


def posted(*uploads):
    return json.dumps({"uploads": uploads}).encode()


@functools.cache
def collected(place):
    """Run a collector once; by scene, what it was asked and what it answered."""
    made = play_frozen(
        place,
        "store create golden.db --json",
        "store tokens golden.db --add write --application editor --json",
        "store tokens golden.db --add admin --application analysts --expires 2027-11-21 --json",
        "store tokens golden.db --json",
    )
    write, admin = (json.loads(text.partition("exit 0\n")[2])["token"] for text in made[1:3])
    texts = {"tokens": "".join(made)}
    settings = {"COMPACT_EVERY": "0", "QUEUE_REPORTS": "700", "GRACE": "2"}
    with serving(place, *SERVED.split(), **settings) as (url, process):
        texts["posts"], digests = posts(Talk(url), f"Bearer {write}")
        texts["pages"] = pages(Talk(url), f"Bearer {admin}", f"Bearer {write}")
        with patch.dict(os.environ, OVERSTORY_ADMIN_TOKEN=admin):
            texts["decode"] = run(place, f"decode --store {url} --metric colour --aggregate per-period --json")
        texts["decode"] += play_frozen(place, f"doctor --url {url} --registry metrics.toml --json")[0]
        texts["troubles"] = troubles(Talk(url), f"Bearer {write}", digests, place, process)
    return texts


def posts(talk, write):
    """Reports of three days, and every reason to refuse reports; the answers, and the metrics' digests."""
    digests = {}
    for metric in ("colour", "tree", "theme", "tabs", "energy"):
        digests[metric] = json.loads(talk.ask(f"/v1/metrics/{metric}").body)["mechanism_digest"]
    talk.text = ""
    sound = {"content_type": JSON, "authorization": write}

    def post(about, *uploads, **headers):
        body = uploads[0] if uploads and isinstance(uploads[0], bytes) else posted(*uploads)
        talk.ask("/v1/reports", body, about=about, **(sound | headers)).shown()

    for number, day in enumerate(DAYS):
        post(f"colours of {day}", uploaded("colour", day, digests["colour"], number, colours(number), 1))
    post("trees of two weeks, one already sent",
         uploaded("tree", "2026-W46", digests["tree"], 10, trees(10)[:200], 4),
         uploaded("tree", "2026-W47", digests["tree"], 11, trees(11)[:400], 4),
         uploaded("tree", "2026-W46", digests["tree"], 10, trees(10)[:200], 4))  # fmt: skip
    one = uploaded("theme", DAYS[2], digests["theme"], 20, [(0, 1)], 1)
    post("one report", one)
    post("the same again", one)
    binary = place_uploads()
    post("binary, of a gateway", binary, content_type=KIND)
    post("damaged", binary[:-1] + b"?", content_type=KIND)
    post("empty", b"", content_type=KIND)
    post("no JSON", b"no")
    post("a key too many", one | {"more": 1})
    post("a key twice", b'{"uploads": [], "uploads": []}')
    post("no upload")
    post("a wrong type", posted(one), content_type="text/plain")
    post("a wrong encoding", posted(one), content_encoding="br")
    post("no token", one, authorization="")
    post("an unknown token", one, authorization="Bearer guess")
    post("an unknown metric", one | {"metric": "shape"})
    post("other parameters", one | {"digest": "0" * 32, "batch": f"{22:032x}"})
    post("an expired metric", one | {"metric": "ended", "batch": f"{23:032x}"})
    post("a closed period", one | {"period": "2026-09-01", "batch": f"{24:032x}"})
    post("a period to come", one | {"period": "2026-11-24", "batch": f"{25:032x}"})
    post("no period", one | {"period": "yesterday"})
    post("a cohort that there is not, among others",
         uploaded("tree", "2026-W47", digests["tree"], 26, [(4, 1), (0, 2), (9, 3)], 4))  # fmt: skip
    post("only a cohort that there is not", uploaded("tree", "2026-W47", digests["tree"], 27, [(4, 1)], 4))
    post("a bit that there is not", uploaded("colour", DAYS[2], digests["colour"], 28, [(0, 8)], 1))
    post("good and refused ones", one, one | {"metric": "shape"})
    post("too many uploads", *[one] * 1001)
    post("too large", b" " * (9 << 20))
    return talk.text, digests


def place_uploads():
    """Uploads as `gateway` sends them; the recorded scene has them to the last byte."""
    lines = (Path(__file__).with_name("recorded") / "a-gateway.txt").read_text("utf-8").splitlines()
    return bytes.fromhex("".join([line for line in lines if line.startswith("4f565355")][:3]))


def pages(talk, admin, write):
    """Every page, and every reason to refuse one."""
    talk.ask("/", accept=JSON).shown()
    talk.ask("/", accept="text/html")
    for path in (
        "/v1/metrics",
        "/v1/metrics/colour",
        "/v1/metrics/shape",
        "/healthz",
        "/readyz",
        "/nowhere",
        "/v1/reports",
    ):
        talk.ask(path).shown()
    talk.ask("/v1/metrics", method="DELETE").shown()
    talk.ask("/healthz", method="HEAD")
    talk.ask("/metrics")
    counted = sorted(line for line in talk.body.decode().splitlines() if steady(line))
    talk.text += "".join(f"{line}\n" for line in counted)
    counts = "/v1/metrics/colour/counts"
    talk.ask(counts).shown()
    talk.ask(counts, authorization="Bearer guess").shown()
    talk.ask(counts, authorization=write).shown()
    for query in COUNTS:
        talk.ask(counts + query, authorization=admin).shown()
    talk.ask("/v1/metrics/shape/counts", authorization=admin).shown()
    return talk.text


def steady(line):
    """Whether a line of what Prometheus reads is the same in every run: no times, no sizes of this process."""
    return line.startswith("# ") or not any(
        word in line for word in ("python", "process", "seconds", "bytes", "created")
    )


def troubles(talk, write, digests, place, process):
    """What a collector answers when more waits than it takes, when its store cannot be used, and while it ends."""
    sound = {"content_type": JSON, "authorization": write}
    body = posted(uploaded("theme", DAYS[2], digests["theme"], 40, [(0, 1)], 1))
    with closing(sqlite3.connect(place / "golden.db")) as source, closing(sqlite3.connect(place / "kept.db")) as copy:
        source.backup(copy)
        # A collector stores these every few seconds: how much is there depends on how long the scenes took.
        for table in ("tallies", "collectors"):
            copy.execute(f"DELETE FROM {table}")
        copy.commit()
    (place / "kept.db").chmod(0o600)
    many = [posted(uploaded("colour", DAYS[0], digests["colour"], n, colours(n), 1)) for n in (30, 31)]
    waiting = Talk(talk.address)
    post = threading.Thread(target=lambda: waiting.ask("/v1/reports", many[0], about="waits", **sound).shown())
    with closing(sqlite3.connect(place / "golden.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")  # nobody else commits
        post.start()
        while b"overstory_queue_reports 600.0" not in Talk(talk.address).ask("/metrics").body:
            time.sleep(0.01)
        talk.ask("/v1/reports", many[1], about="more than may wait", **sound).shown()
        connection.execute("ROLLBACK")
    post.join()
    talk.text += waiting.text
    with sqlite3.connect(place / "golden.db") as connection:
        connection.execute("ALTER TABLE inbox RENAME TO gone")
    talk.ask("/v1/reports", body, about="the store fails", **sound).shown()
    talk.ask("/readyz", about="readiness while the store fails").shown()
    with sqlite3.connect(place / "golden.db") as connection:
        connection.execute("ALTER TABLE gone RENAME TO inbox")
    kept = talk.text
    process.send_signal(signal.SIGTERM)
    for _ in range(100):
        talk.text = kept
        talk.ask("/v1/reports", body, about="the collector ends", **sound).shown()
        if b"closing" in talk.body:
            break
        time.sleep(0.01)
    return talk.ask("/readyz", about="readiness while it ends").shown().text


@scene
def http_posts(place):
    """POST /v1/reports."""
    return collected(place)["posts"]


@scene
def http_pages(place):
    """The public pages, counts, health."""
    return collected(place)["pages"]


@scene
def http_troubles(place):
    """A store that fails, a collector that ends."""
    return collected(place)["troubles"]


@scene
def decode_of_a_collector(place):
    """Estimates of a collector by its address; what is wrong with it."""
    return collected(place)["decode"]


@scene
def store_tokens(place):
    """Tokens are made and listed."""
    return collected(place)["tokens"]
