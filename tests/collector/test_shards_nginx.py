"""nginx with the example's configuration routes each upload to the collector of its shard, and every retry too."""

from __future__ import annotations

import asyncio
import re
from contextlib import ExitStack
from pathlib import Path

from overstory.protocol.metrics import parse_registry
from support.collector_in_process import REGISTRY, batch_id, upload
from support.lossless import posted
from support.nginx import free_port, nginx, running
from support.served import served

CONFIGURATION = Path(__file__).parents[2] / "examples" / "deploy" / "shards-nginx.conf"
SHARDED = parse_registry(REGISTRY + "\n[shards]\ncount = 4\n")


def balanced(port: int, collectors: list[int]) -> str:
    """Return the example's configuration without TLS and its file of errors, on a port, for collectors on others."""
    text = re.sub(r" *ssl_certificate(_key)? .*\n", "", CONFIGURATION.read_text())
    text = re.sub(r" *error_log .*? crit;\n", "", text)
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    for shard, to in enumerate(collectors):
        assert text.count(f"server 10.0.0.1{shard}:8000;") == 1
        text = text.replace(f"server 10.0.0.1{shard}:8000;", f"server 127.0.0.1:{to};")
    return text


def test_every_upload_sent_twice_is_counted_once_by_the_collector_of_its_shard(tmp_path):
    nginx()
    with ExitStack() as stack:
        collectors = [stack.enter_context(served(metrics=SHARDED, shard=shard)) for shard in range(4)]
        port = free_port()
        server = balanced(port, [address[1] for _, address in collectors])
        door = stack.enter_context(running(tmp_path, server, port))
        for number in range(24):
            batch = number.to_bytes(2, "big") + batch_id()[2:]
            body, path = upload("colour", batch=batch), f"/v1/reports/{number % 4}"
            answers = [asyncio.run(posted(door, body, path=path)) for _ in range(2)]
            assert [answer["results"][0]["duplicate"] for answer in answers] == [False, True]
        stored = [collector.store.num_reports for collector, _ in collectors]
        # The path of another shard: the balancer routes it, and the collector there takes nothing.
        assert asyncio.run(posted(door, upload("colour", batch=bytes(16)), path="/v1/reports/1")) is None
        assert [collector.store.num_reports for collector, _ in collectors] == stored == [6, 6, 6, 6]
