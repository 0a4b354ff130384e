"""Sharded collectors behind a balancer that routes by path, or badly; and devices that send until they are answered."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from overstory.protocol.metrics import load_registry
from support.collector_processes import CollectorProcess
from support.faulty_network import Address, FaultyNetwork
from support.lossless import Books, rounds, write_registry

_PATH = re.compile(rb"POST /v1/reports(?:/(\d+))? ")


def shard_in(request: bytes) -> int:
    """Return the shard that a request's path names; 0 where it names none."""
    matched = _PATH.match(request)
    assert matched, request[:60]
    return int(matched[1] or 0)


@dataclass
class Balancer(FaultyNetwork):
    """Forwards a request to the collector of the shard in its path, which may be down; at random where that is meant.

    Parameters
    ----------
    at_random
        Whether any collector is chosen, whatever the path.
    """

    at_random: bool = False

    def known(self, request: bytes) -> list[Address]:
        """Return the address of the shard's collector, while it runs."""
        listed = self.collectors()
        chosen = listed if self.at_random else [listed[shard_in(request)]]
        return [address for address in chosen if address[1]]


def write_sharded_registry(folder: Path, table: str) -> Path:
    """Write the metrics, with a table [shards] of these lines; without lines, none."""
    path = write_registry(folder)
    if table:
        path.write_text(path.read_text() + f"\n[shards]\n{table}\n")
    return path


def collectors_of(path: Path, folder: Path, count: int) -> list[CollectorProcess]:
    """Return one collector of each shard, each on a store of its own; not started yet."""
    sharded = load_registry(path).shards is not None
    return [
        CollectorProcess(
            path,
            f"sqlite:///{folder / f'shard{shard}.db'}",
            ("--open-writes", *(("--shard", str(shard)) if sharded else ())),
        )
        for shard in range(count)
    ]


def run_rounds(
    folder: Path, table: str, *, count: int, number: int, seed: int, at_random: bool = False
) -> tuple[Books, Mapping[str, int], list[str]]:
    """Run the rounds; return the books, what happened, and the stores."""
    path = write_sharded_registry(folder, table)
    running = collectors_of(path, folder, count)
    network = Balancer(lambda: [c.address or ("", 0) for c in running], seed=seed, at_random=at_random)
    books, met = asyncio.run(rounds(running, network, path, number=number, seed=seed, at_once=6))
    return books, met, [collector.store for collector in running]
